// HttpServer: a small, correct HTTP/1.1 server on one loop, plain or TLS: the backend's API and the
// balancer's admin listener. It owns connections, framing, limits, timeouts and closing; a HttpService
// decides what to answer, at once or later, or takes the connection over (upgrades).
//
//   accept ─▶ idle ─▶ head ─▶ body ─▶ on_request() ... respond() ─▶ writing ─▶ idle | lingering ─▶ closed
//                                on_abandoned() ◀── the client left before respond()
//
// Requests of one connection are handed over one at a time and answered in order; while one is in progress
// nothing more is read from it. A half-closed client gets its answers. Bodies come whole (length or chunked),
// up to max_body_bytes. Refusals by the server itself are JSON, `{"error":"<code>","detail":"<sentence>"}`,
// followed by a lingering close so that they arrive. An idle connection holds no buffer. One thread only;
// nothing throws.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/acceptor.h"
#include "common/address.h"
#include "common/buffer.h"
#include "common/clock.h"
#include "common/event_loop.h"
#include "common/fd.h"
#include "common/http_body.h"
#include "common/http_message.h"
#include "common/http_parser.h"
#include "common/slab.h"
#include "common/socket.h"
#include "common/timer_list.h"
#include "common/tls_context.h"
#include "common/transport.h"

namespace dlb {

// Valid only during on_request(): copy what is needed later.
struct HttpRequest {
  const RequestHead& head;
  std::string_view body;  // whole and unchunked; empty when there is none
  const Address& peer;
  TimePoint received;  // when the head was complete
  bool tls = false;
};

// Names one request in progress; never 0, never resolves again once it was answered or abandoned. It may sit
// in queues, mailboxes and database callbacks.
using HttpToken = std::uint64_t;

class HttpService {
 public:
  // Answer with respond() now or later, exactly once, unless on_abandoned() comes first.
  virtual void on_request(HttpToken token, const HttpRequest& request) = 0;
  // The client left, or was cut: cancel the work. respond() for this token does nothing any more. Not called
  // after respond(), nor from inside on_request().
  virtual void on_abandoned(HttpToken token) = 0;

 protected:
  ~HttpService() = default;
};

struct HeaderLine {
  std::string_view name;
  std::string_view value;
};

// A connection that was taken over: its socket, what was read from it behind the request, and whose it is.
struct TakenConnection {
  Transport transport;  // still registered for the session that gave it away: rebind() it
  std::string input;
  Address peer;
};

struct HttpServerOptions {
  std::size_t max_connections = 2600;        // at the cap the oldest idle connection goes, else the new one
  std::size_t max_body_bytes = 1024 * 1024;  // over it 413
  std::size_t max_total_body_bytes = 64 * 1024 * 1024;  // of all bodies being collected; over it 503
  HeadLimits head_limits{};
  Duration header_timeout = std::chrono::seconds(10);  // total, from a request's first byte: 408
  Duration body_timeout = std::chrono::seconds(30);    // without progress: 408
  Duration idle_timeout = std::chrono::seconds(60);    // between requests, and before the first: silent close
  Duration write_timeout = std::chrono::seconds(30);   // without progress: cut
  Duration linger_timeout = std::chrono::seconds(5);   // reading and dropping behind a last answer, total
  std::size_t min_rate = 1024;                         // bytes per second over min_rate_window, 0 off: slower
  Duration min_rate_window = std::chrono::seconds(30);  // readers and uploaders are cut
  SocketBuffers socket_buffers{};
  std::shared_ptr<const TlsContext> tls{};  // null: plain; its handshakes end within header_timeout
  bool proxy_protocol = false;  // each connection begins with a PROXY header, v1 or v2, and is its source's
  unsigned token_tag = 0;       // 0 or 1: tells the tokens of two servers with one service apart
  // Whole lines with CRLF that stand in every answer, refusals too: `X-Backend: sys2\r\n`.
  std::string fixed_header_lines{};
};

struct HttpServerCounters {
  std::uint64_t connections_accepted = 0;
  std::uint64_t connections_refused = 0;    // at the cap, nothing idle
  std::uint64_t connections_reclaimed = 0;  // idle ones closed at the cap
  std::uint64_t requests = 0;               // handed to the service
  std::uint64_t responses = 0;              // completely written
  std::uint64_t refusals = 0;     // answered by the server itself: bad heads, 408, 413, 417, 501, 503
  std::uint64_t abandoned = 0;    // the client left before respond()
  std::uint64_t interrupted = 0;  // broken while a response was being written
  std::uint64_t idle_timeouts = 0;
  std::uint64_t header_timeouts = 0;
  std::uint64_t body_timeouts = 0;
  std::uint64_t write_timeouts = 0;
  std::uint64_t slow_clients = 0;       // cut by min_rate
  std::uint64_t taken_over = 0;         // connections given away by take_over()
  std::uint64_t tls_handshakes = 0;     // that succeeded
  std::uint64_t tls_failures = 0;       // of the others: not TLS, no common settings, left, late
  std::uint64_t proxy_headers_bad = 0;  // connections closed for it
  std::uint64_t bytes_read = 0;
  std::uint64_t bytes_written = 0;

