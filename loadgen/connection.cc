#include "loadgen/connection.h"

#include <algorithm>
#include <cerrno>
#include <span>
#include <utility>

#include "common/check.h"
#include "common/socket.h"

namespace dlb::loadgen {
namespace {

// Of a slow reader: enough for a window that doesn't stall by itself, small enough to push back soon.
constexpr std::size_t kLeastBuffer = 4 * 1024;
constexpr std::size_t kMostBuffer = 64 * 1024;

}  // namespace

void ConnectionContext::count_tls_failure(std::string_view reason) {
  if (tls_failures.size() >= kMaxReasons) reason = "other";
  const auto known = std::ranges::find(tls_failures, reason, &CountedReason::text);
  if (known != tls_failures.end()) {
    ++known->times;
  } else {
    tls_failures.push_back(CountedReason{std::string(reason), 1});
  }
}

int Connection::connect(const Target& target, const ConnectShape& shape) {
  DLB_CHECK(state_ == State::New);
  state_ = State::Closed;
  if (target.tls && context_.tls == nullptr) return EPROTONOSUPPORT;
  bytes_per_pace_ = shape.bytes_per_pace;
  if (target.tls) server_name_ = target.server_name;
  SocketBuffers buffers;
  if (bytes_per_pace_ > 0) buffers.read_bytes = std::clamp(bytes_per_pace_, kLeastBuffer, kMostBuffer);
  bool in_progress = false;
  auto fd = connect_start(target.address, &in_progress, buffers, shape.source);
  if (!fd) return fd.error().code != 0 ? fd.error().code : EIO;
  // Also when connected at once (Unix sockets): registering reports the edge, so there is one way on.
  transport_ = Transport(std::move(*fd), true);
  if (auto attached = transport_.attach(context_.loop, *this); !attached) {
    transport_.close(context_.loop);
    return attached.error().code != 0 ? attached.error().code : EIO;
  }
  ++context_.connections_opened;
  state_ = State::Connecting;
  context_.deadlines.arm(deadline_);
  return 0;
}

void Connection::rest() {
  DLB_CHECK(state_ == State::Idle);
  deadline_.cancel();
}

void Connection::send(std::string_view request, HttpMethod method) {
  DLB_CHECK(state_ == State::Idle);
  state_ = State::Exchanging;
  method_ = method;
  ++exchanges_;
  pending_.clear();
  scanned_ = 0;
  interim_ = 0;
  head_done_ = any_byte_received_ = write_failed_ = false;
  if (!deadline_.armed())
    context_.deadlines.arm(deadline_);  // a connect has begun its operation's time already
  context_.read_delays.arm(read_delay_);

  started_at_ = monotonic_now();
  unsent_.clear();
  write_some(request);
  // Bytes left in the socket by an earlier full read bring no event.
  if (transport_.read_ready()) context_.loop.make_runnable(transport_.source());
}

void Connection::close() {
  deadline_.cancel();
  read_delay_.cancel();
  pace_.cancel();
  if (state_ == State::Idle) transport_.say_goodbye();
  transport_.close(context_.loop);
  state_ = State::Closed;
}

void Connection::on_events(std::uint32_t events) {
  transport_.note_events(events);
  switch (state_) {
    case State::Connecting:
      if (transport_.write_ready() || transport_.hung_up()) finish_connect();
      return;
    case State::Handshaking:
      shake_hands();
      return;
    case State::Idle:
      check_idle();
      return;
    case State::Exchanging:
      if (!unsent_.empty()) write_rest();
      read_some();
      return;
    case State::New:
    case State::Closed:
      return;
  }
}

void Connection::on_timer(Timer& timer) {
  if (&timer == &read_delay_ || &timer == &pace_) {
    if (state_ == State::Exchanging) read_some();
    return;
  }
  if (state_ == State::Connecting || state_ == State::Handshaking) {
    fail(ExchangeEnd::ConnectFailed, ETIMEDOUT);
  } else if (state_ == State::Exchanging) {
    fail(ExchangeEnd::TimedOut, 0);
  }
}

void Connection::finish_connect() {
  const int err = take_socket_error(transport_.fd());
  if (err != 0) {
    fail(ExchangeEnd::ConnectFailed, err);
    return;
  }
  if (server_name_.empty()) return ready();
  state_ = State::Handshaking;
  if (!transport_.start_tls_client(*context_.tls, server_name_)) {
    context_.count_tls_failure("TLS can't be set up");
    fail(ExchangeEnd::ConnectFailed, ENOMEM);
    return;
  }
  shake_hands();
}

void Connection::shake_hands() {
  const IoResult result = transport_.handshake();
  if (result.status == IoStatus::WouldBlock) return;
  if (result.ok()) return ready();
  const std::string distrust = transport_.tls()->distrust();
  context_.count_tls_failure(!distrust.empty()                ? "certificate not believed: " + distrust
                             : result.status == IoStatus::Eof ? "closed within the handshake"
                                                              : "no TLS as it is spoken here");
  fail(ExchangeEnd::ConnectFailed, result.err != 0 ? result.err : ECONNRESET);
}

void Connection::ready() {
  state_ = State::Idle;
  user_->on_connected(*this);
}

void Connection::check_idle() {
  const IoResult got = transport_.read(context_.scratch);
  if (got.status == IoStatus::WouldBlock) return;
  context_.stray_bytes += got.bytes;
  close();
  user_->on_idle_close(*this);
}

// What can't be written now waits in unsent_. TLS takes one record after the other.
void Connection::write_some(std::string_view bytes) {
  while (!bytes.empty()) {
    const IoResult written = transport_.write(bytes);
    if (written.status == IoStatus::WouldBlock) break;
    if (!written.ok()) {
      write_failed_ = true;
      bytes = {};
      transport_.note_events(EPOLLIN);  // an answer may be there all the same: let the read find out
      break;
    }
    bytes.remove_prefix(written.bytes);
  }
  if (bytes.size() != unsent_.size()) unsent_ = std::string(bytes);
}

void Connection::write_rest() { write_some(unsent_); }

void Connection::read_some() {
  for (int reads = 0; reads < kReadsPerTurn; ++reads) {
    if (read_delay_.armed() || pace_.armed()) return;
    std::span<char> into(context_.scratch);
    if (bytes_per_pace_ > 0) into = into.first(std::min(bytes_per_pace_, into.size()));
    const IoResult got = transport_.read(into);
    if (got.status == IoStatus::WouldBlock) return;
    if (!got.ok()) {
      end_of_input(got.err);
      return;
    }
    last_byte_at_ = monotonic_now();
    any_byte_received_ = true;
    if (bytes_per_pace_ > 0) context_.paces.arm(pace_);
    if (context_.deadline_is_idle_time) context_.deadlines.arm(deadline_);

    const std::string_view fresh(context_.scratch.data(), got.bytes);
    if (pending_.empty()) {
      if (!take_bytes(fresh)) return;
    } else {
      std::string whole = std::exchange(pending_, {});
      whole += fresh;
      if (!take_bytes(whole)) return;
    }
  }
  if (transport_.read_ready()) context_.loop.make_runnable(transport_.source());
}

bool Connection::take_bytes(std::string_view bytes) {
  if (!head_done_ && !take_head(bytes)) return false;
  if (!head_done_) return true;
  return framing_ == BodyFraming::Chunked ? take_chunked(bytes) : take_counted(bytes);
}

bool Connection::take_head(std::string_view& bytes) {
  ResponseHead& head = context_.head;
  while (!bytes.empty()) {
    const ParseResult parsed = context_.parser.parse_response(bytes, scanned_, kHeadLimits, method_, head);
    if (parsed.status == ParseStatus::NeedMore) {
      pending_.assign(bytes);
      return true;
    }
    const bool interim = head.status >= 100 && head.status < 200;
    // Nobody asked for an upgrade, so 101 is no answer either.
    if (parsed.status == ParseStatus::Bad || (interim && (head.status == 101 || ++interim_ > kMaxInterim))) {
      fail(ExchangeEnd::Malformed, 0);
      return false;
    }
    bytes.remove_prefix(parsed.head_bytes);
    scanned_ = 0;
    if (interim) continue;

    head_done_ = true;
    head_at_ = last_byte_at_;
    framing_ = head.framing;
    keep_alive_ = head.keep_alive && !head.ambiguous && head.framing != BodyFraming::UntilClose;
    body_left_ = head.framing == BodyFraming::Length ? head.content_length : 0;
    chunks_.reset();
    user_->on_head(*this, head);
    return state_ == State::Exchanging;
  }
  return true;
}

bool Connection::take_counted(std::string_view bytes) {
  if (framing_ == BodyFraming::UntilClose) {
    if (!bytes.empty()) user_->on_body(*this, bytes);
    return state_ == State::Exchanging;
  }
  const std::string_view body = bytes.substr(0, body_left_);
  body_left_ -= body.size();
  if (!body.empty()) user_->on_body(*this, body);
  if (state_ != State::Exchanging) return false;
  if (body_left_ > 0) return true;
  complete(bytes.substr(body.size()));
  return false;
}

bool Connection::take_chunked(std::string_view bytes) {
  for (;;) {
    const ChunkDecoder::Step step = chunks_.next(bytes);
    const std::string_view rest = bytes.substr(step.consumed);
    switch (step.status) {
      case ChunkDecoder::Status::NeedMore:
        pending_.assign(rest);
        return true;
      case ChunkDecoder::Status::Data:
        user_->on_body(*this, step.data);
        if (state_ != State::Exchanging) return false;
        break;
      case ChunkDecoder::Status::Trailer:
        break;
      case ChunkDecoder::Status::End:
        complete(rest);
        return false;
      case ChunkDecoder::Status::Bad:
        fail(ExchangeEnd::Malformed, 0);
        return false;
    }
    bytes = rest;
    if (bytes.empty()) return true;
  }
}

void Connection::end_of_input(int err) {
  if (!head_done_) {
    fail(ExchangeEnd::Reset, err);
  } else if (framing_ == BodyFraming::UntilClose && err == 0) {
    complete({});
  } else {
    fail(ExchangeEnd::ShortBody, err);
  }
}

void Connection::complete(std::string_view rest) {
  context_.stray_bytes += rest.size();
  const bool reusable =
      keep_alive_ && rest.empty() && unsent_.empty() && !write_failed_ && !transport_.peer_finished();
  if (reusable) {
    deadline_.cancel();
    read_delay_.cancel();
    pace_.cancel();
    state_ = State::Idle;
  } else {
    close();
  }
  user_->on_end(*this, ExchangeEnd::Complete, 0);
}

void Connection::fail(ExchangeEnd end, int err) {
  close();
  user_->on_end(*this, end, err);
}

}  // namespace dlb::loadgen
