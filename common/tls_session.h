// TlsSession: one side of a TLS connection over a non-blocking socket, mostly the server's: handshake,
// records, the two ends. Transport drives it; its own *ready* flags are those of the socket below the
// records, by the rules of epoll(7), so that a record layer that asks for more than is there costs no
// syscall.
//
//   handshake() ──done──▶ read(), write() ──send_close()──▶ our side has ended
//        └────────────────────┴── Error: broken, nothing more is said on it
//
// A read may have to write first and a write to read (key updates): read_wants_write(), write_wants_read().
// A write that would block has been sealed already: what was presented must be presented again, with or
// without more behind it, which is how relays gather. An end of the peer, by close_notify or by a FIN alone,
// is Eof. Knows nothing of epoll; does not own the socket. One thread.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "common/io_result.h"
#include "common/tls_context.h"

struct ssl_st;

namespace dlb {

enum class TlsVersion : std::uint8_t { Tls12, Tls13 };

class TlsSession {
 public:
  // One record: what a write takes at most.
  static constexpr std::size_t kRecordBytes = 16 * 1024;

  // For an accepted socket that stays open for the session's life. Null when memory is out. The context may
  // go before the session does.
  static std::unique_ptr<TlsSession> accept(const TlsContext& context, int fd);
  // The client's side, with a context of TlsContext::client(). `host` is the name or the address that the
  // peer's certificate must be for, where the context verifies at all.
  static std::unique_ptr<TlsSession> connect(const TlsContext& context, int fd, const std::string& host);
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;
  ~TlsSession();

  // What is known of the socket.
  void note_readable() { readable_ = true; }
  void note_writable() { writable_ = true; }
  // A FIN, RST or urgent mark may stand behind what can be read: a short read does not mean "empty" any more.
  void note_finished() { finished_ = true; }

  // Ok: done (bytes is 0). Eof: the client left. Error: EPROTO for what is not TLS as we speak it (the client
  // has been sent an alert where that makes sense), else a socket's errno.
  IoResult handshake();
  IoResult read(std::span<char> into);
  // Takes at most one record's worth of the parts.
  IoResult write(const iovec* parts, int count);
  // Sends close_notify, once: Ok when it is on its way or can't be sent any more. Not after a write that
  // would block: half a record is visibly no end.
  IoResult send_close();

  // From now on no close_notify is sent: what was written is not complete.
  void withhold_close() { close_sent_ = true; }

  bool established() const { return established_; }
  bool read_wants_write() const { return read_wants_write_; }
  bool write_wants_read() const { return write_wants_read_; }
  // Whether a read could find anything: bytes in the socket or in the record layer.
  bool may_have_input() const;

  // Why the peer's certificate is not believed, after a handshake that failed; empty when it isn't that.
  std::string distrust() const;

  // When the peer's certificate expires, in seconds since 1970; 0 when it has shown none. Also where it is not
  // believed.
  std::int64_t peer_expires_at() const;

  // Of an established session.
  TlsVersion version() const;
  bool resumed() const;

 private:
  friend struct TlsSocketBio;

  TlsSession(ssl_st* ssl, int fd) : ssl_(ssl), fd_(fd) {}
  static std::unique_ptr<TlsSession> make(const TlsContext& context, int fd);
  IoResult failed(int rc, bool* wants_other, int own_want);

  ssl_st* ssl_;
  int fd_;
  bool readable_ = true;
  bool writable_ = true;
  bool finished_ = false;
  bool at_end_ = false;  // the socket has been read to its end
  bool established_ = false;
  bool broken_ = false;
  bool write_pending_ = false;  // a sealed record is not out yet
  bool close_sent_ = false;
  bool read_wants_write_ = false;
  bool write_wants_read_ = false;
};

}  // namespace dlb
