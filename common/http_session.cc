#include "common/http_session.h"

#include <sys/epoll.h>

#include <algorithm>
#include <utility>

#include "common/socket.h"

namespace dlb {
namespace {

constexpr int kStepsPerTurn = 32;

}  // namespace

HttpServer::Parts::Parts(EventLoop& loop, const HttpServerOptions& options)
    : small_blocks(std::min(kSmallBlock, options.head_limits.max_head_bytes), 2 * options.max_connections + 2,
                   256),
      large_blocks(std::max(options.head_limits.max_head_bytes, ChunkDecoder::kMaxTrailerBytes + 1024),
                   std::max<std::size_t>(64, options.max_connections / 4), 16),
      idle(loop,
           options.idle_timeout > Duration::zero() ? options.idle_timeout : std::chrono::hours(24 * 365)),
      header(loop, options.header_timeout),
      body(loop, options.body_timeout),
      write(loop, options.write_timeout),
      linger(loop, options.linger_timeout),
      rate(loop, options.min_rate > 0 ? options.min_rate_window : Duration::zero()),
      drop(std::make_unique<char[]>(kDropBytes)),
      sessions(UINT32_MAX / 2),  // the server counts; retired ones must not stand in the way of new ones
      exchanges(UINT32_MAX / 2) {}

HttpSession::HttpSession(HttpServer& server, Fd fd, const Address& peer, Handle<HttpSession> self)
    : server_(server),
      parts_(*server.parts_),
      self_(self),
      transport_(std::move(fd)),
      timer_(*this),
      rate_timer_(*this),
      peer_(peer),
      state_(first_state()) {}

bool HttpSession::start() {
  if (!transport_.attach(server_.loop_, *this)) return false;
  parts_.idle.arm(timer_);
  return true;
}

// ---- events ----

void HttpSession::on_events(std::uint32_t events) {
  transport_.note_events(events);
  drive();
}

void HttpSession::on_timer(Timer& timer) {
  if (&timer == &rate_timer_) {
    if (rate_is_low()) {
      ++server_.counters_.slow_clients;
      set_reset_on_close(transport_.fd());
      close();
    }
    return;
  }
  switch (state_) {
    case State::ProxyHeader:
    case State::Greeting:
    case State::Handshake:
      if (untouched()) {
        ++server_.counters_.idle_timeouts;
      } else {
        ++(state_ == State::ProxyHeader ? server_.counters_.proxy_headers_bad
                                        : server_.counters_.tls_failures);
      }
      return close();
    case State::Idle:
      close_if_idle();
      if (state_ == State::Closed) ++server_.counters_.idle_timeouts;
      return;
    case State::Head:
      ++server_.counters_.header_timeouts;
      refuse(408, "The request head did not arrive in time.");
      break;
    case State::Body:
      ++server_.counters_.body_timeouts;
      refuse(408, "The request body did not arrive in time.");
      break;
    case State::Writing:
      ++server_.counters_.write_timeouts;
      set_reset_on_close(transport_.fd());  // the kernel need not keep what nobody reads
      close();
      return;
    case State::Lingering:
      close();
      return;
    case State::Handling:
    case State::Closed:
      return;
  }
  drive();
}

void HttpSession::close_if_idle() {
  if (untouched()) return close();
  if (state_ != State::Idle) return;
  transport_.note_events(EPOLLIN);  // a look at what has come since the loop last waited
  parts_.idle.arm(timer_);
  drive();
  if (state_ == State::Idle) close();
}

void HttpSession::drive() {
  if (driving_ || state_ == State::Closed) return;
  driving_ = true;
  int steps = kStepsPerTurn;
  while (state_ != State::Closed && step() == Step::Again) {
    if (--steps == 0) {
      server_.loop_.make_runnable(transport_.source());
      break;
    }
  }
  driving_ = false;
}

HttpSession::Step HttpSession::step() {
  switch (state_) {
    case State::ProxyHeader:
      return read_proxy_header();
    case State::Greeting:
      return begin_handshake();
    case State::Handshake:
      return join_handshakes();
    case State::Idle:
    case State::Head:
      return read_head();
    case State::Body:
      return read_body();
    case State::Handling:
      if (transport_.hung_up()) close();  // a FIN alone is a half-close: the answer is still wanted
      return Step::Wait;
    case State::Writing:
      return write_answer();
    case State::Lingering:
      return drop_input();
    case State::Closed:
      break;
  }
  return Step::Wait;
}

// ---- heads ----

HttpSession::Step HttpSession::read_head() {
  if (!buffer_.empty()) {
    if (state_ == State::Idle) enter(State::Head, &parts_.header);
    const ParseResult result =
        parts_.parser.parse_request(buffer_.data(), scanned_, server_.options_.head_limits, parts_.head);
    if (result.status == ParseStatus::Complete) return head_complete(result.head_bytes);
    if (result.status == ParseStatus::Bad) return refuse_head(result);
  }
  if (!transport_.read_ready()) {
    if (buffer_.empty()) buffer_.reset();
    return Step::Wait;
  }
  if (!make_room()) return refuse(503, "The server is out of buffers.");
  const IoResult got = read_into(buffer_.writable());
  if (got.ok()) {
    buffer_.commit(got.bytes);
    return Step::Again;
  }
  if (got.status == IoStatus::WouldBlock) return Step::Again;  // now not ready
  close();  // a FIN within a head ends it too: no request can come of it
  return Step::Wait;
}

HttpSession::Step HttpSession::refuse_head(const ParseResult& result) {
  std::string detail(result.reason);
  detail[0] = static_cast<char>(detail[0] >= 'a' && detail[0] <= 'z' ? detail[0] - 'a' + 'A' : detail[0]);
  return refuse(result.http_status, detail + ".");
}

HttpSession::Step HttpSession::head_complete(std::size_t head_bytes) {
  const RequestHead& head = parts_.head;
  scanned_ = 0;
  timer_.cancel();
  HttpExchange& x = new_exchange();
  x.head_only = head.method == HttpMethod::Head;
  x.http10 = head.minor_version == 0;
  x.keep_alive = head.keep_alive;
  if (head.method == HttpMethod::Connect) {
    return refuse(501, "This server is no proxy.");
  }
  if (head.expect_unknown) return refuse(417, "Only 100-continue can be expected.");
  if (head.framing == BodyFraming::Length && head.content_length > server_.options_.max_body_bytes) {
    return refuse(413, "The request body is too large.");
  }
  if (head.framing == BodyFraming::None || head.content_length == 0) {
    if (head.framing != BodyFraming::Chunked) {
      return dispatch_buffered(x, head_bytes, 0);
    }
  } else if (buffer_.size() - head_bytes >= head.content_length) {
    return dispatch_buffered(x, head_bytes, static_cast<std::size_t>(head.content_length));
  }
  return start_body(x, head_bytes);
}

// ---- the service ----

// The whole request stands in buffer_: nothing is copied.
HttpSession::Step HttpSession::dispatch_buffered(HttpExchange& x, std::size_t head_bytes,
                                                 std::size_t body_bytes) {
  request_bytes_ = head_bytes + body_bytes;
  dispatch(x, buffer_.data().substr(head_bytes, body_bytes));
  if (state_ == State::Closed) return Step::Wait;
  buffer_.consume(head_bytes + body_bytes);
  if (buffer_.empty() && !transport_.read_ready()) buffer_.reset();
  return Step::Again;
}

void HttpSession::dispatch(HttpExchange& x, std::string_view body) {
  state_ = State::Handling;
  x.dispatched = true;
  x.received = server_.loop_.now();
  ++server_.counters_.requests;
  in_service_ = true;
  server_.service_.on_request(server_.token_of(exchange_),
                              HttpRequest{parts_.head, body, peer_, x.received, transport_.tls() != nullptr});
  in_service_ = false;
  if (HttpExchange* left = exchange(); left != nullptr) release_body(*left);
  if (state_ == State::Closed) {
    buffer_.reset();
    head_block_.reset();
  }
}

// ---- parts ----

IoResult HttpSession::read_into(std::span<char> room) {
  const IoResult got = transport_.read(room);
  server_.counters_.bytes_read += got.bytes;
  progress_ += got.bytes;
  return got;
}

bool HttpSession::make_room() {
  if (!buffer_.valid()) buffer_ = parts_.small_blocks.acquire();
  if (!buffer_.valid()) return false;
  if (!buffer_.writable().empty()) return true;
  buffer_.compact();
  if (!buffer_.writable().empty()) return true;
  Buffer larger = parts_.large_blocks.acquire();
  if (!larger.valid() || !larger.append(buffer_.data())) return false;
  buffer_ = std::move(larger);
  return !buffer_.writable().empty();
}

void HttpSession::enter(State state, TimerList* deadline) {
  state_ = state;
  deadline->arm(timer_);
}

void HttpSession::watch_rate() {
  progress_ = 0;
  parts_.rate.arm(rate_timer_);
}

// True when less moved in the last window than min_rate allows; else the next window begins.
bool HttpSession::rate_is_low() {
  const double wanted = static_cast<double>(server_.options_.min_rate) * seconds(parts_.rate.duration());
  if (static_cast<double>(progress_) < wanted) return true;
  watch_rate();
  return false;
}

HttpExchange& HttpSession::new_exchange() {
  HttpExchange* x = parts_.exchanges.create();
  DLB_CHECK(x != nullptr);
  exchange_ = x->self;
  x->session = self_;
  return *x;
}

HttpExchange* HttpSession::exchange() { return parts_.exchanges.get(exchange_); }

void HttpSession::release_body(HttpExchange& x) {
  parts_.body_bytes -= std::exchange(x.body_bytes_counted, 0);
  x.body = std::string();
}

void HttpSession::retire_exchange() {
  HttpExchange* x = exchange();
  if (x == nullptr) return;
  if (!in_service_) release_body(*x);
  parts_.body_bytes -= std::exchange(x->body_bytes_counted, 0);
  x->cursor.reset();
  parts_.exchanges.retire(exchange_);
  exchange_ = {};
}

void HttpSession::close(bool silent) {
  if (state_ == State::Closed) return;
  if (state_ == State::Idle) transport_.say_goodbye();
  state_ = State::Closed;
  timer_.cancel();
  rate_timer_.cancel();
  transport_.close(server_.loop_);
  if (!in_service_) {
    buffer_.reset();
    head_block_.reset();
  }
  bool abandoned = false;
  const HttpToken token = server_.token_of(exchange_);
  if (const HttpExchange* x = exchange(); x != nullptr) {
    abandoned = x->dispatched && !x->answered;
    if (abandoned) ++server_.counters_.abandoned;
    if (x->answered) ++server_.counters_.interrupted;
    retire_exchange();
  }
  parts_.sessions.retire(self_);
  if (abandoned && !silent && !in_service_) server_.service_.on_abandoned(token);
}

}  // namespace dlb
