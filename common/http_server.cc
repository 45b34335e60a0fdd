#include "common/http_server.h"

#include <array>
#include <cstdio>
#include <utility>

#include "common/clock.h"
#include "common/http_session.h"
#include "common/turn_share.h"

namespace dlb {
namespace {

// Batches of connections that are taken out of the backlog at the end.
constexpr int kLastAccepts = 64;

}  // namespace

HttpServerCounters& HttpServerCounters::operator+=(const HttpServerCounters& other) {
  connections_accepted += other.connections_accepted;
  connections_refused += other.connections_refused;
  connections_reclaimed += other.connections_reclaimed;
  requests += other.requests;
  responses += other.responses;
  refusals += other.refusals;
  abandoned += other.abandoned;
  interrupted += other.interrupted;
  idle_timeouts += other.idle_timeouts;
  header_timeouts += other.header_timeouts;
  body_timeouts += other.body_timeouts;
  write_timeouts += other.write_timeouts;
  slow_clients += other.slow_clients;
  taken_over += other.taken_over;
  tls_handshakes += other.tls_handshakes;
  tls_failures += other.tls_failures;
  proxy_headers_bad += other.proxy_headers_bad;
  bytes_read += other.bytes_read;
  bytes_written += other.bytes_written;
  return *this;
}

HttpBody error_body(std::string_view code, std::string_view detail) {
  std::string text;
  text.reserve(code.size() + detail.size() + 32);
  const auto append_escaped = [&](std::string_view value) {
    for (const char c : value) {
      if (c == '"' || c == '\\') {
        text.append({'\\', c});
      } else if (static_cast<unsigned char>(c) < 0x20) {
        std::array<char, 8> escape{};
        std::snprintf(escape.data(), escape.size(), "\\u%04x", static_cast<unsigned>(c));
        text.append(escape.data());
      } else {
        text.push_back(c);
      }
    }
  };
  text.append("{\"error\":\"");
  append_escaped(code);
  text.append("\",\"detail\":\"");
  append_escaped(detail);
  text.append("\"}");
  return HttpBody::of(std::move(text));
}

HttpServer::HttpServer(EventLoop& loop, Fd listener, HttpService& service, HttpServerOptions options)
    : loop_(loop),
      service_(service),
      options_(std::move(options)),
      listener_(std::move(listener)),
      port_(local_address(listener_.get()).port()),
      parts_(std::make_unique<Parts>(loop, options_)) {
  acceptor_ = std::make_unique<Acceptor>(loop_, listener_.get(), *this);
  loop_.add_turn_end_hook(*this);
}

HttpServer::~HttpServer() {
  close_listener();
  loop_.remove_turn_end_hook(*this);
  parts_->sessions.for_each([](HttpSession& session) { session.close(/*silent=*/true); });
  on_turn_end();
}

void HttpServer::on_accept(Fd fd, const Address& peer) {
  if (parts_->sessions.live() >= options_.max_connections && !reclaim_idle()) {
    ++counters_.connections_refused;
    return;
  }
  ++counters_.connections_accepted;
  set_socket_buffers(fd.get(), options_.socket_buffers);
  HttpSession* session = parts_->sessions.create(*this, std::move(fd), peer);
  DLB_CHECK(session != nullptr);
  if (!session->start()) session->close(/*silent=*/true);
}

// Closes the oldest idle connection. One that turns out to have a request waiting goes on, and the next is
// tried.
bool HttpServer::reclaim_idle() {
  constexpr int kAttempts = 8;
  const std::uint64_t timeouts = counters_.idle_timeouts;
  for (int i = 0; i < kAttempts && parts_->sessions.live() >= options_.max_connections; ++i) {
    if (!parts_->idle.expire_oldest()) break;
  }
  if (parts_->sessions.live() >= options_.max_connections) return false;
  counters_.idle_timeouts = timeouts;  // they were counted as such
  ++counters_.connections_reclaimed;
  return true;
}

HttpToken HttpServer::token_of(Handle<HttpExchange> exchange) const {
  return exchange.pack() | (options_.token_tag != 0 ? kTagBit : 0);
}

HttpExchange* HttpServer::exchange_of(HttpToken token) const {
  if (tag_of(token) != options_.token_tag) return nullptr;
  return parts_->exchanges.get(Handle<HttpExchange>::unpack(token & ~kTagBit));
}

void HttpServer::respond(HttpToken token, int status, std::string_view content_type,
                         std::span<const HeaderLine> headers, HttpBody body, bool close) {
  HttpExchange* exchange = exchange_of(token);
  if (exchange == nullptr || exchange->answered) return;
  HttpSession* session = parts_->sessions.get(exchange->session);
  DLB_CHECK(session != nullptr);
  session->respond(*exchange, status, content_type, headers, std::move(body), close);
}

void HttpServer::respond_error(HttpToken token, int status, std::string_view code, std::string_view detail,
                               std::span<const HeaderLine> headers, bool close) {
  respond(token, status, kJson, headers, error_body(code, detail), close);
}

std::optional<TakenConnection> HttpServer::take_over(HttpToken token) {
  HttpExchange* exchange = exchange_of(token);
  if (exchange == nullptr || exchange->answered) return std::nullopt;
  HttpSession* session = parts_->sessions.get(exchange->session);
  DLB_CHECK(session != nullptr);
  return session->take_over(*exchange);
}

void HttpServer::set_tls(std::shared_ptr<const TlsContext> context) {
  DLB_CHECK(options_.tls && context);
  options_.tls = std::move(context);
}

// A handshake's signature takes most of a millisecond: a storm of new clients must not hold up the others.
// First come first served; what is over the budget waits for the next turn, which begins at once.
void HttpServer::run_handshakes() {
  constexpr Duration kBudget = std::chrono::milliseconds(2);
  if (handshakes_.empty()) return;
  const TimePoint end = turn_share(loop_, kBudget);
  do {
    HttpSession* const session = parts_->sessions.get(handshakes_.front());
    handshakes_.pop_front();
    if (session != nullptr) session->handshake_step();
  } while (!handshakes_.empty() && monotonic_now() < end);
  for (; !handshakes_.empty(); handshakes_.pop_front()) {
    const HttpSession* const session = parts_->sessions.get(handshakes_.front());
    if (session != nullptr) return loop_.make_runnable(session->source());
  }
}

void HttpServer::begin_drain() { draining_ = true; }

void HttpServer::accept_waiting() {
  if (!acceptor_) return;
  acceptor_->stop();
  for (int batch = 0; batch < kLastAccepts; ++batch) {
    const std::uint64_t before = acceptor_->accepted();
    acceptor_->on_events(0);
    if (acceptor_->accepted() == before) return;
  }
}

void HttpServer::close_listener() {
  acceptor_.reset();
  listener_.reset();
}

void HttpServer::close_idle() {
  parts_->sessions.for_each([](HttpSession& session) { session.close_if_idle(); });
}

std::size_t HttpServer::cut_all() {
  const std::size_t cut = active_exchanges();
  parts_->sessions.for_each([](HttpSession& session) { session.close(); });
  return cut;
}

std::size_t HttpServer::open_connections() const { return parts_->sessions.live(); }
std::size_t HttpServer::active_exchanges() const { return parts_->exchanges.live(); }
std::uint16_t HttpServer::port() const { return port_; }

void HttpServer::on_turn_end() {
  run_handshakes();
  parts_->sessions.reap();
  parts_->exchanges.reap();
}

}  // namespace dlb
