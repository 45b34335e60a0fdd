// HttpSession: one client connection of an HttpServer, and HttpExchange: one request on it with its answer.
// Internal to http_server.
//
//            first byte          head complete          body complete              respond()
//   Idle ───────────────▶ Head ───────────────▶ Body ───────────────▶ Handling ───────────────▶ Writing
//    ▲                     │ bad, late           │ too big, bad, late                            │ │
//    │                     └──────────▶ Writing ◀┘ (the server's own refusal)       kept, written │ │
//    closing, written
//    └────────────────────────────────────────────────────────────────────────────────────────────┘ ▼
//                                                                        Closed ◀── FIN, late ── Lingering
//
// On a listener with PROXY headers or TLS: ProxyHeader ─▶ Greeting ─▶ Handshake ─▶ Idle
// (http_session_front.cc). Any state goes to Closed when the connection breaks. Each state but Handling has
// one deadline, in the one timer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "common/buffer.h"
#include "common/chunked.h"
#include "common/http_response.h"
#include "common/http_server.h"
#include "common/transport.h"

namespace dlb {

// Lives from a complete head to the last byte of the answer; its packed handle is the HttpToken.
class HttpExchange {
 public:
  explicit HttpExchange(Handle<HttpExchange> handle) : self(handle) {}

  const Handle<HttpExchange> self;
  Handle<HttpSession> session;
  TimePoint received{};
  std::string body;  // what has been collected; empty when the body came together with the head
  std::uint64_t body_bytes_counted = 0;  // in Parts::body_bytes
  ResponseCursor cursor;
  bool head_only = false;   // HEAD
  bool keep_alive = false;  // what the client wants
  bool http10 = false;
  bool dispatched = false;  // the service knows it
  bool answered = false;
  bool closing = false;  // the connection ends behind this answer
};

class HttpSession final : public EventHandler, public TimerHandler {
 public:
  HttpSession(HttpServer& server, Fd fd, const Address& peer, Handle<HttpSession> self);

  bool start();  // false: it could not be registered

  void on_events(std::uint32_t events) override;
  void on_timer(Timer& timer) override;

  // The service's answer to the exchange in progress. May close.
  void respond(HttpExchange& exchange, int status, std::string_view content_type,
               std::span<const HeaderLine> headers, HttpBody body, bool close);

  // See HttpServer::take_over().
  std::optional<TakenConnection> take_over(HttpExchange& exchange);
  // The next step of a handshake that has joined the server's line. May close.
  void handshake_step();
  SourceId source() const { return transport_.source(); }

  // Between requests: closes, unless a request turns out to have come.
  void close_if_idle();
  // At once; the service is told of a request it still holds unless `silent`.
  void close(bool silent = false);

 private:
  enum class State : std::uint8_t {
    ProxyHeader,  // the PROXY header is awaited, or part of it is here
    Greeting,     // TLS: the first byte is awaited; no session yet
    Handshake,    // TLS: under way, in the server's line whenever there is something to do
    Idle,         // between requests; holds no buffer
    Head,         // part of a head is here
    Body,         // the head is complete, the body is being collected
    Handling,     // the service has it; nothing is read
    Writing,      // an answer is on its way
    Lingering,    // the last answer is written and our side shut; what comes is dropped
    Closed,
  };
  enum class Step : std::uint8_t { Again, Wait };

  static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

  void drive();
  Step step();
  State first_state() const;
  bool untouched() const;
  Step read_proxy_header();
  Step begin_handshake();
  Step join_handshakes();
  Step read_head();
  Step head_complete(std::size_t head_bytes);
  Step start_body(HttpExchange& exchange, std::size_t head_bytes);
  Step read_body();
  Step read_body_length(HttpExchange& exchange);
  Step read_body_chunked(HttpExchange& exchange);
  Step decode_chunks(HttpExchange& exchange);
  Step body_complete(HttpExchange& exchange);
  Step dispatch_buffered(HttpExchange& exchange, std::size_t head_bytes, std::size_t body_bytes);
  void dispatch(HttpExchange& exchange, std::string_view body);
  Step write_answer();
  void answer_written(HttpExchange& exchange);
  void start_lingering();
  Step drop_input();

  // The server's own answer, then a lingering close.
  Step refuse(int status, std::string_view detail);
  Step refuse_head(const ParseResult& result);
  bool add_body(HttpExchange& exchange, std::string_view bytes);

  bool write_interim();  // the 100; false when the connection broke
  IoResult read_into(std::span<char> room);
  bool make_room();  // in buffer_, by a larger block if need be
  void enter(State state, TimerList* deadline);
  void watch_rate();
  bool rate_is_low();
  HttpExchange& new_exchange();
  HttpExchange* exchange();
  void release_body(HttpExchange& exchange);
  void retire_exchange();

  HttpServer& server_;
  HttpServer::Parts& parts_;
  const Handle<HttpSession> self_;
  Transport transport_;
  Timer timer_;
  Timer rate_timer_;
  Buffer buffer_;      // input that is not done with
  Buffer head_block_;  // the head, while its body is being collected
  std::size_t scanned_ = 0;
  std::size_t request_bytes_ = 0;  // of the request at the front of buffer_ that on_request() runs for
  std::uint64_t remaining_ = 0;    // of a body with a length
  std::uint64_t progress_ = 0;     // bytes moved since the last look at the rate
  Handle<HttpExchange> exchange_;
  ChunkDecoder decoder_;
  Address peer_;
  State state_ = State::Idle;
  std::uint8_t interim_left_ = 0;  // bytes of the 100 still to be written
  bool chunked_ = false;
  bool driving_ = false;
  bool in_service_ = false;  // on_request() is running: its views must stay
  bool began_ = false;       // bytes of a PROXY header or handshake have come
  bool handshake_queued_ = false;
};

// What the sessions of one server share.
struct HttpServer::Parts {
  Parts(EventLoop& loop, const HttpServerOptions& options);

  static constexpr std::size_t kSmallBlock = 4096;
  static constexpr std::size_t kDropBytes = 16 * 1024;

  BufferPool small_blocks;
  BufferPool large_blocks;  // for heads that outgrow a small one
  TimerList idle;           // its order is the order of reclaiming
  TimerList header;
  TimerList body;
  TimerList write;
  TimerList linger;
  TimerList rate;
  HeadParser parser;
  RequestHead head;              // scratch: valid from a parse to the next one
  std::string response_head;     // scratch: from respond() to its first writev
  std::unique_ptr<char[]> drop;  // where lingering reads go
  DateLine date;
  std::uint64_t body_bytes = 0;  // of all bodies being collected
  Slab<HttpSession> sessions;
  Slab<HttpExchange> exchanges;
};

}  // namespace dlb
