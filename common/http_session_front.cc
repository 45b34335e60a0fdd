// HttpSession's part before the first request and behind the last: the PROXY header, the TLS handshake, and
// giving the connection away.
//
// The PROXY header is looked at in the socket (MSG_PEEK) and taken out of it when it is whole, exactly, so
// that TLS finds its own first byte. The handshake is begun by its first byte, so that a client that says
// nothing costs no session. Whoever says something else is closed without an answer, but for plain HTTP on
// a TLS port.
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

#include "common/http_session.h"
#include "common/proxy_protocol.h"

namespace dlb {
namespace {

// What a request line may begin with; a TLS record begins with 22.
bool looks_like_http(char first) { return first >= 'A' && first <= 'Z'; }

// -1: nothing there; 0: the end, or broken; else how many bytes were seen.
ssize_t peek(int fd, std::span<char> into) {
  const ssize_t got = ::recv(fd, into.data(), into.size(), MSG_PEEK | MSG_DONTWAIT);
  const int err = got < 0 ? errno : 0;
  if (err == EAGAIN || err == EINTR) return -1;
  return got < 0 ? 0 : got;
}

}  // namespace

HttpSession::State HttpSession::first_state() const {
  if (server_.options_.proxy_protocol) return State::ProxyHeader;
  return server_.options_.tls ? State::Greeting : State::Idle;
}

// A connection that has not sent a byte of what must come first.
bool HttpSession::untouched() const {
  return !began_ && (state_ == State::ProxyHeader || state_ == State::Greeting);
}

HttpSession::Step HttpSession::read_proxy_header() {
  std::array<char, kMaxProxyHeaderBytes> bytes;
  const ssize_t seen = peek(transport_.fd(), bytes);
  if (seen < 0) return Step::Wait;
  if (seen == 0) {
    // A peer that only looks whether the port is open is no failure.
    if (began_) ++server_.counters_.proxy_headers_bad;
    close();
    return Step::Wait;
  }
  if (!std::exchange(began_, true)) parts_.header.arm(timer_);
  const ProxyHeader header = parse_proxy_header({bytes.data(), static_cast<std::size_t>(seen)});
  // The same bytes would be looked at for ever when no more can come.
  const bool cut = header.status == ProxyHeader::Status::NeedMore && transport_.peer_finished();
  if (header.status == ProxyHeader::Status::NeedMore && !cut) return Step::Wait;
  const bool good = header.status == ProxyHeader::Status::Ok &&
                    ::recv(transport_.fd(), bytes.data(), header.consumed, MSG_DONTWAIT) ==
                        static_cast<ssize_t>(header.consumed);
  if (!good) {
    ++server_.counters_.proxy_headers_bad;
    close();
    return Step::Wait;
  }
  server_.counters_.bytes_read += header.consumed;
  if (!header.local) peer_ = header.source;
  state_ = server_.options_.tls ? State::Greeting : State::Idle;
  if (state_ == State::Idle) parts_.idle.arm(timer_);
  return Step::Again;
}

HttpSession::Step HttpSession::begin_handshake() {
  char first = 0;
  const ssize_t seen = peek(transport_.fd(), {&first, 1});
  if (seen < 0) return Step::Wait;
  if (seen == 0) {
    close();
    return Step::Wait;
  }
  if (!std::exchange(began_, true)) parts_.header.arm(timer_);
  if (looks_like_http(first)) {
    ++server_.counters_.tls_failures;
    return refuse(400, "This port speaks TLS: use https or wss.");
  }
  if (!transport_.start_tls(*server_.options_.tls)) {
    ++server_.counters_.tls_failures;
    close();
    return Step::Wait;
  }
  state_ = State::Handshake;
  return Step::Again;
}

HttpSession::Step HttpSession::join_handshakes() {
  if (!std::exchange(handshake_queued_, true)) server_.handshakes_.push_back(self_);
  return Step::Wait;
}

void HttpSession::handshake_step() {
  handshake_queued_ = false;
  if (state_ != State::Handshake) return;
  const IoResult result = transport_.handshake();
  if (result.status == IoStatus::WouldBlock) return;
  if (!result.ok()) {
    ++server_.counters_.tls_failures;
    return close();
  }
  ++server_.counters_.tls_handshakes;
  enter(State::Idle, &parts_.idle);
  drive();  // a request that came with the last flight brings no edge
}

std::optional<TakenConnection> HttpSession::take_over(HttpExchange& x) {
  if (!in_service_ || request_bytes_ == 0 || !x.body.empty()) return std::nullopt;
  TakenConnection taken{std::move(transport_), std::string(buffer_.data().substr(request_bytes_)), peer_};
  ++server_.counters_.taken_over;
  state_ = State::Closed;
  timer_.cancel();
  rate_timer_.cancel();
  retire_exchange();
  parts_.sessions.retire(self_);
  return taken;
}

}  // namespace dlb
