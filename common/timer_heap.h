// TimerHeap: arbitrary deadlines in an indexed binary heap: arm, re-arm and cancel in O(log n). Used where
// durations differ per item (probe schedules, virtual users' think times, back-off); connections use
// TimerList.
#pragma once

#include <cstddef>
#include <vector>

#include "common/clock.h"
#include "common/event_loop.h"

namespace dlb {

class HeapTimer;

class HeapTimerHandler {
 public:
  // The timer has been disarmed before the call and may be armed again inside it. May close.
  virtual void on_heap_timer(HeapTimer& timer) = 0;

 protected:
  ~HeapTimerHandler() = default;
};

class TimerHeap;

// Embedded in its owner; disarms itself when destroyed.
class HeapTimer {
 public:
  HeapTimer(TimerHeap& heap, HeapTimerHandler& owner) : heap_(heap), owner_(owner) {}
  HeapTimer(const HeapTimer&) = delete;
  HeapTimer& operator=(const HeapTimer&) = delete;
  ~HeapTimer() { cancel(); }

  bool armed() const { return place_ != kNowhere; }
  TimePoint deadline() const { return deadline_; }
  void arm_at(TimePoint deadline);
  void cancel();

 private:
  friend class TimerHeap;
  static constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);

  TimerHeap& heap_;
  HeapTimerHandler& owner_;
  TimePoint deadline_{};
  std::size_t place_ = kNowhere;
};

class TimerHeap final : public TimerSource {
 public:
  explicit TimerHeap(EventLoop& loop) : loop_(loop) { loop_.add_timer_source(*this); }
  TimerHeap(const TimerHeap&) = delete;
  TimerHeap& operator=(const TimerHeap&) = delete;
  ~TimerHeap();

  TimePoint next_deadline() const override { return heap_.empty() ? kNever : heap_.front()->deadline_; }
  void expire(TimePoint now) override;
  std::size_t size() const { return heap_.size(); }

 private:
  friend class HeapTimer;
  void insert(HeapTimer& timer);
  void remove(HeapTimer& timer);
  void put(std::size_t place, HeapTimer* timer);
  void sift_up(std::size_t place);
  void sift_down(std::size_t place);

  EventLoop& loop_;
  std::vector<HeapTimer*> heap_;
};

}  // namespace dlb
