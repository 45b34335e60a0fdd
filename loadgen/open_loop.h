// OpenLoop: the open model of a stage. It takes up each operation of the schedule at its intended time and
// gives it to the user who has been free for longest; when all are busy the operation waits, first in, first
// out, and its intended time still counts; when too many wait it is not issued.
//
//   intended time ──▶ a user is free ──────────────────────────▶ performed at once
//                └──▶ all are busy ──▶ waiting (queue_max) ──▶ performed by the next user who gets free
//                                 └──▶ full: not issued, counted
//
// How late an operation is taken up is the generator's own fault and is recorded as schedule lag. Its clock
// is a timerfd, since epoll's own time-out has whole milliseconds only. On the stage's loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "common/event_loop.h"
#include "common/fd.h"
#include "loadgen/counting.h"
#include "loadgen/schedule.h"

namespace dlb::loadgen {

class VirtualUser;

struct OpenLoadShape {
  double rate = 0;  // operations a second; 0: no open model
  Arrival arrival = Arrival::Even;
  std::size_t queue_max = 100'000;
};

class OpenLoop final : public EventHandler {
 public:
  // `requests` 0: without end. Requires shape.rate > 0. The references outlive it.
  OpenLoop(const OpenLoadShape& shape, std::uint64_t seed, std::uint64_t requests, EventLoop& loop,
           const Counting& counting);
  OpenLoop(const OpenLoop&) = delete;
  OpenLoop& operator=(const OpenLoop&) = delete;
  ~OpenLoop();

  // The schedule's origin is `now`; nothing is intended for `end` or later.
  void start(TimePoint now, TimePoint end);
  // Gives `user` the operation that has waited longest, or notes that it is free. May begin an operation.
  void user_free(VirtualUser& user);
  // Takes up what is still due before `end`, which has come: its own timer may be late.
  void take_up_before(TimePoint end);
  // Nothing more is taken up, and what waits isn't issued.
  void stop();

  std::size_t waiting() const { return waiting_.size(); }
  // No operation will come any more for a user who is free.
  bool exhausted() const { return !more_ && waiting_.empty(); }

  void on_events(std::uint32_t events) override;

 private:
  struct Operation {
    std::uint64_t index = 0;
    TimePoint intended{};
  };

  void take_up_until(TimePoint limit);
  void take_up(const Operation& operation);
  void advance(std::uint64_t index);
  void arm();
  void release_users();

  std::size_t queue_max_;
  std::uint64_t requests_;
  Schedule schedule_;
  EventLoop& loop_;
  const Counting& counting_;
  Fd timer_;
  SourceId source_;
  TimePoint origin_{};
  TimePoint end_ = kNever;
  Operation next_;
  bool more_ = true;  // next_ is to come
  std::deque<VirtualUser*> free_users_;
  std::deque<Operation> waiting_;
};

}  // namespace dlb::loadgen
