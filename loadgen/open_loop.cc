#include "loadgen/open_loop.h"

#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>

#include "common/check.h"
#include "loadgen/virtual_user.h"

namespace dlb::loadgen {

OpenLoop::OpenLoop(const OpenLoadShape& shape, std::uint64_t seed, std::uint64_t requests, EventLoop& loop,
                   const Counting& counting)
    : queue_max_(shape.queue_max),
      requests_(requests),
      schedule_(shape.rate, shape.arrival, seed),
      loop_(loop),
      counting_(counting),
      timer_(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)) {
  DLB_CHECK_MSG(static_cast<bool>(timer_), "timerfd_create");
  auto added = loop_.add(timer_.get(), *this, EventLoop::kReadOnlyEvents);
  DLB_CHECK_MSG(added.has_value(), "the timer can't be watched");
  source_ = *added;
}

OpenLoop::~OpenLoop() { loop_.remove(source_, timer_.get()); }

void OpenLoop::start(TimePoint now, TimePoint end) {
  origin_ = now;
  end_ = end;
  advance(0);
  if (!more_) release_users();
  arm();
}

void OpenLoop::user_free(VirtualUser& user) {
  if (waiting_.empty()) {
    if (exhausted()) {
      user.no_more_operations();
    } else {
      free_users_.push_back(&user);
    }
    return;
  }
  const Operation operation = waiting_.front();
  waiting_.pop_front();
  user.perform(operation.index, operation.intended);
}

void OpenLoop::on_events(std::uint32_t) { take_up_until(monotonic_now()); }

void OpenLoop::take_up_before(TimePoint end) { take_up_until(end - Duration(1)); }

void OpenLoop::stop() {
  more_ = false;
  waiting_.clear();
  free_users_.clear();
  arm();
}

// Each begun operation may take long enough for the next one to be due: those have another turn.
void OpenLoop::take_up_until(TimePoint limit) {
  while (more_ && next_.intended <= limit) {
    const Operation operation = next_;
    advance(operation.index + 1);
    take_up(operation);
  }
  if (!more_) release_users();
  arm();
}

void OpenLoop::take_up(const Operation& operation) {
  Recorder& recorder = counting_.of(operation.index, operation.intended);
  recorder.taken_up(monotonic_now() - operation.intended);
  if (!free_users_.empty()) {
    VirtualUser& user = *free_users_.front();
    free_users_.pop_front();
    user.perform(operation.index, operation.intended);
  } else if (waiting_.size() < queue_max_) {
    waiting_.push_back(operation);
  } else {
    recorder.found_queue_full();
  }
}

void OpenLoop::advance(std::uint64_t index) {
  next_ = Operation{index, origin_ + schedule_.next()};
  more_ = (requests_ == 0 || index < requests_) && next_.intended < end_;
}

// Edge-triggered: setting the time anew makes the next expiry an event, without a read in between.
void OpenLoop::arm() {
  itimerspec when{};
  if (more_) {
    // 0 would disarm it; a time that has passed fires at once.
    const auto ns = std::max<std::int64_t>(next_.intended.time_since_epoch().count(), 1);
    when.it_value.tv_sec = static_cast<time_t>(ns / 1'000'000'000);
    when.it_value.tv_nsec = static_cast<long>(ns % 1'000'000'000);
  }
  DLB_CHECK(::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr) == 0);
}

void OpenLoop::release_users() {
  if (!exhausted()) return;
  for (VirtualUser* user : free_users_) user->no_more_operations();
  free_users_.clear();
}

}  // namespace dlb::loadgen
