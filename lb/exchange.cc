// The way of an exchange to a backend, its retries, our own answers and its end. Moving bytes:
// exchange_relay.cc.
#include "lb/exchange.h"

#include <algorithm>
#include <array>

#include "common/check.h"
#include "common/json_writer.h"
#include "common/socket.h"
#include "lb/downstream.h"
#include "lb/head_writer.h"
#include "lb/path_rules.h"
#include "lb/worker.h"

namespace dlb::lb {
namespace {

constexpr std::string_view kRetryAfter = "Retry-After: 1\r\n";

// Transitions that exist; everything else is a bug of ours. Row: from, columns: to (bit per State).
constexpr unsigned to(Exchange::State state) { return 1U << static_cast<unsigned>(state); }
constexpr std::array<unsigned, 7> kAllowed = {
    /* Starting */ to(Exchange::State::Queued) | to(Exchange::State::Connecting) |
        to(Exchange::State::AwaitingHead) | to(Exchange::State::Answering) | to(Exchange::State::Done),
    /* Queued */ to(Exchange::State::Connecting) | to(Exchange::State::AwaitingHead) |
        to(Exchange::State::Answering) | to(Exchange::State::Done),
    /* Connecting */ to(Exchange::State::Starting) | to(Exchange::State::Queued) |
        to(Exchange::State::AwaitingHead) | to(Exchange::State::Answering) | to(Exchange::State::Done),
    /* AwaitingHead */ to(Exchange::State::Starting) | to(Exchange::State::Queued) |
        to(Exchange::State::Responding) | to(Exchange::State::Answering) | to(Exchange::State::Done),
    /* Responding */ to(Exchange::State::Done),
    /* Answering */ to(Exchange::State::Done),
    /* Done */ 0,
};

bool idempotent(HttpMethod method) {
  switch (method) {
    case HttpMethod::Get:
    case HttpMethod::Head:
    case HttpMethod::Options:
    case HttpMethod::Put:
    case HttpMethod::Delete:
      return true;
    default:
      return false;
  }
}

std::string_view write_request_id(Rng& rng, std::array<char, 32>& out) {
  static constexpr char kHex[] = "0123456789abcdef";
  for (std::size_t half = 0; half < 2; ++half) {
    std::uint64_t bits = rng.next();
    for (std::size_t i = 0; i < 16; ++i, bits >>= 4) out[half * 16 + i] = kHex[bits & 15];
  }
  return {out.data(), out.size()};
}

}  // namespace

Exchange::Exchange(Worker& worker, Downstream& downstream, Handle<Exchange> self)
    : worker_(worker), downstream_(downstream), timer_(*this), self_(self), started_(worker.loop().now()) {}

Exchange::~Exchange() { DLB_CHECK(state_ == State::Done && !slot_held_ && !connection_held_ && !waiting()); }

void Exchange::enter(State state) {
  DLB_CHECK((kAllowed[static_cast<unsigned>(state_)] & to(state)) != 0);
  state_ = state;
}

// --- start

void Exchange::start(const RequestHead& head, std::size_t head_bytes, Buffer& in) {
  method_ = head.method;
  http10_client_ = head.minor_version == 0;
  client_keep_alive_ = head.keep_alive;
  const Options& options = worker_.options();

  // What is behind the head is this request's body or the next request. A body that isn't all here takes the
  // whole block.
  const auto take_body = [&](Buffer request_head) {
    const std::size_t behind = in.size() - head_bytes;
    request_.start(std::move(request_head), head.framing, head.content_length, head.framing);
    in.consume(head_bytes);
    if (request_.source_ended() || behind == 0) return MessageRelay::Intake::More;
    if (head.framing == BodyFraming::Length && behind > head.content_length) {
      Buffer body = worker_.acquire_block(head.content_length);
      if (!body.valid()) return MessageRelay::Intake::Bad;
      body.append(in.data().substr(0, head.content_length));
      in.consume(head.content_length);
      return request_.give_block(std::move(body));
    }
    return request_.give_block(std::move(in));
  };
  const auto refuse = [&](int status, std::string_view code, std::string_view detail,
                          std::string_view extra = {}) {
    if (take_body({}) == MessageRelay::Intake::Bad) client_keep_alive_ = false;
    answer(status, code, detail, extra);
  };

  if (head.method == HttpMethod::Connect) {
    return refuse(501, "not_implemented", "CONNECT is not served here");
  }
  if (head.path.starts_with("/lb/")) {
    std::string path(head.path);
    std::string query(head.query);
    std::string accept(head.fields.value(HeaderId::Accept));
    const bool reads = head.method == HttpMethod::Get || head.method == HttpMethod::Head;
    if (take_body({}) == MessageRelay::Intake::Bad) client_keep_alive_ = false;
    if (!options.public_status) return answer(404, "not_found", "there is nothing at this path");
    worker_.metrics().requests_local.add();
    if (!reads) {
      return answer(405, "method_not_allowed", "the balancer's own pages are read-only here",
                    "Allow: GET, HEAD\r\n");
    }
    OwnPages::Page page = worker_.shared().pages.render(path, query, accept);
    return answer_page(page.status, page.content_type, std::move(page.body), page.extra);
  }

  forwarded_ = true;
  worker_.metrics().requests_total.add();
  worker_.metrics().requests_in_progress.add();
  if (path_reaches(head.path, options.deny_paths))
    return refuse(404, "not_found", "there is nothing at this path");
  if (head.expect_unknown)
    return refuse(417, "expectation_failed", "only Expect: 100-continue is understood");
  if (head.framing == BodyFraming::Length && head.content_length > options.max_body_bytes.bytes) {
    return refuse(413, "too_large", "the body is larger than max-body-bytes");
  }
  if (options.admission_limit > 0 && head.method == HttpMethod::Post && head.path == "/message") {
    if (!worker_.shared().admissions.try_reserve(static_cast<std::uint32_t>(options.admission_limit))) {
      worker_.metrics().admission_rejected.add();
      return refuse(503, "overloaded", "too many messages are being posted at once", kRetryAfter);
    }
    admitted_ = true;
    worker_.metrics().admission_in_flight.add();
  }

  if (path_matches(head.path, options.feed_paths)) {
    transport_class_ = TransportClass::Feed;
    worker_.metrics().feed_requests.add();
  }
  const bool keyed = head.fields.find(HeaderId::IdempotencyKey) != nullptr;
  replay_path_ = (idempotent(method_) && !path_matches(head.path, options.no_replay_paths)) ||
                 (keyed && path_matches(head.path, options.retry_keyed_paths));

  std::array<char, PeerAddress::kTextBytes> host;
  std::array<char, 32> request_id;
  ForwardContext context;
  context.client_host = downstream_.peer().write_host(host);
  context.proto = "http";
  context.request_id = write_request_id(worker_.rng(), request_id);
  context.trusted_peer = listed(context.client_host, options.trusted_proxies);
  // A body that is here already needs no permission; an HTTP/1.0 client would not understand it.
  context.forward_expect = head.expect_continue && !http10_client_ && in.size() == head_bytes;
  Buffer request_head = worker_.acquire_block(request_head_bound(head));
  if (!request_head.valid() || !write_request_head(head, context, request_head)) {
    return refuse(431, "headers_too_large", "the head is too large to be forwarded");
  }
  if (take_body(std::move(request_head)) == MessageRelay::Intake::Bad) {
    client_keep_alive_ = false;
    return answer(400, "bad_request", request_.reason());
  }
  if (request_.payload_bytes() > options.max_body_bytes.bytes) {  // in chunks, and here already
    client_keep_alive_ = false;
    return answer(413, "too_large", "the body is larger than max-body-bytes");
  }
  request_.hold();
  route();
}

void Exchange::answer_bad_head(int status, std::string_view reason) {
  client_keep_alive_ = false;
  std::string_view code = "bad_request";
  if (status == 408) code = "timeout";
  if (status == 414) code = "uri_too_long";
  if (status == 431) code = "headers_too_large";
  if (status == 501) code = "not_implemented";
  if (status == 505) code = "version_not_supported";
  answer(status, code, reason);
}

// --- the way to a backend

void Exchange::route() {
  proceed(worker_.router().pick(transport_class_, worker_.loop().now(), {tried_, tried_count_}));
}

void Exchange::proceed(const Choice& choice) {
  WorkerMetrics& metrics = worker_.metrics();
  switch (choice.status) {
    case PickStatus::Picked:
      return on_slot(choice);
    case PickStatus::Full:
      if (state_ != State::Queued) enter(State::Queued);
      wait_for(Wait::Queue, true);
      // May have been given its slot, and even have ended, when this returns.
      if (!worker_.wait_for_slot(*this)) {
        answer(503, "queue_full", "too many requests are waiting for a backend", kRetryAfter);
      }
      return;
    case PickStatus::NoHealthy:
      metrics.no_backend.add();
      return answer(503, "no_backend", "no backend is healthy", kRetryAfter);
    case PickStatus::NoMemory:
      metrics.no_memory.add();
      return answer(503, "no_memory_safe_backend", "every healthy backend is short of memory", kRetryAfter);
  }
}

void Exchange::on_slot(const Choice& choice) {
  choice_ = choice;
  slot_held_ = connection_held_ = true;
  picked_ = worker_.loop().now();
  if (tried_count_ < std::size(tried_)) tried_[tried_count_++] = choice.backend;
  count(worker_.shared().backends.at(choice.backend).counters.requests);
  if (transport_class_ == TransportClass::Feed) {
    WorkerMetrics::record(worker_.metrics().feed_selection_us, picked_ - started_);
  }
  if (retry_taken_ || !use_pooled()) connect();
}

// Takes an idle connection. One that may not be replayed on is looked at first, unless it was used a turn
// ago.
bool Exchange::use_pooled() {
  while (Upstream* upstream = worker_.pool().take(choice_.backend, transport_class_)) {
    const bool fresh = upstream->idle_since_turn() + 1 >= worker_.loop().counters().turns;
    if (!replay_path_ && !fresh && !upstream->peek_clean()) {
      worker_.metrics().upstream_closed_by_peer.add();
      upstream->lend(*this);  // leaves Idle, so that close() doesn't look for it in the pool
      upstream->close();
      continue;
    }
    upstream_ = upstream;
    upstream_->lend(*this);
    worker_.metrics().upstream_reused.add();
    count(worker_.shared().backends.at(choice_.backend).counters.connections_reused);
    on_connected();
    return true;
  }
  return false;
}

void Exchange::connect() {
  Backend& backend = worker_.shared().backends.at(choice_.backend);
  const Options& options = worker_.options();
  SocketBuffers buffers{static_cast<std::size_t>(options.socket_read_buffer_bytes.bytes),
                        static_cast<std::size_t>(options.socket_write_buffer_bytes.bytes)};
  if (transport_class_ == TransportClass::Feed && options.proxy_feed_read_buffer_bytes.bytes > 0) {
    buffers.read_bytes = static_cast<std::size_t>(options.proxy_feed_read_buffer_bytes.bytes);
  }
  enter(State::Connecting);
  bool in_progress = false;
  auto fd = connect_start(backend.address, &in_progress, buffers);
  if (!fd) {
    const int err = fd.error().code;
    return upstream_failed(err == EMFILE || err == ENFILE || err == ENOBUFS || err == ENOMEM ||
                                   err == EADDRNOTAVAIL
                               ? UpstreamFailure::NoDescriptor
                               : UpstreamFailure::ConnectRefused);
  }
  upstream_ =
      worker_.upstreams().create(worker_, choice_.backend, transport_class_, std::move(*fd), in_progress);
  if (upstream_ == nullptr) return upstream_failed(UpstreamFailure::NoDescriptor);
  upstream_->lend(*this);
  if (!upstream_->attach()) return upstream_failed(UpstreamFailure::NoDescriptor);
  worker_.metrics().upstream_opened.add();
  count(backend.counters.connections_opened);
  if (in_progress) return wait_for(Wait::Connect, true);
  worker_.shared().passive.note_connect_success(choice_.backend);
  on_connected();
}

void Exchange::on_connected() {
  enter(State::AwaitingHead);
  request_write_dead_ = false;
  response_bytes_ = 0;
  response_scanned_ = 0;
  pump_request();
}

void Exchange::on_upstream_events() {
  if (state_ == State::Connecting) {
    Transport& transport = upstream_->transport();
    if (!transport.write_ready() && !transport.hung_up()) return;
    if (take_socket_error(transport.fd()) != 0) return upstream_failed(UpstreamFailure::ConnectRefused);
    upstream_->mark_connected();
    worker_.shared().passive.note_connect_success(choice_.backend);
    return on_connected();
  }
  if (state_ == State::AwaitingHead) {
    const Handle<Exchange> self = self_;
    pump_request();
    if (worker_.exchanges().get(self) == nullptr) return;
  }
  if (state_ == State::AwaitingHead || state_ == State::Responding) pump_response();
}

void Exchange::on_downstream_events() {
  if (downstream_.transport().hung_up()) return downstream_.close();
  switch (state_) {
    case State::AwaitingHead:
      return pump_request();
    case State::Responding: {
      const Handle<Exchange> self = self_;
      if (upstream_ != nullptr) pump_request();
      if (worker_.exchanges().get(self) == nullptr) return;
      if (state_ == State::Responding) pump_response();
      return;
    }
    case State::Answering:
      return pump_answer();
    case State::Starting:
    case State::Queued:
    case State::Connecting:
    case State::Done:
      return;
  }
}

// --- failure and retry

void Exchange::count_failure(UpstreamFailure failure) {
  WorkerMetrics& metrics = worker_.metrics();
  BackendCounters& counters = worker_.shared().backends.at(choice_.backend).counters;
  switch (failure) {
    case UpstreamFailure::ConnectRefused:
      metrics.backend_connect_errors.add();
      count(counters.connect_failures);
      worker_.shared().passive.note_connect_failure(choice_.backend);
      return;
    case UpstreamFailure::ConnectTimeout:
      metrics.backend_connect_timeouts.add();
      count(counters.connect_failures);
      worker_.shared().passive.note_connect_failure(choice_.backend);
      return;
    case UpstreamFailure::Broken:
      metrics.backend_resets.add();
      count(counters.resets);
      return;
    case UpstreamFailure::HeadTimeout:
      metrics.backend_timeouts.add();
      count(counters.timeouts);
      return;
    case UpstreamFailure::BadResponse:
      metrics.backend_bad_responses.add();
      count(counters.response_failures);
      return;
    case UpstreamFailure::NoDescriptor:
      return;
  }
}

// Whether a second delivery of a request whose bytes may have arrived is harmless and possible.
bool Exchange::replay_allowed() const { return replay_path_ && request_.can_rewind(); }

bool Exchange::may_retry(UpstreamFailure failure) const {
  if (retry_taken_) return false;
  switch (failure) {
    case UpstreamFailure::ConnectRefused:
    case UpstreamFailure::ConnectTimeout:
      return true;
    case UpstreamFailure::Broken:
      if (request_.nothing_sent_yet()) return true;
      return response_bytes_ == 0 && replay_allowed();
    case UpstreamFailure::HeadTimeout:
    case UpstreamFailure::BadResponse:
    case UpstreamFailure::NoDescriptor:
      return false;
  }
  return false;
}

void Exchange::upstream_failed(UpstreamFailure failure) {
  const bool was_pooled = upstream_ != nullptr && upstream_->reused();
  const bool wants_retry = may_retry(failure);
  if (failure == UpstreamFailure::Broken && was_pooled && response_bytes_ == 0) {
    worker_.metrics().upstream_closed_by_peer.add();  // the race of every keep-alive: no fault of the backend
  } else {
    count_failure(failure);
    worker_.note_failure(choice_.backend);
  }
  if (upstream_ != nullptr) {
    upstream_->close();
    upstream_ = nullptr;
  }
  response_in_.reset();
  if (wants_retry) {
    if (worker_.retry_budget().try_take(worker_.metrics().requests_in_progress.get())) {
      return retry();
    }
    release_upstream(false);
    if (worker_.wait_for_retry(*this, choice_.backend)) {
      enter(State::Queued);
      return wait_for(Wait::Queue, true);
    }
    worker_.metrics().retries_refused.add();
  }
  release_upstream(false);
  switch (failure) {
    case UpstreamFailure::ConnectTimeout:
      return answer(504, "backend_timeout", "the backend did not accept the connection in time");
    case UpstreamFailure::HeadTimeout:
      return answer(504, "backend_timeout", "the backend did not answer in time");
    case UpstreamFailure::ConnectRefused:
      return answer(502, "backend_unreachable", "the backend refused the connection");
    case UpstreamFailure::Broken:
      return answer(502, "backend_broken", "the backend closed the connection before it answered");
    case UpstreamFailure::BadResponse:
      return answer(502, "backend_broken", "the backend's response is not valid HTTP");
    case UpstreamFailure::NoDescriptor:
      return answer(503, "overloaded", "the balancer has no descriptor left for a backend connection",
                    kRetryAfter);
  }
}

// Once more, on another backend when there is one, by a fresh connection in any case. The place in the budget
// is ours.
void Exchange::retry() {
  retry_taken_ = true;
  worker_.metrics().retries.add();
  count(worker_.shared().backends.at(choice_.backend).counters.retried_away);
  release_upstream(false);
  request_.rewind();
  if (state_ != State::Queued) enter(State::Starting);
  wait_for(Wait::Nothing, false);
  route();
}

void Exchange::on_retry_granted() { retry(); }

// Gives the connection back to the pool, or closes it; then the reservations, so that whoever waits for them
// finds the connection idle.
void Exchange::release_upstream(bool reusable) {
  if (upstream_ != nullptr) {
    Upstream& upstream = *upstream_;
    upstream_ = nullptr;
    Backend& backend = worker_.shared().backends.at(choice_.backend);
    count(backend.counters.bytes_out, request_.total_sent());
    count(backend.counters.bytes_in, response_bytes_);
    const bool draining = backend.admin.load(std::memory_order_relaxed) != AdminState::Ready ||
                          backend.reported_draining.load(std::memory_order_relaxed);
    if (reusable && !draining && !upstream.transport().peer_finished()) {
      worker_.pool().put(upstream);
    } else {
      upstream.close();
    }
  }
  if (connection_held_) {
    connection_held_ = false;
    worker_.connection_freed(choice_.backend, transport_class_);
  }
  release_slot();
}

void Exchange::release_slot() {
  if (!slot_held_) return;
  slot_held_ = false;
  worker_.slot_freed(choice_.backend);
}

// --- timers

void Exchange::wait_for(Wait wait, bool progress) {
  if (wait == wait_ && !progress) return;
  wait_ = wait;
  WorkerTimers& timers = worker_.timers();
  switch (wait) {
    case Wait::Nothing:
      return timer_.cancel();
    case Wait::Queue:
      return timers.queue.arm(timer_);
    case Wait::Connect:
      return timers.connect.arm(timer_);
    case Wait::ClientBody:
      return timers.client_body.arm(timer_);
    case Wait::ResponseHead:
      return timers.response_head.arm(timer_);
    case Wait::ResponseBody:
      return timers.response_body.arm(timer_);
    case Wait::ClientWrite:
      return timers.client_write.arm(timer_);
  }
}

void Exchange::on_timer(Timer&) {
  const Wait wait = wait_;
  wait_ = Wait::Nothing;
  WorkerMetrics& metrics = worker_.metrics();
  switch (wait) {
    case Wait::Nothing:
      return;
    case Wait::Queue:
      metrics.queue_timeouts.add();
      worker_.leave_queue(*this);
      return answer(503, "queue_timeout", "no backend had a free slot within backend-queue-timeout",
                    kRetryAfter);
    case Wait::Connect:
      return upstream_failed(UpstreamFailure::ConnectTimeout);
    case Wait::ResponseHead:
      return upstream_failed(UpstreamFailure::HeadTimeout);
    case Wait::ClientBody:
      metrics.client_body_timeouts.add();
      client_keep_alive_ = false;
      if (state_ == State::Responding) return cut();
      release_upstream(false);
      return answer(408, "timeout", "the request body stopped coming");
    case Wait::ResponseBody:
      metrics.backend_timeouts.add();
      count(worker_.shared().backends.at(choice_.backend).counters.timeouts);
      return cut();
    case Wait::ClientWrite:
      metrics.client_write_timeouts.add();
      return cut();
  }
}

// --- our own answers

void Exchange::answer(int status, std::string_view code, std::string_view detail, std::string_view extra) {
  std::string body = "{\"error\":";
  append_json_string(body, code);
  body += ",\"detail\":";
  append_json_string(body, detail);
  body += "}\n";
  if (status >= 400) worker_.metrics().count_answer(status);
  answer_page(status, "application/json", std::move(body), extra);
}

void Exchange::answer_page(int status, std::string_view content_type, std::string body,
                           std::string_view extra) {
  release_upstream(false);
  status_ = status;
  enter(State::Answering);
  Buffer block = worker_.acquire_block(1024 + extra.size());
  OwnHead head;
  head.status = status;
  head.content_type = content_type;
  head.content_length = body.size();
  head.keep_alive = client_keep_alive_ && request_.source_ended() && !worker_.draining();
  head.http10_client = http10_client_;
  head.extra = extra;
  keep_downstream_ = head.keep_alive;
  if (!block.valid() || !write_own_head(head, block)) return cut();
  answer_.reserve(block.size() + body.size());
  answer_ = block.data();
  if (method_ != HttpMethod::Head) answer_ += body;
  pump_answer();
}

void Exchange::pump_answer() {
  Transport& transport = downstream_.transport();
  bool progress = false;
  while (answer_sent_ < answer_.size()) {
    const IoResult wrote = transport.write(std::span(answer_).subspan(answer_sent_));
    if (wrote.status == IoStatus::Error) return downstream_.close();
    if (!wrote.ok()) return wait_for(Wait::ClientWrite, progress);
    answer_sent_ += wrote.bytes;
    worker_.metrics().client_bytes_out.add(wrote.bytes);
    progress = true;
  }
  finish();
}

// --- the end

// Breaks the connection off: what the client has is visibly incomplete.
void Exchange::cut() {
  if (state_ == State::Responding && transport_class_ == TransportClass::Feed) {
    worker_.metrics().feed_interrupted_bodies.add();
  }
  client_keep_alive_ = false;
  if (forwarded_) {
    worker_.metrics().requests_failed.add();
    forwarded_ = false;
    worker_.metrics().requests_in_progress.sub();
  }
  downstream_.close();
}

// The response, a backend's or ours, has been handed to the kernel whole.
void Exchange::finish() {
  WorkerMetrics& metrics = worker_.metrics();
  const TimePoint now = worker_.loop().now();
  if (forwarded_) {
    const bool success = state_ == State::Responding && status_ < 500;
    (success ? metrics.requests_success : metrics.requests_failed).add();
    metrics.finished(now, now - started_);
    if (transport_class_ == TransportClass::Feed) {
      if (state_ == State::Responding) {
        WorkerMetrics::record(metrics.feed_body_us, now - head_at_);
        if (success) metrics.feed_success.add();
      } else {
        metrics.feed_header_failures.add();
      }
    }
    forwarded_ = false;
    metrics.requests_in_progress.sub();
  }
  end(keep_downstream_);
}

void Exchange::end(bool keep_alive) {
  const bool request_read = request_.source_ended();
  release_upstream(false);
  abandon();
  downstream_.exchange_done(keep_alive, request_read, request_.leftover());
}

void Exchange::abandon() {
  if (state_ == State::Done) return;
  WorkerMetrics& metrics = worker_.metrics();
  if (waiting()) {
    metrics.queue_left.add();
    worker_.leave_queue(*this);
  }
  timer_.cancel();
  release_upstream(false);
  if (admitted_) {
    admitted_ = false;
    worker_.shared().admissions.release();
    metrics.admission_in_flight.sub();
  }
  if (retry_taken_) {
    retry_taken_ = false;
    worker_.retry_budget().give_back();
  }
  if (forwarded_) {
    forwarded_ = false;
    metrics.requests_client_gone.add();
    metrics.requests_in_progress.sub();
    if (state_ == State::Responding && transport_class_ == TransportClass::Feed) {
      metrics.feed_interrupted_bodies.add();
    }
  }
  enter(State::Done);
  worker_.exchanges().retire(self_);
}

}  // namespace dlb::lb
