// When a backend's side of an exchange fails: what is counted, whether it is tried once more, what the client
// is told; and the deadlines that make it fail.
#include <cerrno>

#include "lb/downstream.h"
#include "lb/exchange.h"
#include "lb/outlier_monitor.h"
#include "lb/worker.h"

namespace dlb::lb {
namespace {

constexpr std::string_view kRetryAfter = "Retry-After: 1\r\n";

}  // namespace

void Exchange::count_failure(UpstreamFailure failure, int err) {
  WorkerMetrics& metrics = worker_.metrics();
  BackendCounters& counters = worker_.backends().at(choice_.backend).counters;
  if (failure == UpstreamFailure::ConnectRefused || failure == UpstreamFailure::ConnectTimeout) {
    worker_.router().record_failure(choice_.backend, worker_.loop().now());
  }
  switch (failure) {
    case UpstreamFailure::ConnectRefused:
      metrics.backend_connect_errors.add();
      count(counters.connect_failures);
      worker_.shared().passive.note_connect_failure(worker_.backends().at(choice_.backend), err);
      return;
    case UpstreamFailure::ConnectTimeout:
      metrics.backend_connect_timeouts.add();
      count(counters.connect_failures);
      worker_.shared().passive.note_connect_failure(worker_.backends().at(choice_.backend), ETIMEDOUT);
      return;
    case UpstreamFailure::Broken:
      metrics.backend_resets.add();
      count(counters.resets);
      return note_backend_failed("closed or reset before it answered");
    case UpstreamFailure::HeadTimeout:
      metrics.backend_timeouts.add();
      count(counters.timeouts);
      return note_backend_failed("did not answer in time");
    case UpstreamFailure::BadResponse:
      metrics.backend_bad_responses.add();
      count(counters.response_failures);
      return note_backend_failed("gave no valid response");
    case UpstreamFailure::NoDescriptor:
      return;
  }
}

// For outlier ejection and policies: how the backend that was picked last did. Connects are health's.
void Exchange::note_backend_failed(std::string_view what) {
  worker_.router().record_failure(choice_.backend, worker_.loop().now());
  worker_.shared().outliers.failed(worker_.backends().at(choice_.backend), picked_, worker_.loop().now(),
                                   what);
}

// The client gets no whole answer for it. A backend that drains was to finish what it had.
void Exchange::note_cut() {
  const Backend& backend = worker_.backends().at(choice_.backend);
  if (backend.taken_out()) count(backend.counters.drain_cuts);
}

void Exchange::note_backend_succeeded() {
  worker_.shared().outliers.succeeded(worker_.backends().at(choice_.backend), picked_, worker_.loop().now());
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

void Exchange::upstream_failed(UpstreamFailure failure, int err) {
  const bool was_pooled = upstream_ != nullptr && upstream_->reused();
  const bool wants_retry = may_retry(failure);
  if (failure == UpstreamFailure::Broken && was_pooled && response_bytes_ == 0) {
    worker_.metrics().upstream_closed_by_peer.add();  // the race of every keep-alive: no fault of the backend
  } else {
    count_failure(failure, err);
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
  if (failure != UpstreamFailure::NoDescriptor) note_cut();
  release_upstream(false);
  switch (failure) {
    case UpstreamFailure::ConnectTimeout:
      note_end('s', 'C');
      return answer(504, "backend_timeout", "the backend did not accept the connection in time");
    case UpstreamFailure::HeadTimeout:
      note_end('s', 'H');
      return answer(504, "backend_timeout", "the backend did not answer in time");
    case UpstreamFailure::ConnectRefused:
      note_end('S', 'C');
      return answer(502, "backend_unreachable", "the backend refused the connection");
    case UpstreamFailure::Broken:
      note_end('S', 'H');
      return answer(502, "backend_broken", "the backend closed the connection before it answered");
    case UpstreamFailure::BadResponse:
      note_end('S', 'H');
      return answer(502, "backend_broken", "the backend's response is not valid HTTP");
    case UpstreamFailure::NoDescriptor:
      note_end('L', 'C');
      return answer(503, "overloaded", "the balancer has no descriptor left for a backend connection",
                    kRetryAfter);
  }
}

// Once more, on another backend when there is one, by a fresh connection in any case. The place in the budget
// is ours.
void Exchange::retry() {
  retry_taken_ = true;
  worker_.metrics().retries.add();
  count(worker_.backends().at(choice_.backend).counters.retried_away);
  release_upstream(false);
  request_.rewind();
  if (state_ != State::Queued) enter(State::Starting);
  wait_for(Wait::Nothing, false);
  route();
}

void Exchange::on_retry_granted() { retry(); }

// --- timers

void Exchange::wait_for(Wait wait, bool progress) {
  if (wait == wait_ && !progress) return;
  if (wait != wait_) note_debt(wait);
  set_wait(wait);
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
      return arm_look();
  }
}

// The one place where `wait_` changes: a backend's watch counts who waits for a connect or a response head.
void Exchange::set_wait(Wait wait) {
  const auto watched = [](Wait one) { return one == Wait::Connect || one == Wait::ResponseHead; };
  const bool before = watched(wait_);
  wait_ = wait;
  if (before == watched(wait)) return;
  StallWatch& heads = worker_.backends().at(choice_.backend).heads;
  if (before) return heads.over();
  heads.asked(worker_.loop().now());
}

void Exchange::on_timer(Timer& timer) {
  if (&timer == &pace_timer_) return judge_pace();
  if (wait_ == Wait::ClientWrite) return look_at_reader();
  const Wait wait = wait_;
  set_wait(Wait::Nothing);
  WorkerMetrics& metrics = worker_.metrics();
  switch (wait) {
    case Wait::Nothing:
      return;
    case Wait::Queue:
      metrics.queue_timeouts.add();
      note_end('L', 'Q');
      worker_.leave_queue(*this);
      return answer(503, "queue_timeout", "no backend had a free slot within backend-queue-timeout",
                    kRetryAfter);
    case Wait::Connect:
      return upstream_failed(UpstreamFailure::ConnectTimeout);
    case Wait::ResponseHead:
      return upstream_failed(UpstreamFailure::HeadTimeout);
    case Wait::ClientBody:
      metrics.client_body_timeouts.add();
      return give_up_on_uploader("the request body stopped coming");
    case Wait::ResponseBody:
      metrics.backend_timeouts.add();
      note_end('s', 'D');
      count(worker_.backends().at(choice_.backend).counters.timeouts);
      if (status_ < 500) note_backend_failed("stopped in the middle of a response");
      note_cut();
      return cut();
    case Wait::ClientWrite:
      return;
  }
}

}  // namespace dlb::lb
