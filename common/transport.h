// Transport: one connected stream socket with its *ready* state, plain or, after start_tls(), TLS behind the
// same calls.
//
// read() and write() do no syscall when the direction is known not to be ready, and they clear ready by the
// rules of epoll(7): on EAGAIN, or on a short transfer unless the peer's FIN or a hang-up has been seen (then
// the rest must be read to find it), or urgent data (a read stops at its mark, so a short one says nothing).
// The owner feeds every epoll event to note_events() first. Owns the fd; registers it once.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "common/event_loop.h"
#include "common/fd.h"
#include "common/io_result.h"
#include "common/pipe_pool.h"
#include "common/tls_session.h"

namespace dlb {

class Transport {
 public:
  Transport() = default;
  Transport(Transport&&) = default;
  Transport& operator=(Transport&&) = default;

  // Takes a connected or connecting socket. The first edges come after attach(). An accepted socket may be
  // read at once: ready starts true in both directions unless `connecting`.
  explicit Transport(Fd fd, bool connecting = false)
      : fd_(std::move(fd)), read_ready_(!connecting), write_ready_(!connecting) {}

  Result<void> attach(EventLoop& loop, EventHandler& handler);
  void close(EventLoop& loop);  // idempotent
  // A transport that was moved: its events go to the new owner.
  void rebind(EventLoop& loop, EventHandler& handler) { loop.rebind(source_, handler); }
  bool open() const { return static_cast<bool>(fd_); }
  int fd() const { return fd_.get(); }
  SourceId source() const { return source_; }

  void note_events(std::uint32_t events) {
    if ((events & (EPOLLIN | EPOLLPRI | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) read_ready_ = true;
    if ((events & EPOLLPRI) != 0) urgent_seen_ = true;
    if ((events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0) write_ready_ = true;
    if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) peer_finished_ = true;
    if ((events & (EPOLLHUP | EPOLLERR)) != 0) hung_up_ = true;
    if (tls_) note_tls_events(events);
  }

  bool read_ready() const { return read_ready_; }
  bool write_ready() const { return write_ready_; }
  bool peer_finished() const { return peer_finished_; }  // FIN, RST or HUP seen: a half-close at least
  bool hung_up() const { return hung_up_; }              // RST or HUP seen: the peer is gone

  IoResult read(std::span<char> into);
  IoResult write(std::span<const char> bytes);
  IoResult writev(const iovec* parts, int count);
  // Whether what is on the wire is what is read and written: plain sockets, never TLS.
  bool can_splice() const { return !tls_; }
  // Move bytes between the socket and a pipe without copying them, and keep the pipe's count. The pipe must
  // be empty before splice_to (else a full pipe would look like an empty socket).
  IoResult splice_to(Pipe& pipe, std::size_t most);
  // `more`: further bytes follow at once, so that no small packet is sent for these.
  IoResult splice_from(Pipe& pipe, bool more);
  // Our side ends, behind what was written: close_notify when TLS, and FIN.
  void shutdown_write();
  // The end of our side is still to go out: an edge will bring it on.
  bool shutdown_waits() const { return close_waits_; }
  // Before close() at a clean end: with TLS, a close_notify. False when there is no room for it now. Plain:
  // nothing.
  bool say_goodbye() { return !tls_ || tls_->send_close().status != IoStatus::WouldBlock; }
  // What was written is not complete: with TLS, its end is not to look like one.
  void withhold_goodbye() {
    if (tls_) tls_->withhold_close();
  }

  // --- TLS
  // From here on bytes go through a session, which handshake() begins. False when memory is out.
  bool start_tls(const TlsContext& context);
  // The same as the side that has connected; see TlsSession::connect.
  bool start_tls_client(const TlsContext& context, const std::string& host);
  // Ok when read() and write() may follow. Eof, Error: it failed; the connection is of no use.
  IoResult handshake();
  const TlsSession* tls() const { return tls_.get(); }  // null: plain

 private:
  IoResult finish_write(ssize_t sent, int err, std::size_t wanted);
  void note_tls_events(std::uint32_t events);
  IoResult tls_read(std::span<char> into);
  IoResult tls_write(const iovec* parts, int count);

  Fd fd_;
  std::unique_ptr<TlsSession> tls_;
  SourceId source_;
  bool read_ready_ = false;
  bool write_ready_ = false;
  bool peer_finished_ = false;
  bool hung_up_ = false;
  bool close_waits_ = false;  // TLS: close_notify, then FIN, when there is room
  bool urgent_seen_ = false;
};

}  // namespace dlb
