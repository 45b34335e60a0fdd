// FineWake: lets a loop keep the deadlines of a TimerHeap to some 50 µs. epoll's own time-out has whole
// milliseconds and is rounded up, which is much for service times of a few; a timerfd set to the next
// deadline wakes the loop, and the loop then does what is due as ever. Set anew at the end of a turn, when
// the deadline is another one. On the heap's loop.
#pragma once

#include "common/event_loop.h"
#include "common/fd.h"
#include "common/timer_heap.h"

namespace dlb::bench {

class FineWake final : public EventHandler, public TurnEndHook {
 public:
  // Both outlive it. Aborts when no timerfd can be had.
  FineWake(EventLoop& loop, const TimerHeap& timers);
  FineWake(const FineWake&) = delete;
  FineWake& operator=(const FineWake&) = delete;
  ~FineWake();

  void on_events(std::uint32_t) override {}  // it has woken the loop: that was all
  void on_turn_end() override;

 private:
  EventLoop& loop_;
  const TimerHeap& timers_;
  Fd timer_;
  SourceId source_;
  TimePoint set_to_ = kNever;
};

}  // namespace dlb::bench