  HttpServerCounters& operator+=(const HttpServerCounters& other);
};

class HttpSession;
class HttpExchange;

// `{"error":"<code>","detail":"<detail>"}` with `detail` escaped; both must be valid UTF-8.
HttpBody error_body(std::string_view code, std::string_view detail);

class HttpServer final : public AcceptHandler, public TurnEndHook {
 public:
  static constexpr std::string_view kJson = "application/json";

  // `listener` is a listening non-blocking socket, own or inherited. `loop` and `service` must outlive the
  // server.
  HttpServer(EventLoop& loop, Fd listener, HttpService& service, HttpServerOptions options);
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  ~HttpServer();  // closes all connections without telling the service

  // The token_tag of the server that made `token`.
  static unsigned tag_of(HttpToken token) { return (token & kTagBit) != 0 ? 1 : 0; }

  // Answers `token`; nothing happens when it is stale. Content-Length, Date, Connection and the fixed lines
  // are the server's; `headers` are the rest and are copied (names and values must hold no CR or LF). The
  // body's parts are referenced until they are written, never copied. To HEAD the same head goes out without
  // the body; 204 and 304 carry none. `close` ends the connection behind this answer. Empty `content_type`:
  // no such field.
  void respond(HttpToken token, int status, std::string_view content_type,
               std::span<const HeaderLine> headers, HttpBody body, bool close = false);
  // The same with error_body().
  void respond_error(HttpToken token, int status, std::string_view code, std::string_view detail,
                     std::span<const HeaderLine> headers = {}, bool close = false);
  // Takes the connection of `token` away from the server, from inside on_request() for it only: nothing of
  // the request is answered. Nothing when it is stale or the request came with a body.
  std::optional<TakenConnection> take_over(HttpToken token);
  // For connections from now on; those that are there keep theirs. Only where TLS is served.
  void set_tls(std::shared_ptr<const TlsContext> context);

  // From now on every answer carries `Connection: close`; the listener stays open, idle connections stay
  // until their next answer, their idle timeout or close_idle().
  void begin_drain();
  bool draining() const { return draining_; }
  // The listener's last: takes whom the kernel has let connect already, since closing it would reset them; a
  // bounded number, so that those who keep coming can't hold the loop.
  void accept_waiting();
  void close_listener();  // idempotent
  void close_idle();      // connections between requests; one whose next request has arrived goes on
  // Closes all connections at once, tells the service of requests it still holds; returns how many exchanges
  // (in progress, or being written) were cut.
  std::size_t cut_all();

  std::size_t open_connections() const;
  std::size_t active_exchanges() const;  // requests from a complete head to the last byte of their answer
  std::uint16_t port() const;            // the listener's own, also when it was bound to 0
  const HttpServerCounters& counters() const { return counters_; }
  const HttpServerOptions& options() const { return options_; }

  void on_accept(Fd fd, const Address& peer) override;
  void on_turn_end() override;

 private:
  friend class HttpSession;
  static constexpr HttpToken kTagBit = HttpToken{1} << 31;  // above every index in a slab

  HttpToken token_of(Handle<HttpExchange> exchange) const;
  HttpExchange* exchange_of(HttpToken token) const;
  bool reclaim_idle();
  void run_handshakes();

  struct Parts;  // what sessions share: pools, timer lists, slabs, the parser and scratch space

  EventLoop& loop_;
  HttpService& service_;
  HttpServerOptions options_;
  Fd listener_;
  std::uint16_t port_ = 0;
  std::unique_ptr<Acceptor> acceptor_;
  HttpServerCounters counters_;
  std::unique_ptr<Parts> parts_;
  std::deque<Handle<HttpSession>> handshakes_;  // connections whose handshake has something to do
  bool draining_ = false;
};

}  // namespace dlb
