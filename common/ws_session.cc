// WsSession's life and its input: events, frames as they come, timers, the ways to end. Output:
// ws_session_write.cc.
#include "common/ws_session.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/socket.h"

namespace dlb {
namespace {

constexpr int kReadsPerTurn = 4;

}  // namespace

WsServer::Parts::Parts(EventLoop& loop, const WsServerOptions& options)
    : ping(loop, options.ping_interval),
      pong(loop, options.pong_timeout),
      close(loop, options.close_timeout),
      ping_frame(WsFrame::ping("")),
      scratch(std::make_unique<char[]>(kScratchBytes)),
      sessions(UINT32_MAX / 2) {}  // the server counts; closing ones must not stand in the way of new ones

WsSession::WsSession(WsServer& server, WsServer::RouteEntry& entry, TakenConnection taken,
                     Handle<WsSession> self)
    : server_(server),
      parts_(*server.parts_),
      entry_(entry),
      self_(self),
      transport_(std::move(taken.transport)),
      life_timer_(*this),
      deadline_timer_(*this),
      decoder_(WsDecoder::Side::Server, entry.route.max_message_bytes, entry.route.accept_binary),
      kept_(std::move(taken.input)),
      kept_whole_(!kept_.empty()) {}

void WsSession::start(WsFramePtr switching) {
  transport_.rebind(server_.loop_, *this);
  parts_.ping.arm(life_timer_);
  entry_.confirm.arm(deadline_timer_);
  queue_.push(std::move(switching), WsQueue::Kind::Answer);
  server_.want_flush(self_);
  server_.loop_.make_runnable(transport_.source());  // what came with the request brings no edge
}

void WsSession::on_events(std::uint32_t events) {
  transport_.note_events(events);
  drive();
}

// Writing first: it may be what reading waits for.
void WsSession::drive() {
  if (driving_ || state_ == State::Gone) return;
  driving_ = true;
  if (transport_.write_ready()) flush();
  if (state_ == State::Open || state_ == State::Closing) decode_kept();
  if (state_ == State::Open || state_ == State::Closing) read_some();
  if (state_ == State::Lingering) drop_input();
  driving_ = false;
  if (state_ != State::Gone && transport_.hung_up() && reading_held()) {
    leave_open(WsEnd::Broken);
    gone(false);
  }
}

// ---- input ----

bool WsSession::reading_held() const {
  constexpr std::size_t kMostUnread = 256 * 1024;
  if (state_ == State::Closing) return deaf_;
  if (state_ != State::Open) return true;
  return paused_ || queue_.cost() > std::min(kMostUnread, entry_.route.queue_max_bytes / 2);
}

void WsSession::read_some() {
  int reads = kReadsPerTurn;
  while (!reading_held() && !kept_whole_ && transport_.read_ready()) {
    if (reads-- == 0) return server_.loop_.make_runnable(transport_.source());
    char* const block = parts_.scratch.get();
    kept_.copy(block, kept_.size());
    const IoResult got =
        transport_.read({block + kept_.size(), WsServer::Parts::kScratchBytes - kept_.size()});
    if (got.status == IoStatus::WouldBlock) return;
    if (got.status == IoStatus::Eof) return peer_finished();
    if (!got.ok()) {
      leave_open(WsEnd::Broken);
      return gone(false);
    }
    server_.counters_.bytes_read += got.bytes;
    moved_in_ = true;
    decode_fresh({block, kept_.size() + got.bytes});
  }
}

// Input in the scratch block: what is not decoded is kept.
void WsSession::decode_fresh(std::span<char> bytes) {
  const std::size_t done = decode(bytes);
  const std::span<char> rest = bytes.subspan(done);
  kept_whole_ = rest.size() >= kWsMaxUndecoded || (paused_ && !rest.empty());
  if (rest.empty()) {
    if (kept_.capacity() > 64) kept_ = std::string();
    kept_.clear();
  } else {
    kept_.assign(rest.data(), rest.size());
  }
}

// Input that was kept because the service had paused, or that came with the request.
void WsSession::decode_kept() {
  if (!kept_whole_ || reading_held()) return;
  kept_at_ += decode({kept_.data() + kept_at_, kept_.size() - kept_at_});
  if (reading_held() && kept_at_ < kept_.size()) return;
  kept_whole_ = false;
  kept_ = kept_.substr(kept_at_);
  kept_at_ = 0;
}

// How many bytes are done with. Stops when the session ends or the service pauses, and has no whole part
// before it otherwise.
std::size_t WsSession::decode(std::span<char> bytes) {
  std::size_t done = 0;
  while (!deaf_ && state_ != State::Gone && !(state_ == State::Open && paused_)) {
    const WsPart part = decoder_.next(bytes.subspan(done));
    if (part.kind == WsPart::Kind::NeedMore) return done;
    done += part.consumed;
    take_part(part);
  }
  return deaf_ || state_ == State::Gone ? bytes.size() : done;
}

void WsSession::take_part(const WsPart& part) {
  switch (part.kind) {
    case WsPart::Kind::Data:
      return take_data(part);
    case WsPart::Kind::Ping:
      if (state_ != State::Open) return;
      ++server_.counters_.pings_read;
      queue_.push(WsFrame::pong(part.payload), WsQueue::Kind::Answer);
      return server_.want_flush(self_);
    case WsPart::Kind::Pong:
      if (std::exchange(awaiting_pong_, false)) parts_.ping.arm(life_timer_);
      return;
    case WsPart::Kind::Close:
      return take_close(part);
    default:
      return fail(part.code);
  }
}

void WsSession::take_data(const WsPart& part) {
  if (state_ != State::Open) return;
  if (part.first && part.last) return deliver(part.binary, part.payload);
  parts_.collected += part.payload.size();
  collected_ += part.payload.size();
  message_.append(part.payload);
  if (part.last) {
    deliver(part.binary, message_);
    return release_message();
  }
  if (parts_.collected > server_.options_.max_collected_bytes) {
    abandon_queue(ws_close::kTryLater, "too many messages at once", WsEnd::Overload);
  }
}

void WsSession::deliver(bool binary, std::string_view message) {
  ++server_.counters_.messages_read;
  WsService& service = *entry_.route.service;
  binary ? service.on_binary(self_.pack(), message) : service.on_text(self_.pack(), message);
}

void WsSession::release_message() {
  parts_.collected -= std::exchange(collected_, 0);
  message_ = std::string();
}

void WsSession::take_close(const WsPart& part) {
  deaf_ = true;
  if (state_ == State::Closing) return after_writing();
  leave_open(WsEnd::PeerClosed);
  queue_.push(WsFrame::close(part.code, ""), WsQueue::Kind::Answer);
  begin_closing();
}

void WsSession::fail(std::uint16_t code) {
  deaf_ = true;
  if (state_ == State::Closing) return after_writing();
  leave_open(WsEnd::ProtocolError);
  queue_.push(WsFrame::close(code, ""), WsQueue::Kind::Answer);
  begin_closing();
}

// A FIN without a Close: what is queued may still be wanted, but nothing more can come.
void WsSession::peer_finished() {
  at_end_ = deaf_ = true;
  if (state_ == State::Closing) return after_writing();
  leave_open(WsEnd::PeerClosed);
  begin_closing();
}

void WsSession::drop_input() {
  for (int reads = kReadsPerTurn; !at_end_ && transport_.read_ready(); --reads) {
    if (reads == 0) return server_.loop_.make_runnable(transport_.source());
    const IoResult got = transport_.read({parts_.scratch.get(), WsServer::Parts::kScratchBytes});
    if (got.status == IoStatus::WouldBlock) return;
    at_end_ = !got.ok();
  }
  if (at_end_) gone(false);
}

void WsSession::resume_reading() {
  if (!std::exchange(paused_, false) || state_ != State::Open) return;
  if (kept_whole_ || transport_.read_ready()) server_.loop_.make_runnable(transport_.source());
}

// ---- timers and ends ----

void WsSession::on_timer(Timer& timer) {
  if (&timer == &deadline_timer_) {
    if (state_ == State::Open) {
      return close(ws_close::kPolicy, "nothing came in time", WsEnd::NotConfirmed);
    }
    ++server_.counters_.close_timeouts;
    return gone(!queue_.empty());
  }
  if (awaiting_pong_) return pong_late();
  ++server_.counters_.pings_sent;
  awaiting_pong_ = true;
  moved_in_ = moved_out_ = false;
  queue_.push(parts_.ping_frame, WsQueue::Kind::Answer);
  server_.want_flush(self_);
  parts_.pong.arm(life_timer_);
}

// A peer that is in the middle of a long frame, or has a long queue to read before our ping, can't answer
// yet: it is given time while bytes move. So is one whose pong we don't read.
void WsSession::pong_late() {
  const bool sending = moved_in_ && decoder_.in_frame();
  const bool reading = moved_out_ && !queue_.empty();
  if (sending || reading || paused_) {
    moved_in_ = moved_out_ = false;
    return parts_.pong.arm(life_timer_);
  }
  abandon_queue(ws_close::kPolicy, "no pong in time", WsEnd::MissedPong);
  deaf_ = true;
}

void WsSession::confirm() {
  if (state_ == State::Open) deadline_timer_.cancel();
}

void WsSession::close(std::uint16_t code, std::string_view reason, WsEnd end) {
  if (state_ != State::Open) return;
  leave_open(end);
  queue_.push(WsFrame::close(code, reason), WsQueue::Kind::Answer);
  begin_closing();
}

// Ends without what is queued: the Close comes right behind what has begun.
void WsSession::abandon_queue(std::uint16_t code, std::string_view reason, WsEnd end) {
  leave_open(end);
  queue_.drop_behind(presented_);
  queue_.push(WsFrame::close(code, reason), WsQueue::Kind::Answer);
  begin_closing();
}

void WsSession::leave_open(WsEnd end) {
  if (state_ != State::Open) return;
  state_ = State::Closing;
  server_.note_end(*entry_.route.service, self_.pack(), end);
}

void WsSession::begin_closing() {
  life_timer_.cancel();
  parts_.close.arm(deadline_timer_);
  server_.want_flush(self_);
}

void WsSession::linger() {
  state_ = State::Lingering;
  transport_.shutdown_write();
  if (!driving_) drop_input();
}

void WsSession::cut(std::uint16_t code, WsEnd end) {
  if (state_ == State::Open) {
    abandon_queue(code, "", end);
    if (!write_some()) return;
  }
  if (state_ != State::Gone) gone(!queue_.empty());
}

void WsSession::drop() {
  if (state_ != State::Gone) gone(false);
}

// kept_ and message_ go with the session at the end of the turn: the service may be looking at them.
void WsSession::gone(bool reset) {
  state_ = State::Gone;
  life_timer_.cancel();
  deadline_timer_.cancel();
  if (reset) set_reset_on_close(transport_.fd());  // the kernel need not keep what nobody reads
  transport_.close(server_.loop_);
  queue_.clear();
  parts_.collected -= std::exchange(collected_, 0);
  parts_.sessions.retire(self_);
}

}  // namespace dlb
