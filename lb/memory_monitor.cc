#include "lb/memory_monitor.h"

#include <malloc.h>

#include <utility>

#include "common/process_stats.h"
#include "lb/options.h"

namespace dlb::lb {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

MemoryLimits limits_of(const Options& options) {
  return {options.lb_max_memory, static_cast<std::int64_t>(options.lb_max_socket_bytes.bytes)};
}

}  // namespace

std::string_view guard_reason_name(MemoryGuard::Reason reason) {
  switch (reason) {
    case MemoryGuard::Reason::None:
      return "none";
    case MemoryGuard::Reason::Memory:
      return "memory";
    case MemoryGuard::Reason::Sockets:
      return "sockets";
  }
  return "none";
}

MemoryMonitor::MemoryMonitor(TimerHeap& timers, const Options& options, MemoryState& out,
                             BackendEvents& events, Log& log)
    : out_(out),
      events_(events),
      log_(log),
      cgroup_(CgroupPaths{.cgroup_root = options.cgroup_root}),
      guard_(limits_of(options)),
      timer_(timers, *this) {
  timer_.arm_at(monotonic_now());
}

void MemoryMonitor::apply(const Options& options) { guard_.set_limits(limits_of(options)); }

void MemoryMonitor::on_heap_timer(HeapTimer& timer) {
  const TimePoint now = monotonic_now();
  sample(now);
  timer.arm_at(now + kInterval);
}

void MemoryMonitor::sample(TimePoint now) {
  const CgroupMemory memory = cgroup_.read_memory(now);
  MemoryReading reading;
  reading.unreclaimable_percent = memory.unreclaimable_percent;
  reading.socket_bytes = memory.sock >= 0 ? memory.sock : read_tcp_memory_bytes();
  // The workers have had a round to close what idles: what they freed goes back now.
  if (std::exchange(trim_next_, false)) ::malloc_trim(0);
  const bool changed = guard_.update(reading);
  out_.unreclaimable_percent.store(reading.unreclaimable_percent, kRelaxed);
  out_.socket_bytes.store(reading.socket_bytes, kRelaxed);
  out_.clear.store(guard_.clear(), kRelaxed);
  out_.small_buffers.store(guard_.small_buffers(), kRelaxed);
  out_.reason.store(guard_.reason(), kRelaxed);
  if (!changed) return;
  out_.shedding.store(guard_.shedding(), kRelaxed);
  if (guard_.shedding()) {
    out_.times_shed.fetch_add(1, kRelaxed);
    trim_next_ = true;
    log_.warn("memory guard on: idle connections are closed, new requests get 503",
              {{"reason", guard_reason_name(guard_.reason())},
               {"unreclaimable_percent", reading.unreclaimable_percent},
               {"socket_bytes", reading.socket_bytes}});
  } else {
    log_.info("memory guard off", {{"unreclaimable_percent", reading.unreclaimable_percent},
                                   {"socket_bytes", reading.socket_bytes}});
  }
  events_.on_memory_guard(guard_.shedding());
}

}  // namespace dlb::lb
