#include "lb/listener.h"

#include <cstddef>

#include "common/socket.h"
#include "lb/options.h"

namespace dlb::lb {
namespace {

constexpr int kBacklog = 4096;
// Unsent bytes that the kernel may hold for a client before it says "not writable": bounds memory, keeps
// latency low.
constexpr std::size_t kNotSentLowWatermark = 64 * 1024;

Result<Fd> open_one(const std::string& text, std::string_view option, const Options& options,
                    const LoadedOptions& loaded, InheritedSockets& inherited) {
  auto address = Address::parse(text);
  if (!address) return loaded.at(option, address.error().text);
  // Accepted sockets inherit the listener's options: nothing is to be set on each of them.
  const SocketBuffers buffers{static_cast<std::size_t>(options.socket_read_buffer_bytes.bytes),
                              static_cast<std::size_t>(options.socket_write_buffer_bytes.bytes)};
  if (Fd handed_over = inherited.take(*address)) {
    if (!address->is_unix()) set_no_delay(handed_over.get());
    set_socket_buffers(handed_over.get(), buffers);
    set_not_sent_low_watermark(handed_over.get(), kNotSentLowWatermark);
    return handed_over;
  }
  auto listener = listen_on(*address, kBacklog, buffers);
  if (!listener) {
    return loaded.at(option, listener.error().text + "; stop what uses the port or choose another address");
  }
  set_not_sent_low_watermark(listener->get(), kNotSentLowWatermark);
  return listener;
}

}  // namespace

Result<std::vector<Listener>> open_listeners(const Options& options, const LoadedOptions& loaded,
                                             InheritedSockets& inherited) {
  std::vector<Listener> listeners;
  const auto open = [&](ListenerKind kind, const std::string& address,
                        std::string_view option) -> Result<void> {
    auto fd = open_one(address, option, options, loaded, inherited);
    if (!fd) return fd.error();
    listeners.push_back({kind, std::string(option), std::move(*fd)});
    return {};
  };
  if (auto opened = open(ListenerKind::Http, options.listen, "listen"); !opened) return opened.error();
  if (!options.tls_listen.empty()) {
    auto opened = open(ListenerKind::Https, options.tls_listen, "tls-listen");
    if (!opened) return opened.error();
  }
  // In the order of make_tunnel_pools().
  std::uint32_t pool = 0;
  const auto tunnel_listener = [&] {
    listeners.back().pool = pool++;
    set_urgent_inline(listeners.back().fd.get());
  };
  for (const TcpOption& tcp : options.tcp) {
    if (auto opened = open(ListenerKind::Tcp, tcp.listen, "tcp"); !opened) {
      return Error{tcp.place + ": " + opened.error().text};
    }
    tunnel_listener();
  }
  if (!options.wss_listen.empty()) {
    if (auto opened = open(ListenerKind::Wss, options.wss_listen, "wss-listen"); !opened)
      return opened.error();
    tunnel_listener();
  }
  return listeners;
}

bool ListenerAcceptor::accept_batch() {
  const std::uint64_t before = acceptor_.accepted();
  acceptor_.on_events(0);
  return acceptor_.accepted() != before;
}

}  // namespace dlb::lb
