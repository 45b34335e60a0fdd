// StatsPoller: reads each backend's statistics at stats-interval (L9) and publishes CPU, memory and the
// memory guards' judgement in the backend's atomics. At most one poll at a time per backend, on a connection
// of its own, one deadline. A failed poll changes nothing: statistics grow stale (score.h), the memory guards
// keep their last judgement. With stats-path = "" it does nothing. Control loop only.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "common/event_loop.h"
#include "common/log.h"
#include "common/timer_heap.h"
#include "lb/backend_events.h"
#include "lb/backend_set.h"
#include "lb/options.h"

namespace dlb::lb {

// What /internal/stats said; -1 for what it did not.
struct ParsedStats {
  double cpu_percent = -1;
  double unreclaimable_percent = -1;
  double working_set_percent = -1;
  double total_percent = -1;
};

// Reads a backend's statistics. Nothing when the text is no JSON object. What the memory guards judge is
// `memory.unreclaimable_percent`; without it (rss_bytes + sock_bytes) / limit_bytes, and without those
// working_set_percent, which errs on the careful side. Pure but for the parser's memory.
class StatsParser {
 public:
  StatsParser();
  ~StatsParser();
  std::optional<ParsedStats> parse(std::string_view body);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

class StatsPoller {
 public:
  // Sends the first poll of every backend at once, further ones spread over the interval.
  StatsPoller(EventLoop& loop, TimerHeap& timers, const Options& options, BackendSet& backends,
              BackendEvents& events, Log& log);
  StatsPoller(const StatsPoller&) = delete;
  StatsPoller& operator=(const StatsPoller&) = delete;
  ~StatsPoller();

 private:
  class Poll;

  void received(std::uint32_t index, std::string_view body, TimePoint now);

  EventLoop& loop_;
  const Options& options_;
  BackendSet& backends_;
  BackendEvents& events_;
  Log& log_;
  StatsParser parser_;
  std::vector<std::unique_ptr<Poll>> polls_;
};

}  // namespace dlb::lb
