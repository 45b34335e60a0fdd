// StatsPoller: reads each backend's statistics at stats-interval (L9) and publishes CPU, memory and the
// memory guards' judgement in the backend's atomics. At most one poll at a time per backend, on a connection
// of its own, one deadline. A failed poll changes nothing: statistics grow stale (score.h), the memory guards
// keep their last judgement. With stats-path = "" it does nothing. Control loop only.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "common/event_loop.h"
#include "common/log.h"
#include "common/timer_heap.h"
#include "lb/backend_events.h"
#include "lb/backend_set.h"
#include "lb/options.h"
#include "lb/stats_parser.h"

namespace dlb::lb {

class StatsPoller {
 public:
  // Sends the first poll of every backend at once, further ones spread over the interval.
  // `options` and `backends` must outlive it, or the next apply().
  StatsPoller(EventLoop& loop, TimerHeap& timers, const Options& options, const BackendSet& backends,
              BackendEvents& events, Log& log);
  StatsPoller(const StatsPoller&) = delete;
  StatsPoller& operator=(const StatsPoller&) = delete;
  ~StatsPoller();

  // From now on, by these: backends that stay keep the judgement of their memory guards.
  void apply(const Options& options, const BackendSet& backends);

 private:
  class Poll;

  void forget(std::uint32_t index);
  void failed(std::uint32_t index, std::string_view error);
  void received(std::uint32_t index, std::string_view body, TimePoint now);

  EventLoop& loop_;
  TimerHeap& timers_;
  const Options* options_;
  const BackendSet* backends_;
  BackendEvents& events_;
  Log& log_;
  StatsParser parser_;
  std::vector<std::unique_ptr<Poll>> polls_;  // by index; null: gone, or nothing to poll
};

}  // namespace dlb::lb
