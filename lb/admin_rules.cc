#include "lb/admin_rules.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>

#include "common/http_message.h"
#include "lb/path_rules.h"

namespace dlb::lb {
namespace {

constexpr std::string_view kBackends = "/lb/backends/";
constexpr std::uint32_t kMaxWeight = 65535;

// `authority` without its port, an IPv6 address without its brackets.
std::string_view host_of(std::string_view authority) {
  if (authority.starts_with('[')) {
    const std::size_t end = authority.find(']');
    return end == std::string_view::npos ? std::string_view{} : authority.substr(1, end - 1);
  }
  return authority.substr(0, authority.rfind(':'));
}

}  // namespace

AdminRoute admin_route(std::string_view path) {
  using Kind = AdminRoute::Kind;
  if (path == "/lb/reload") return {Kind::Reload, {}};
  if (!path.starts_with(kBackends)) return {path.starts_with("/lb/") ? Kind::Page : Kind::Nothing, {}};
  path.remove_prefix(kBackends.size());
  Kind kind = Kind::Show;
  const std::size_t slash = path.rfind('/');
  const std::string_view action = slash == std::string_view::npos ? std::string_view{} : path.substr(slash);
  if (action == "/drain") kind = Kind::Drain;
  if (action == "/ready") kind = Kind::Ready;
  if (action == "/weight") kind = Kind::Weight;
  if (kind != Kind::Show) path = path.substr(0, slash);
  return {path.empty() ? Kind::Nothing : kind, percent_decoded(path)};
}

std::optional<std::uint32_t> weight_value(std::string_view query) {
  constexpr std::string_view kName = "value=";
  if (!query.starts_with(kName)) return std::nullopt;
  query.remove_prefix(kName.size());
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(query.data(), query.data() + query.size(), value);
  if (error != std::errc() || end != query.data() + query.size() || value > kMaxWeight) return std::nullopt;
  return value;
}

bool host_is_ours(std::string_view authority, bool beyond_loopback, std::span<const std::string> names) {
  if (authority.empty()) return true;
  const std::string host(host_of(authority));
  if (equals_ignoring_case(host, "localhost")) return true;
  if (std::ranges::any_of(names, [&](const std::string& name) { return equals_ignoring_case(host, name); }))
    return true;
  in_addr v4{};
  in6_addr v6{};
  if (::inet_pton(AF_INET, host.c_str(), &v4) == 1)
    return beyond_loopback || (ntohl(v4.s_addr) >> 24) == IN_LOOPBACKNET;
  return ::inet_pton(AF_INET6, host.c_str(), &v6) == 1 && (beyond_loopback || IN6_IS_ADDR_LOOPBACK(&v6));
}

bool origin_is_ours(std::string_view origin, std::string_view authority) {
  constexpr std::string_view kScheme = "http://";
  return origin.starts_with(kScheme) && !authority.empty() &&
         equals_ignoring_case(origin.substr(kScheme.size()), authority);
}

bool bearer_is(std::string_view authorization, std::string_view token) {
  constexpr std::string_view kScheme = "Bearer ";
  if (token.empty() || authorization.size() < kScheme.size()) return false;
  if (!equals_ignoring_case(authorization.substr(0, kScheme.size()), kScheme)) return false;
  std::string_view given = authorization.substr(kScheme.size());
  while (given.starts_with(' ')) given.remove_prefix(1);
  // Every character of what was given is looked at, whatever the first difference is.
  unsigned different = given.size() == token.size() ? 0 : 1;
  for (std::size_t i = 0; i < given.size(); ++i) {
    different |= static_cast<unsigned>(static_cast<unsigned char>(given[i]) ^
                                       static_cast<unsigned char>(token[i % token.size()]));
  }
  return different == 0;
}

}  // namespace dlb::lb
