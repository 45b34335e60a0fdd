// TimerList: deadlines of one class, all with the same duration, so that arming appends, expiry looks at the
// head and cancelling unlinks: O(1) each, no allocation. Where a reload may change the
// duration, TimerClass below. For arbitrary deadlines use TimerHeap.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

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

// A timeout class whose duration may change: a list for each duration that has been in force. What was armed
// under an old one runs out under it; everything that is armed from now on has the new one.
class TimerClass {
 public:
  TimerClass(EventLoop& loop, Duration duration)
      : loop_(loop), current_(std::make_unique<TimerList>(loop, duration)) {}

  void arm(Timer& timer) { current_->arm(timer); }
  // As TimerList's, over all lists, the older ones first.
  bool expire_oldest(Duration min_age = Duration::zero());
  // Not from inside a timer's handler.
  void set_duration(Duration duration);
  Duration duration() const { return current_->duration(); }
  bool empty() const;
  // Lists that still run out under an older duration.
  std::size_t older() const { return older_.size(); }

 private:
  EventLoop& loop_;
  std::unique_ptr<TimerList> current_;
  std::vector<std::unique_ptr<TimerList>>
      older_;  // oldest first; those that are empty go with the next change
};

}  // namespace dlb
