// MemoryMonitor: reads this process's cgroup and socket memory each kInterval on the control loop, lets
// MemoryGuard judge, publishes the verdict in MemoryState and tells the workers when shedding begins and
// ends. When it begins, what the workers have given back goes to the system.
#pragma once

#include <atomic>
#include <cstdint>

#include "common/cgroup.h"
#include "common/log.h"
#include "common/timer_heap.h"
#include "lb/backend_events.h"
#include "lb/policy/memory_guard.h"

namespace dlb::lb {

struct Options;

// Written by the control thread, read by everyone.
struct MemoryState {
  std::atomic<bool> shedding{false};       // new requests but /lb/* get 503
  std::atomic<bool> clear{true};           // a burst of connections is welcome
  std::atomic<bool> small_buffers{false};  // new sockets get 16 KiB buffers where the kernel would tune them
  std::atomic<MemoryGuard::Reason> reason{MemoryGuard::Reason::None};
  std::atomic<std::uint64_t> times_shed{0};
  std::atomic<double> unreclaimable_percent{-1};
  std::atomic<std::int64_t> socket_bytes{-1};
};

// What the guard's answer to `reason` is called in pages and logs: `none`, `memory`, `sockets`.
std::string_view guard_reason_name(MemoryGuard::Reason reason);

class MemoryMonitor final : public HeapTimerHandler {
 public:
  static constexpr Duration kInterval = std::chrono::milliseconds(100);

  // Reads once at once; further readings come with `timers`' loop.
  MemoryMonitor(TimerHeap& timers, const Options& options, MemoryState& out, BackendEvents& events, Log& log);
  MemoryMonitor(const MemoryMonitor&) = delete;
  MemoryMonitor& operator=(const MemoryMonitor&) = delete;

  // Other limits from the next reading on.
  void apply(const Options& options);
  void on_heap_timer(HeapTimer& timer) override;

 private:
  void sample(TimePoint now);

  MemoryState& out_;
  BackendEvents& events_;
  Log& log_;
  Cgroup cgroup_;
  MemoryGuard guard_;
  HeapTimer timer_;
  bool trim_next_ = false;
};

}  // namespace dlb::lb
