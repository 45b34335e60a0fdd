// TimerList: deadlines of one class, all with the same duration, so that arming appends, expiry looks at the
// head and cancelling unlinks: O(1) each, no allocation. A reload that changes a duration makes a new list;
// timers already armed run out in the old one. For arbitrary deadlines use TimerHeap.
#pragma once

#include "common/clock.h"
#include "common/event_loop.h"

namespace dlb {

class Timer;

class TimerHandler {
 public:
  // The timer has been disarmed before the call and may be armed again inside it. May close.
  virtual void on_timer(Timer& timer) = 0;

 protected:
  ~TimerHandler() = default;
};

// Embedded in its owner; disarms itself when destroyed. An owner with several deadlines tells them apart by
// address.
class Timer {
 public:
  explicit Timer(TimerHandler& owner) : owner_(&owner) {}
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  ~Timer() { cancel(); }

  bool armed() const { return next_ != nullptr; }
  TimePoint deadline() const { return deadline_; }
  void cancel() {
    if (next_ == nullptr) return;
    prev_->next_ = next_;
    next_->prev_ = prev_;
    prev_ = next_ = nullptr;
  }

 private:
  friend class TimerList;
  Timer() = default;  // a list's sentinel

  Timer* prev_ = nullptr;
  Timer* next_ = nullptr;
  TimePoint deadline_{};
  TimerHandler* owner_ = nullptr;
};

class TimerList final : public TimerSource {
 public:
  // Registers with `loop`, which must outlive the list. A duration of zero or less means "off": arm() then
  // only cancels.
  TimerList(EventLoop& loop, Duration duration) : loop_(loop), duration_(duration) {
    sentinel_.prev_ = sentinel_.next_ = &sentinel_;
    loop_.add_timer_source(*this);
  }
  TimerList(const TimerList&) = delete;
  TimerList& operator=(const TimerList&) = delete;
  ~TimerList();

  // (Re)arms for now + duration.
  void arm(Timer& timer) {
    timer.cancel();
    if (duration_ <= Duration::zero()) return;
    timer.deadline_ = loop_.now() + duration_;
    timer.prev_ = sentinel_.prev_;
    timer.next_ = &sentinel_;
    sentinel_.prev_->next_ = &timer;
    sentinel_.prev_ = &timer;
  }

  // Fires the timer that was armed longest ago, due or not, if that is `min_age` ago at least: how the oldest
  // idle connection is reclaimed. False when there is none.
  bool expire_oldest(Duration min_age = Duration::zero());

  bool empty() const { return sentinel_.next_ == &sentinel_; }
  Duration duration() const { return duration_; }
  TimePoint next_deadline() const override { return empty() ? kNever : sentinel_.next_->deadline_; }
  void expire(TimePoint now) override;

 private:
  EventLoop& loop_;
  Duration duration_;
  Timer sentinel_;
};

}  // namespace dlb
