// Listener: one listening socket of the process, with what is done with its connections; and
// ListenerAcceptor, a worker's share in it. All workers accept from the same sockets. They are opened before
// the first thread starts, and closed by the last worker that stops accepting.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/acceptor.h"
#include "common/fd.h"
#include "common/option.h"
#include "common/result.h"
#include "common/service_manager.h"

namespace dlb::lb {

struct Options;

enum class ListenerKind : std::uint8_t {
  Http,   // listen
  Https,  // tls-listen
  Tcp,    // a [[tcp]] table
  Wss,    // wss-listen
};

struct Listener {
  ListenerKind kind = ListenerKind::Http;
  std::string option;  // the option that it comes from, for messages and logs
  Fd fd;
  std::uint32_t pool = 0;  // of Tcp and Wss: which of Shared::tunnel_pools
};

// Opens every listener of `options`, or takes it out of `inherited`. The error is one line that names the
// option and says what to do.
Result<std::vector<Listener>> open_listeners(const Options& options, const LoadedOptions& loaded,
                                             InheritedSockets& inherited);

class ListenerHandler {
 public:
  // A new non-blocking, close-on-exec socket. Dropping the Fd refuses the client.
  virtual void on_accept(const Listener& listener, Fd fd, const Address& peer) = 0;

 protected:
  ~ListenerHandler() = default;
};

// Accepts on `loop` for as long as it lives. One thread.
class ListenerAcceptor final : public AcceptHandler {
 public:
  ListenerAcceptor(EventLoop& loop, const Listener& listener, ListenerHandler& handler)
      : listener_(listener), handler_(handler), acceptor_(loop, listener.fd.get(), *this) {}

  void on_accept(Fd fd, const Address& peer) override { handler_.on_accept(listener_, std::move(fd), peer); }
  // Connections that come from now on wake somebody else.
  void stop_watching() { acceptor_.stop(); }
  // Takes one batch out of the backlog now; false when nothing was there.
  bool accept_batch();

 private:
  const Listener& listener_;
  ListenerHandler& handler_;
  Acceptor acceptor_;
};

}  // namespace dlb::lb
