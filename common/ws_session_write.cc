// WsSession's output: what is queued, the bounds of the queue, and writing it by writev from shared frames.
#include <algorithm>
#include <array>
#include <utility>

#include "common/ws_session.h"

namespace dlb {
namespace {

constexpr std::size_t kWriteBytesPerTurn = 256 * 1024;
constexpr std::size_t kMostParts = 64;  // in one writev

}  // namespace

bool WsSession::is_over(std::size_t cost, WsQueue::Kind kind) const {
  const std::size_t held = kind == WsQueue::Kind::Live ? queue_.live_cost() : queue_.answer_cost();
  return held > 0 && held + cost > entry_.route.queue_max_bytes;
}

bool WsSession::send(WsFramePtr frame, WsQueue::Kind kind) {
  if (state_ != State::Open) return false;
  const std::size_t cost = WsQueue::cost(*frame);
  if (is_over(cost, kind)) {
    // The socket may have room that has not been used in this turn.
    if (!write_some() || state_ != State::Open) return false;
    if (is_over(cost, kind)) {
      if (kind == WsQueue::Kind::Answer) {
        ++server_.counters_.answers_refused;
      } else {
        abandon_queue(ws_close::kTryLater, "too slow", WsEnd::SlowConsumer);
      }
      return false;
    }
  }
  ++server_.counters_.messages_sent;
  queue_.push(std::move(frame), kind);
  server_.want_flush(self_);
  return true;
}

void WsSession::flush() {
  if (state_ != State::Open && state_ != State::Closing) return;
  if (queue_.empty() && state_ == State::Open) return;
  if (write_some()) after_writing();
}

// False when the connection broke.
bool WsSession::write_some() {
  std::array<iovec, kMostParts> parts;
  std::size_t budget = kWriteBytesPerTurn;
  while (!queue_.empty() && transport_.write_ready()) {
    const int count = queue_.gather(parts);
    const IoResult sent = transport_.writev(parts.data(), count);
    if (sent.status == IoStatus::WouldBlock) {
      std::size_t presented = 0;
      for (int i = 0; i < count; ++i) presented += parts[static_cast<std::size_t>(i)].iov_len;
      presented_ = transport_.tls() != nullptr ? std::min(presented, TlsSession::kRecordBytes) : 0;
      break;
    }
    if (!sent.ok()) {
      leave_open(WsEnd::Broken);
      gone(false);
      return false;
    }
    presented_ = 0;
    moved_out_ = true;
    server_.counters_.bytes_written += sent.bytes;
    queue_.advance(sent.bytes);
    if (sent.bytes >= budget) {
      server_.want_flush(self_);
      break;
    }
    budget -= sent.bytes;
  }
  return true;
}

void WsSession::after_writing() {
  if (queue_.empty()) {
    if (state_ == State::Open) {
      entry_.route.service->on_writable(self_.pack());
    } else if (state_ == State::Closing && deaf_) {
      linger();
    }
  }
  // Reading may have waited for the room; what is there brings no edge.
  if (!driving_ && state_ == State::Open && !reading_held() && (kept_whole_ || transport_.read_ready())) {
    server_.loop_.make_runnable(transport_.source());
  }
}

}  // namespace dlb
