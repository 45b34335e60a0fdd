// Moving an exchange's bytes both ways. Each pump writes what it can, reads what it has room for, and goes on
// until neither direction moves: on an edge-triggered loop nobody else will say that there is more.
// Back-pressure is by not reading. Functions that may end the exchange answer Step::Gone; nothing of it is
// touched after that.
#include <algorithm>
#include <array>
#include <utility>

#include "common/check.h"
#include "common/socket.h"
#include "lb/downstream.h"
#include "lb/exchange.h"
#include "lb/head_writer.h"
#include "lb/upgrade_rules.h"
#include "lb/worker.h"

namespace dlb::lb {
namespace {

// Reads and writes of one direction before others get their turn.
constexpr int kStepsPerTurn = 16;
// From here on a pipe is worth its two calls more (ARCHITECTURE.md has the figures).
constexpr std::uint64_t kSpliceFrom = 32 * 1024;
constexpr std::uint8_t kMaxInterims = 64;
constexpr std::uint32_t kMaxInterimBytes = 64 * 1024;

void count_status(BackendCounters& counters, int status) {
  if (status < 300) return count(counters.responses_2xx);
  if (status < 400) return count(counters.responses_3xx);
  if (status < 500) return count(counters.responses_4xx);
  count(counters.responses_5xx);
}

std::string_view server_error_text(int status) {
  switch (status) {
    case 500:
      return "answered 500";
    case 502:
      return "answered 502";
    case 503:
      return "answered 503";
    case 504:
      return "answered 504";
    default:
      return "answered 5xx";
  }
}

}  // namespace

// --- request: downstream to upstream

void Exchange::pump_request() {
  if (upstream_ == nullptr) return;
  Transport& upstream = upstream_->transport();
  bool progress = false;
  bool moved = true;
  int steps = 0;
  while (moved && steps++ < kStepsPerTurn) {
    moved = false;
    if (!request_write_dead_ && upstream.write_ready() && request_.anything_to_send()) {
      std::array<iovec, MessageRelay::kMaxParts> parts;
      const IoResult wrote = upstream.writev(parts.data(), request_.gather(parts.data()));
      if (wrote.status == IoStatus::Error) {
        // The backend takes no more, but its answer may be there already: that is for the reads to find out.
        request_write_dead_ = true;
        upstream.note_events(EPOLLERR);
        if (state_ == State::AwaitingHead) return pump_response();
      } else if (wrote.ok()) {
        request_.sent(wrote.bytes);
        moved = true;
      }
    }
    if (!request_.source_ended() && !request_write_dead_) {
      const Step step = read_request_body();
      if (step == Step::Gone) return;
      moved |= step == Step::Moved;
    }
    progress |= moved;
  }
  if (moved) worker_.loop().make_runnable(downstream_.transport().source());
  if (state_ == State::Responding && progress && wait_ == Wait::ResponseBody) wait_for(wait_, true);
  if (state_ != State::AwaitingHead) return;
  const bool client_owes =
      !request_.source_ended() && !request_.anything_to_send() && !backend_owes_continue_;
  wait_for(client_owes ? Wait::ClientBody : Wait::ResponseHead, progress);
}

Exchange::Step Exchange::read_request_body() {
  if (!downstream_.transport().read_ready()) return Step::Stuck;
  request_.shrink();
  if (!request_.has_block()) {
    Buffer block = worker_.acquire_io_block();
    if (!block.valid()) return Step::Stuck;
    request_.give_block(std::move(block));
  }
  std::span<char> room = request_.room();
  if (room.empty() && request_.holding()) {
    // Full: into a larger block while there is one, else the request can't be replayed any more.
    Buffer larger = request_.block_bytes() < worker_.io_block_bytes() ? worker_.acquire_io_block() : Buffer{};
    if (larger.valid()) {
      request_.grow_block(std::move(larger));
    } else {
      request_.release_hold();
    }
    room = request_.room();
  }
  if (room.empty()) return Step::Stuck;

  const IoResult got = downstream_.transport().read(room);
  if (got.status == IoStatus::WouldBlock) return Step::Stuck;
  if (!got.ok()) {  // left, or half-closed in the middle of the body: there is no request to serve
    downstream_.close();
    return Step::Gone;
  }
  worker_.metrics().client_bytes_in.add(got.bytes);
  backend_owes_continue_ = false;
  const bool bad = request_.take_read(got.bytes) == MessageRelay::Intake::Bad;
  const bool large = request_.payload_bytes() > worker_.options().max_body_bytes.bytes;
  if (!bad && !large) return Step::Moved;
  client_keep_alive_ = false;
  if (state_ == State::Responding) {
    note_end('L', 'D');
    cut();
  } else if (bad) {
    answer(400, "bad_request", request_.reason());
  } else {
    answer(413, "too_large", "the body is larger than max-body-bytes");
  }
  return Step::Gone;
}

// --- response: upstream to downstream

void Exchange::pump_response() {
  if (state_ == State::AwaitingHead) {
    if (read_response_head() == Step::Gone || state_ != State::Responding) return;
  }
  bool progress = false;
  bool moved = true;
  int steps = 0;
  while (moved && steps++ < kStepsPerTurn) {
    moved = false;
    if (upstream_ != nullptr && response_.source_ended()) response_source_ended();
    if (response_waits()) {
      const Step step = pipe_.bytes() > 0 ? write_pipe() : write_response();
      if (step == Step::Gone) return;
      moved = step == Step::Moved;
    }
    if (response_.source_ended() && !response_waits()) return finish();
    if (upstream_ != nullptr && !response_.source_ended() && pipe_.bytes() == 0) {
      const Step step = may_splice() ? splice_response_body() : read_response_body();
      if (step == Step::Gone) return;
      moved |= step == Step::Moved;
    }
    progress |= moved;
  }
  if (moved) worker_.loop().make_runnable(downstream_.transport().source());
  response_.shrink();
  wait_for(response_waits() ? Wait::ClientWrite : Wait::ResponseBody, progress);
}

Exchange::Step Exchange::read_response_head() {
  Transport& upstream = upstream_->transport();
  for (;;) {
    if (!response_in_.valid()) {
      response_in_ = worker_.acquire_io_block();
      if (!response_in_.valid()) {
        upstream_failed(UpstreamFailure::NoDescriptor);
        return Step::Gone;
      }
    }
    response_in_.compact();
    if (response_in_.writable().empty()) {
      Buffer larger = worker_.acquire_block(response_in_.capacity() + 1);
      if (!larger.valid()) {
        upstream_failed(UpstreamFailure::BadResponse);
        return Step::Gone;
      }
      larger.append(response_in_.data());
      response_in_ = std::move(larger);
    }
    const IoResult got = upstream.read(response_in_.writable());
    if (got.status == IoStatus::WouldBlock) {
      if (response_in_.empty()) response_in_.reset();
      return Step::Stuck;
    }
    if (!got.ok()) {
      upstream_failed(UpstreamFailure::Broken);
      return Step::Gone;
    }
    response_in_.commit(got.bytes);
    response_bytes_ += got.bytes;
    const Step step = parse_response_heads();
    if (step != Step::Stuck) return step;
  }
}

// Takes heads out of what has been read: interim ones are passed on, the final one begins the response
// (Moved).
Exchange::Step Exchange::parse_response_heads() {
  for (;;) {
    ResponseHead& head = worker_.response_head();
    const ParseResult result = worker_.parser().parse_response(response_in_.data(), response_scanned_,
                                                               worker_.response_limits(), method_, head);
    if (result.status == ParseStatus::NeedMore) return Step::Stuck;
    const bool switching = result.status == ParseStatus::Complete && head.status == 101;
    const bool asked_for = switching && request_.complete() && switches_as_offered(head, upgrade_offer_);
    if (result.status == ParseStatus::Bad || (switching && !asked_for)) {
      upstream_failed(UpstreamFailure::BadResponse);
      return Step::Gone;
    }
    if (switching) return begin_tunnel(head, result.head_bytes);
    response_scanned_ = 0;
    if (head.status >= 200) return begin_response(head, result.head_bytes);

    interim_bytes_ += static_cast<std::uint32_t>(result.head_bytes);
    if (++interim_count_ > kMaxInterims || interim_bytes_ > kMaxInterimBytes) {
      upstream_failed(UpstreamFailure::BadResponse);
      return Step::Gone;
    }
    if (!http10_client_ && pass_interim(head) == Step::Gone) return Step::Gone;
    response_in_.consume(result.head_bytes);
    if (response_in_.empty()) return Step::Stuck;
  }
}

// A block for a head of at most `bound` bytes, in front of which stand interim heads that the client has not
// taken yet.
Buffer Exchange::head_block(std::size_t bound) {
  const std::string_view unsent = response_.unsent_head();
  Buffer block = worker_.acquire_block(unsent.size() + bound);
  if (block.valid()) block.append(unsent);
  return block;
}

Exchange::Step Exchange::pass_interim(const ResponseHead& head) {
  const std::size_t unsent = response_.unsent_head().size();
  Buffer block = head_block(response_head_bound(head, {}));
  if (!block.valid() || !write_interim_head(head, block)) {
    upstream_failed(UpstreamFailure::BadResponse);
    return Step::Gone;
  }
  client_head_bytes_ += block.size() - unsent;
  response_.start(std::move(block), BodyFraming::None, 0, BodyFraming::None);
  if (head.status == 100 && std::exchange(backend_owes_continue_, false)) wait_for(Wait::ClientBody, true);
  return write_response() == Step::Gone ? Step::Gone : Step::Moved;
}

Exchange::Step Exchange::begin_response(const ResponseHead& head, std::size_t head_bytes) {
  ResponseContext context;
  switch (head.framing) {
    case BodyFraming::None:
    case BodyFraming::Length:
      context.sink = head.framing;
      break;
    case BodyFraming::Chunked:
    case BodyFraming::UntilClose:
      context.sink = http10_client_ ? BodyFraming::UntilClose : BodyFraming::Chunked;
  }
  // A client that is still sending its body when the answer begins can't be sure where the next request
  // starts.
  keep_downstream_ = client_keep_alive_ && request_.source_ended() &&
                     context.sink != BodyFraming::UntilClose && !worker_.ends_connections();
  Backend& backend = worker_.backends().at(choice_.backend);
  context.backend_id = backend.id;
  context.score = choice_.score;
  context.fallback = choice_.fallback;
  context.keep_alive = keep_downstream_;
  context.http10_client = http10_client_;
  context.head_request = method_ == HttpMethod::Head;
  const std::size_t unsent = response_.unsent_head().size();
  Buffer block = head_block(response_head_bound(head, backend.id));
  if (!block.valid() || !write_response_head(head, context, block)) {
    upstream_failed(UpstreamFailure::BadResponse);
    return Step::Gone;
  }

  status_ = head.status;
  client_head_bytes_ += block.size() - unsent;
  upstream_keep_alive_ = head.keep_alive && !head.ambiguous && head.framing != BodyFraming::UntilClose;
  head_at_ = worker_.loop().now();
  backend.heads.answered(head_at_);
  count_status(backend.counters, head.status);
  if (head.status >= 500) note_backend_failed(server_error_text(head.status));
  request_.release_hold();
  response_in_.consume(head_bytes);
  response_.start(std::move(block), head.framing, head.content_length, context.sink);
  enter(State::Responding);
  if (transport_class_ == TransportClass::Feed) {
    WorkerMetrics::record(worker_.metrics().feed_header_wait_us, head_at_ - picked_);
    if (const auto bytes = worker_.options().client_feed_write_buffer_bytes.bytes; bytes > 0) {
      set_socket_buffers(downstream_.transport().fd(), {0, static_cast<std::size_t>(bytes)});
    }
    release_slot();
  } else {
    worker_.router().record_latency(choice_.backend, head_at_ - picked_, head_at_);
  }
  if (response_in_.empty()) {
    response_in_.reset();
    return Step::Moved;
  }
  if (response_.give_block(std::move(response_in_)) == MessageRelay::Intake::Bad) {
    response_broken();
    return Step::Gone;
  }
  return Step::Moved;
}

// The 101 that the request asked for: HTTP ends on both connections. The slot and the place among the
// backend's connections are free again, since nothing here is work that waits for an end.
Exchange::Step Exchange::begin_tunnel(const ResponseHead& head, std::size_t head_bytes) {
  Backend& backend = worker_.backends().at(choice_.backend);
  ResponseContext context;
  context.backend_id = backend.id;
  context.score = choice_.score;
  context.fallback = choice_.fallback;
  context.upgraded = true;
  Tunnel::Firsts firsts;
  firsts.head = head_block(response_head_bound(head, backend.id));
  if (!firsts.head.valid() || !write_response_head(head, context, firsts.head)) {
    upstream_failed(UpstreamFailure::BadResponse);
    return Step::Gone;
  }
  Tunnel* tunnel = worker_.tunnels().create(worker_);
  if (tunnel == nullptr) {
    upstream_failed(UpstreamFailure::NoDescriptor);
    return Step::Gone;
  }
  status_ = head.status;
  head_at_ = worker_.loop().now();
  backend.heads.answered(head_at_);
  count_status(backend.counters, head.status);
  note_backend_succeeded();
  count(backend.counters.bytes_out, request_.total_sent());
  count(backend.counters.bytes_in, response_bytes_);
  worker_.router().record_latency(choice_.backend, head_at_ - picked_, head_at_);
  enter(State::Responding);
  count_finished();
  client_head_bytes_ += firsts.head.size() - response_.unsent_head().size();
  if (access_.wanted()) tunnel->log_as(access_record());

  response_in_.consume(head_bytes);
  firsts.from_upstream = std::move(response_in_);
  Transport upstream = upstream_->hand_over();
  upstream_ = nullptr;
  Transport downstream = downstream_.hand_over(firsts.from_downstream);
  abandon();
  tunnel->join(std::move(downstream), std::move(upstream), backend, std::move(firsts));
  return Step::Gone;
}

Exchange::Step Exchange::read_response_body() {
  Transport& upstream = upstream_->transport();
  if (!upstream.read_ready()) return Step::Stuck;
  response_.shrink();
  if (!response_.has_block()) {
    Buffer block = worker_.acquire_body_block(transport_class_);
    if (!block.valid()) {
      note_end('L', 'D');
      response_broken();
      return Step::Gone;
    }
    response_.give_block(std::move(block));
  }
  const std::span<char> room = response_.room();
  if (room.empty()) return Step::Stuck;
  const IoResult got = upstream.read(room);
  if (got.status == IoStatus::WouldBlock) return Step::Stuck;
  MessageRelay::Intake intake = MessageRelay::Intake::Bad;  // a reset is never a clean end
  if (got.ok()) {
    response_bytes_ += got.bytes;
    intake = response_.take_read(got.bytes);
  } else if (got.status == IoStatus::Eof) {
    intake = response_.source_finished();
  }
  if (intake != MessageRelay::Intake::Bad) return Step::Moved;
  response_broken();
  return Step::Gone;
}

Exchange::Step Exchange::write_response() {
  Transport& downstream = downstream_.transport();
  if (!downstream.write_ready()) return Step::Stuck;
  std::array<iovec, MessageRelay::kMaxParts> parts;
  const IoResult wrote = downstream.writev(parts.data(), response_.gather(parts.data()));
  if (wrote.status == IoStatus::Error) {
    downstream_.close();
    return Step::Gone;
  }
  if (!wrote.ok()) return Step::Stuck;
  response_.sent(wrote.bytes);
  client_bytes_ += wrote.bytes;
  worker_.metrics().client_bytes_out.add(wrote.bytes);
  return Step::Moved;
}

// --- large bodies: through a pipe

// Whether what comes next goes by splice: a body of known length, much of which is still to come, between
// plain sockets. Takes the pipe; without one the body is copied. While memory is short a pipe of 256 KiB is
// too much to hold for a stalled reader (and its pages count as nobody's socket memory): bodies go on by
// their block, and an empty pipe goes back.
bool Exchange::may_splice() {
  const std::uint64_t passable = response_.passable();
  if (worker_.memory_short()) {
    worker_.pipes().give_back(std::exchange(pipe_, {}));
    return false;
  }
  if (pipe_.valid()) return passable > 0;
  if (passable < kSpliceFrom || !downstream_.transport().can_splice() || !upstream_->transport().can_splice())
    return false;
  response_.shrink();
  pipe_ = worker_.pipes().acquire();
  return pipe_.valid();
}

Exchange::Step Exchange::splice_response_body() {
  const std::size_t most = std::min<std::uint64_t>(response_.passable(), worker_.pipes().pipe_bytes());
  const IoResult got = upstream_->transport().splice_to(pipe_, most);
  if (got.ok()) {
    response_bytes_ += got.bytes;
    response_.passed(got.bytes);
    return Step::Moved;
  }
  worker_.pipes().give_back(std::exchange(pipe_, {}));
  if (got.status == IoStatus::WouldBlock) return Step::Stuck;
  response_broken();
  return Step::Gone;
}

Exchange::Step Exchange::write_pipe() {
  Transport& downstream = downstream_.transport();
  const IoResult wrote = downstream.splice_from(pipe_, !response_.source_ended());
  if (wrote.status == IoStatus::Error) {
    downstream_.close();
    return Step::Gone;
  }
  if (!wrote.ok()) return Step::Stuck;
  client_bytes_ += wrote.bytes;
  worker_.metrics().client_bytes_out.add(wrote.bytes);
  if (pipe_.bytes() == 0 && response_.source_ended()) worker_.pipes().give_back(std::exchange(pipe_, {}));
  return Step::Moved;
}

// The backend has delivered its last byte: its connection and slot are free, however slowly the client reads.
// A connection is used again only when nothing of either message is left on it.
void Exchange::response_source_ended() {
  const bool reusable =
      upstream_keep_alive_ && request_.complete() && !request_write_dead_ && response_.leftover().empty();
  if (status_ < 500) note_backend_succeeded();
  release_upstream(reusable);
}

// The backend broke off in the middle of its response: the client gets what came, and an end that can't be
// taken for a complete one.
void Exchange::response_broken() {
  const bool ours = end_.who == 'L';
  note_end('S', 'D');
  worker_.metrics().backend_resets.add();
  count(worker_.backends().at(choice_.backend).counters.response_failures);
  if (!ours && status_ < 500) note_backend_failed("broke off a response");
  if (!ours) note_cut();
  if (response_waits() && (pipe_.bytes() > 0 ? write_pipe() : write_response()) == Step::Gone) return;
  cut();
}

}  // namespace dlb::lb
