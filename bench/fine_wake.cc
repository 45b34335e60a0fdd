#include "bench/fine_wake.h"

#include <sys/timerfd.h>

#include <algorithm>

#include "common/check.h"

namespace dlb::bench {

FineWake::FineWake(EventLoop& loop, const TimerHeap& timers)
    : loop_(loop), timers_(timers), timer_(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)) {
  DLB_CHECK_MSG(static_cast<bool>(timer_), "timerfd_create");
  auto added = loop_.add(timer_.get(), *this, EventLoop::kReadOnlyEvents);
  DLB_CHECK_MSG(added.has_value(), "the timer can't be watched");
  source_ = *added;
  loop_.add_turn_end_hook(*this);
}

FineWake::~FineWake() {
  loop_.remove_turn_end_hook(*this);
  loop_.remove(source_, timer_.get());
}

// Edge-triggered: setting the time anew makes the next expiry an event, without a read in between.
void FineWake::on_turn_end() {
  const TimePoint next = timers_.next_deadline();
  if (next == set_to_) return;
  set_to_ = next;
  itimerspec when{};
  if (next != kNever) {
    const auto ns = std::max<std::int64_t>(next.time_since_epoch().count(), 1);  // 0 would disarm it
    when.it_value.tv_sec = static_cast<time_t>(ns / 1'000'000'000);
    when.it_value.tv_nsec = static_cast<long>(ns % 1'000'000'000);
  }
  DLB_CHECK(::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr) == 0);
}

}  // namespace dlb::bench
