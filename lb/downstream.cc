#include "lb/downstream.h"

#include <array>

#include "common/check.h"
#include "common/socket.h"
#include "lb/exchange.h"
#include "lb/worker.h"

namespace dlb::lb {
namespace {

// Heads handled in one go before others get their turn.
constexpr int kHeadsPerTurn = 16;
// What a lingering connection may still send before it is cut.
constexpr std::uint32_t kMaxLingerBytes = 16U * 1024U * 1024U;
constexpr int kLingerReadsPerTurn = 16;

}  // namespace

Downstream::Downstream(Worker& worker, Fd fd, const Address& peer, Before before, Handle<Downstream> self)
    : worker_(worker),
      transport_(std::move(fd)),
      timer_(*this),
      self_(self),
      awaits_proxy_header_(before.proxy_header),
      secure_(before.tls),
      late_(before.late) {
  know_client(PeerAddress(peer));
}

void Downstream::know_client(const PeerAddress& peer) {
  peer_ = peer;
  judge_trust();
}

void Downstream::judge_trust() { trusted_ = worker_.options().trusted_networks.contains(peer_); }

Result<void> Downstream::attach() {
  auto attached = transport_.attach(worker_.loop(), *this);
  if (attached) enter(State::Idle);
  return attached;
}

void Downstream::enter(State state) {
  WorkerMetrics& m = worker_.metrics();
  const auto gauge = [&](State of) -> WorkerCount* {
    switch (of) {
      case State::Idle:
        return used_ ? &m.client_idle : &m.client_new;
      case State::Handshaking:
        return &m.client_handshaking;
      case State::ReadingProxyHeader:
      case State::ReadingHead:
        return &m.client_reading;
      case State::Exchanging:
      case State::Lingering:
        return &m.client_active;
      case State::Closed:
        return nullptr;
    }
    return nullptr;
  };
  if (WorkerCount* old = gauge(state_)) old->sub();
  state_ = state;
  if (state != State::Idle && state != State::ReadingProxyHeader) used_ = true;
  if (WorkerCount* now = gauge(state_)) now->add();

  WorkerTimers& timers = worker_.timers();
  switch (state) {
    case State::Idle:
      // Who was promised keep-alive before the drain or the shedding began has a moment for one more request.
      (worker_.draining() || (used_ && worker_.shedding()) ? timers.client_linger
       : used_                                             ? timers.client_idle
                                                           : timers.client_new)
          .arm(timer_);
      break;
    case State::ReadingProxyHeader:
    case State::Handshaking:
    case State::ReadingHead:
      timers.client_header.arm(timer_);
      break;
    case State::Lingering:
      timers.client_linger.arm(timer_);
      break;
    case State::Exchanging:
    case State::Closed:
      timer_.cancel();
  }
}

void Downstream::on_events(std::uint32_t events) {
  transport_.note_events(events);
  switch (state_) {
    case State::Idle:
    case State::ReadingProxyHeader:
    case State::ReadingHead:
      read_heads();
      return;
    case State::Handshaking:
      queue_handshake();
      return;
    case State::Exchanging:
      exchange_->on_downstream_events();
      return;
    case State::Lingering:
      drop_input();
      return;
    case State::Closed:
      return;
  }
}

// Reads and starts exchanges until the socket is dry, a request is in progress, or the turn's budget is
// spent.
void Downstream::read_heads() {
  if (awaits_proxy_header_ && !read_proxy_header()) return;
  if (secure_ && transport_.tls() == nullptr) return begin_handshake();
  for (int i = 0; i < kHeadsPerTurn; ++i) {
    if (!in_.valid()) {
      in_ = worker_.acquire_block(1);
      if (!in_.valid()) return close();
    }
    if (in_.size() == seen_) {
      if (in_.writable().empty() && !grow_head_block()) return close();
      const IoResult got = transport_.read(in_.writable());
      if (!got.ok()) {
        if (in_.empty()) in_.reset();
        // A client that ends in the middle of a head gets nothing: there is no request to answer.
        if (got.status != IoStatus::WouldBlock) close();
        return;
      }
      in_.commit(got.bytes);
      worker_.metrics().client_bytes_in.add(got.bytes);
      if (state_ == State::Idle) enter(State::ReadingHead);
    }
    std::size_t scanned = scanned_;
    const ParseResult result =
        worker_.parser().parse_request(in_.data(), scanned, worker_.request_limits(), worker_.request_head());
    scanned_ = static_cast<std::uint32_t>(scanned);
    if (result.status == ParseStatus::NeedMore) {
      seen_ = static_cast<std::uint32_t>(in_.size());  // read before parsing again
      continue;
    }
    scanned_ = seen_ = 0;
    if (result.status == ParseStatus::Bad) return answer_bad_head(result);
    start_exchange(result);
    // A client that sent its request and a RST in one go: no further event will say so.
    if (state_ == State::Exchanging && exchange_->client_has_left()) return close();
    if (state_ != State::Idle) return;
    if (in_.empty() && !transport_.read_ready()) {
      in_.reset();
      return;
    }
  }
  worker_.loop().make_runnable(transport_.source());
}

// A head that outgrows its block moves into one that holds the largest head there may be.
bool Downstream::grow_head_block() {
  in_.compact();
  if (!in_.writable().empty()) return true;
  Buffer larger = worker_.acquire_block(in_.capacity() + 1);
  if (!larger.valid() || !larger.append(in_.data())) return false;
  in_ = std::move(larger);
  return true;
}

void Downstream::start_exchange(const ParseResult& head) {
  Exchange* exchange = worker_.exchanges().create(worker_, *this);
  if (exchange == nullptr) return close();
  exchange_ = exchange;
  enter(State::Exchanging);
  exchange->start(worker_.request_head(), head.head_bytes, in_);
}

void Downstream::answer_bad_head(const ParseResult& result) {
  Exchange* exchange = worker_.exchanges().create(worker_, *this);
  if (exchange == nullptr) return close();
  exchange_ = exchange;
  enter(State::Exchanging);
  exchange->answer_bad_head(result.http_status, result.reason, in_.data());
}

void Downstream::exchange_done(After after, std::string_view leftover) {
  exchange_ = nullptr;
  if (after == After::KeepAlive) {
    if (!leftover.empty()) {
      // Bytes of the next request that came with a body: in front of nothing, since in_ was empty when they
      // were read.
      DLB_CHECK(in_.empty());
      in_ = worker_.acquire_block(leftover.size() + 1);
      if (!in_.valid() || !in_.append(leftover)) return close();
    }
    if (in_.empty()) in_.reset();
    scanned_ = seen_ = 0;
    enter(State::Idle);
    // Pipelined bytes bring no event any more. In the middle of read_heads() its loop goes on by itself;
    // being runnable besides costs one empty call.
    if (in_.valid()) enter(State::ReadingHead);
    if (in_.valid() || transport_.read_ready()) worker_.loop().make_runnable(transport_.source());
    return;
  }
  // Closing with unread input, or with input that comes later, would send RST and could destroy answers on
  // their way: shut our side, drop what comes.
  if (after == After::Close && in_.empty() && leftover.empty() && !transport_.read_ready() &&
      transport_.say_goodbye()) {
    return close();
  }
  linger();
}

void Downstream::linger() {
  in_.reset();
  transport_.shutdown_write();
  enter(State::Lingering);
  drop_input();
}

void Downstream::drop_input() {
  if (transport_.hung_up()) return close();
  Buffer sink = worker_.acquire_io_block();
  if (!sink.valid()) return close();
  for (int i = 0; i < kLingerReadsPerTurn; ++i) {
    const IoResult got = transport_.read(sink.writable());
    if (got.status == IoStatus::WouldBlock) return;
    if (!got.ok()) return close();
    lingered_bytes_ += static_cast<std::uint32_t>(got.bytes);
    if (lingered_bytes_ > kMaxLingerBytes) return close();
  }
  worker_.loop().make_runnable(transport_.source());
}

void Downstream::on_timer(Timer&) {
  switch (state_) {
    case State::Idle:
      if (!worker_.reclaiming()) worker_.metrics().client_idle_timeouts.add();
      return close();
    case State::ReadingProxyHeader:
      worker_.metrics().proxy_headers_bad.add();
      return close();
    case State::Handshaking:
      worker_.metrics().tls_failed_timeout.add();
      return close();
    case State::ReadingHead: {
      worker_.metrics().client_header_timeouts.add();
      ParseResult late;
      late.http_status = 408;
      late.reason = "the request head was not complete within client-header-timeout";
      return answer_bad_head(late);
    }
    case State::Lingering:
      return close();
    case State::Exchanging:
    case State::Closed:
      return;
  }
}

Transport Downstream::hand_over(Buffer& unread) {
  DLB_CHECK(state_ == State::Exchanging);
  enter(State::Closed);
  exchange_ = nullptr;
  unread = std::move(in_);
  worker_.downstreams().retire(self_);
  return std::move(transport_);
}

void Downstream::close() {
  if (state_ == State::Closed) return;
  if (state_ == State::Idle) std::ignore = transport_.say_goodbye();
  enter(State::Closed);
  if (exchange_ != nullptr) {
    exchange_->abandon();
    exchange_ = nullptr;
  }
  in_.reset();
  transport_.close(worker_.loop());
  worker_.shared().clients.release();
  worker_.downstreams().retire(self_);
}

bool Downstream::dismiss() {
  if (state_ == State::Lingering) return false;
  if (state_ == State::Exchanging && exchange_->refuse_at_end()) return true;
  close();
  return false;
}

void Downstream::close_if_idle() {
  if (state_ != State::Idle) return;
  transport_.note_events(EPOLLIN);  // the edge of a request that is here may not have been seen yet
  read_heads();
  if (state_ != State::Idle) return;
  unacknowledged_bytes(transport_.fd()) > 0 ? linger() : close();
}

}  // namespace dlb::lb
