#include "lb/tunnel_options.h"

#include <fmt/format.h>

#include "lb/tunnel_pool.h"

namespace dlb::lb {
namespace {

Error located(std::string_view place, std::string_view text) {
  return Error{place.empty() ? std::string(text) : fmt::format("{}: {}", place, text)};
}

Result<Address> target_address(std::string_view name, const std::string& text) {
  auto address = Address::parse(text);
  if (!address) return Error{fmt::format("{} \"{}\": {}", name, text, address.error().text)};
  if (!address->is_unix() && address->port() == 0) {
    return Error{fmt::format("{} \"{}\": port 0 can't be connected to", name, text)};
  }
  return address;
}

Result<void> finish_tcp(TcpOption& tcp) {
  if (tcp.listen.empty()) return located(tcp.place, "[[tcp]] needs listen, for example listen = \":9000\"");
  if (tcp.backends.empty() || tcp.backends.size() > TunnelPool::kMaxBackends) {
    return located(tcp.place, fmt::format("[[tcp]] needs 1 to {} backends, for example backends = "
                                          "[\"127.0.0.1:9001\"]",
                                          TunnelPool::kMaxBackends));
  }
  tcp.addresses.clear();
  for (const std::string& text : tcp.backends) {
    auto address = target_address("backends", text);
    if (!address) return located(tcp.place, address.error().text);
    tcp.addresses.push_back(*address);
  }
  return {};
}

Result<void> finish_wss(const LoadedOptions& loaded, Options& options) {
  if (!options.wss_backends.empty()) {
    if (options.wss_backends.size() != options.backends.size()) {
      return loaded.at("wss-backends",
                       fmt::format("{} addresses for {} backends; give one for each, in order",
                                   options.wss_backends.size(), options.backends.size()));
    }
    for (std::size_t i = 0; i < options.backends.size(); ++i) {
      BackendOption& backend = options.backends[i];
      if (!backend.wss.empty()) {
        return located(backend.place, "wss is given twice; use only one of wss and wss-backends");
      }
      backend.wss = options.wss_backends[i];
    }
    options.wss_backends.clear();
  }
  std::size_t count = 0;
  for (BackendOption& backend : options.backends) {
    if (backend.wss.empty()) continue;
    auto address = target_address("wss", backend.wss);
    if (!address) return located(backend.place, address.error().text);
    backend.wss_address = *address;
    ++count;
  }
  if (options.wss_listen.empty()) return {};
  if (count == 0 || count > TunnelPool::kMaxBackends) {
    return loaded.at("wss-listen", fmt::format("{} backends have a wss address; 1 to {} are needed", count,
                                               TunnelPool::kMaxBackends));
  }
  return {};
}

}  // namespace

Result<void> finish_tunnel_options(const LoadedOptions& loaded, Options& options) {
  if (auto finished = finish_wss(loaded, options); !finished) return finished;
  for (TcpOption& tcp : options.tcp) {
    if (auto finished = finish_tcp(tcp); !finished) return finished;
  }
  return {};
}

}  // namespace dlb::lb
