// The states of an exchange, and its way to a backend: pick, slot, connection. How it starts:
// exchange_start.cc. Moving bytes: exchange_relay.cc. Failures, retries and deadlines: exchange_failure.cc.
// Answers and ends: exchange_end.cc.
#include "lb/exchange.h"

#include <array>
#include <cerrno>

#include "common/check.h"
#include "common/socket.h"
#include "lb/descriptors.h"
#include "lb/downstream.h"
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

}  // namespace

Exchange::Exchange(Worker& worker, Downstream& downstream, Handle<Exchange> self)
    : worker_(worker),
      downstream_(downstream),
      timer_(*this),
      pace_timer_(*this),
      self_(self),
      started_(worker.loop().now()) {}

Exchange::~Exchange() { DLB_CHECK(state_ == State::Done && !slot_held_ && !connection_held_ && !waiting()); }

void Exchange::enter(State state) {
  DLB_CHECK((kAllowed[static_cast<unsigned>(state_)] & to(state)) != 0);
  state_ = state;
}

void Exchange::route() { proceed(worker_.router().pick(transport_class_, worker_.loop().now(), tried())); }

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
        note_end('L', 'Q');
        answer(503, "queue_full", "too many requests are waiting for a backend", kRetryAfter);
      }
      return;
    case PickStatus::NoHealthy:
      metrics.no_backend.add();
      note_end('L', 'Q');
      return answer(503, "no_backend", "no backend is healthy", kRetryAfter);
    case PickStatus::NoMemory:
      metrics.no_memory.add();
      note_end('L', 'Q');
      return answer(503, "no_memory_safe_backend", "every healthy backend is short of memory", kRetryAfter);
  }
}

void Exchange::on_slot(const Choice& choice) {
  choice_ = choice;
  slot_held_ = connection_held_ = true;
  picked_ = worker_.loop().now();
  if (tried_count_ < std::size(tried_)) tried_[tried_count_++] = choice.backend;
  count(worker_.backends().at(choice.backend).counters.requests);
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
    count(worker_.backends().at(choice_.backend).counters.connections_reused);
    on_connected();
    return true;
  }
  return false;
}

void Exchange::connect() {
  Backend& backend = worker_.backends().at(choice_.backend);
  const Options& options = worker_.options();
  const bool feed =
      transport_class_ == TransportClass::Feed && options.proxy_feed_read_buffer_bytes.bytes > 0;
  const ByteSize& read_bytes = feed ? options.proxy_feed_read_buffer_bytes : options.socket_read_buffer_bytes;
  const SocketBuffers buffers =
      worker_.socket_buffers(static_cast<std::size_t>(read_bytes.bytes),
                             static_cast<std::size_t>(options.socket_write_buffer_bytes.bytes));
  enter(State::Connecting);
  bool in_progress = false;
  auto fd = connect_start(backend.address, &in_progress, buffers);
  // Out of descriptors: one that only idles in the pool makes room.
  if (!fd && is_own_shortage(fd.error().code) && worker_.pool().close_one()) {
    fd = connect_start(backend.address, &in_progress, buffers);
  }
  if (!fd) {
    const int err = fd.error().code;
    return upstream_failed(
        is_own_shortage(err) ? UpstreamFailure::NoDescriptor : UpstreamFailure::ConnectRefused, err);
  }
  upstream_ =
      worker_.upstreams().create(worker_, choice_.backend, transport_class_, std::move(*fd), in_progress);
  if (upstream_ == nullptr) return upstream_failed(UpstreamFailure::NoDescriptor);
  upstream_->lend(*this);
  if (!upstream_->attach()) return upstream_failed(UpstreamFailure::NoDescriptor);
  worker_.metrics().upstream_opened.add();
  count(backend.counters.connections_opened);
  if (in_progress) return wait_for(Wait::Connect, true);
  worker_.shared().passive.note_connect_success(backend);
  on_connected();
}

void Exchange::on_connected() {
  enter(State::AwaitingHead);
  connected_ = worker_.loop().now();
  request_write_dead_ = false;
  response_bytes_ = 0;
  response_scanned_ = 0;
  pump_request();
}

void Exchange::on_upstream_events() {
  if (state_ == State::Connecting) {
    Transport& transport = upstream_->transport();
    if (!transport.write_ready() && !transport.hung_up()) return;
    if (const int err = take_socket_error(transport.fd()); err != 0) {
      return upstream_failed(UpstreamFailure::ConnectRefused, err);
    }
    upstream_->mark_connected();
    worker_.shared().passive.note_connect_success(worker_.backends().at(choice_.backend));
    return on_connected();
  }
  if (state_ != State::AwaitingHead && state_ != State::Responding) return;
  // Also behind the response head: a body may still be on its way, and wait for this edge to be written.
  const Handle<Exchange> self = self_;
  pump_request();
  if (worker_.exchanges().get(self) == nullptr) return;
  if (state_ == State::AwaitingHead || state_ == State::Responding) pump_response();
}

// RST and hang-ups always; a FIN only by the operator's wish, since it may be a half-close.
bool Exchange::client_has_left() const {
  const Transport& transport = downstream_.transport();
  if (transport.hung_up()) return true;
  const bool waits = state_ == State::Queued || state_ == State::Connecting || state_ == State::AwaitingHead;
  return waits && transport.peer_finished() && worker_.options().abort_on_client_fin;
}

void Exchange::on_downstream_events() {
  if (client_has_left()) return downstream_.close();
  switch (state_) {
    case State::AwaitingHead:  // an interim response may not have been taken whole
      if (response_.anything_to_send() && write_response() == Step::Gone) return;
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

// Gives the connection back to the pool, or closes it; then the reservations, so that whoever waits for them
// finds the connection idle.
void Exchange::release_upstream(bool reusable) {
  if (upstream_ != nullptr) {
    Upstream& upstream = *upstream_;
    upstream_ = nullptr;
    Backend& backend = worker_.backends().at(choice_.backend);
    count(backend.counters.bytes_out, request_.total_sent());
    count(backend.counters.bytes_in, response_bytes_);
    if (reusable && !backend.taken_out() && !worker_.shedding() && !upstream.transport().peer_finished()) {
      worker_.pool().put(upstream);
      if (upstream.state() == Upstream::State::Closed) worker_.metrics().upstream_evicted.add();
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

}  // namespace dlb::lb
