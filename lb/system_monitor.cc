#include "lb/system_monitor.h"

#include "common/process_stats.h"

namespace dlb::lb {

SystemMonitor::SystemMonitor(TimerHeap& timers, SystemSample& out, CgroupPaths paths)
    : out_(out), cgroup_(std::move(paths)), timer_(timers, *this) {
  const TimePoint now = monotonic_now();
  sample(now);
  timer_.arm_at(now + kInterval);
}

void SystemMonitor::on_heap_timer(HeapTimer& timer) {
  const TimePoint now = monotonic_now();
  sample(now);
  timer.arm_at(now + kInterval);
}

void SystemMonitor::sample(TimePoint now) {
  constexpr auto relaxed = std::memory_order_relaxed;
  const CgroupCpu cpu = cgroup_.read_cpu(now);
  out_.cpu_percent.store(cgroup_.cpu_percent(last_cpu_, cpu), relaxed);
  last_cpu_ = cpu;

  const CgroupMemory memory = cgroup_.read_memory(now);
  out_.memory_total_bytes.store(memory.total, relaxed);
  out_.memory_working_set_bytes.store(memory.working_set, relaxed);
  out_.memory_unreclaimable_bytes.store(memory.unreclaimable, relaxed);
  out_.memory_limit_bytes.store(memory.limit, relaxed);
  out_.memory_socket_bytes.store(memory.sock, relaxed);
  out_.memory_total_percent.store(memory.total_percent, relaxed);
  out_.memory_working_set_percent.store(memory.working_set_percent, relaxed);
  out_.memory_unreclaimable_percent.store(memory.unreclaimable_percent, relaxed);

  const ProcessStats process = read_process_stats();
  out_.rss_bytes.store(process.rss_bytes, relaxed);
  out_.open_fds.store(process.open_fds, relaxed);
  out_.threads.store(process.threads, relaxed);
  out_.tcp_memory_bytes.store(process.tcp_memory_bytes, relaxed);
  out_.load_1m.store(process.load_1m, relaxed);
  out_.load_5m.store(process.load_5m, relaxed);
  out_.load_15m.store(process.load_15m, relaxed);
  out_.process_cpu_seconds.store(process.user_cpu_seconds + process.system_cpu_seconds, relaxed);
}

}  // namespace dlb::lb
