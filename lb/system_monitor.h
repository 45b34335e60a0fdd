// SystemMonitor: what this machine and process (Sys1) are doing: CPU, memory, load, descriptors. Samples on
// the control loop each kInterval; everyone reads the atomics of SystemSample. Reports only; the memory guard
// of the balancer itself will judge from samples of its own.
#pragma once

#include <atomic>
#include <cstdint>

#include "common/cgroup.h"
#include "common/clock.h"
#include "common/timer_heap.h"

namespace dlb::lb {

// -1: not known.
struct SystemSample {
  std::atomic<double> cpu_percent{-1};  // of the cgroup's quota, else of the machine
  std::atomic<std::int64_t> memory_total_bytes{-1}, memory_working_set_bytes{-1},
      memory_unreclaimable_bytes{-1}, memory_limit_bytes{-1}, memory_socket_bytes{-1};
  std::atomic<double> memory_total_percent{-1}, memory_working_set_percent{-1},
      memory_unreclaimable_percent{-1};
  std::atomic<std::int64_t> rss_bytes{-1}, open_fds{-1}, threads{-1}, tcp_memory_bytes{-1};
  std::atomic<double> load_1m{-1}, load_5m{-1}, load_15m{-1};
  std::atomic<double> process_cpu_seconds{-1};
};

class SystemMonitor final : public HeapTimerHandler {
 public:
  static constexpr Duration kInterval = std::chrono::milliseconds(500);

  // Takes the first sample at once; further ones with `timers`' loop.
  SystemMonitor(TimerHeap& timers, SystemSample& out, CgroupPaths paths = {});
  SystemMonitor(const SystemMonitor&) = delete;
  SystemMonitor& operator=(const SystemMonitor&) = delete;

  void on_heap_timer(HeapTimer& timer) override;

 private:
  void sample(TimePoint now);

  SystemSample& out_;
  Cgroup cgroup_;
  CgroupCpu last_cpu_;
  HeapTimer timer_;
};

}  // namespace dlb::lb
