// Control: the control thread: its own event loop with health checks, statistics polls and the sampling of
// this system, so that no check waits behind traffic and no traffic behind a check. Reloads (reloader.h) run
// here too.
//
//   main ── makes ──▶ Control ── start() ──▶ thread: loop { checks, polls, samples } ── stop() ──▶ joined
//
// Everything it finds out it publishes in the BackendSet's and SystemSample's atomics; events go to
// BackendEvents.
#pragma once

#include <memory>
#include <thread>

#include "common/event_loop.h"
#include "common/log.h"
#include "common/timer_heap.h"
#include "lb/backend_events.h"
#include "lb/configuration.h"
#include "lb/health_checker.h"
#include "lb/memory_monitor.h"
#include "lb/options.h"
#include "lb/outlier_monitor.h"
#include "lb/stats_poller.h"
#include "lb/system_monitor.h"
#include "lb/tunnel_health.h"

namespace dlb::lb {

class Control {
 public:
  // All references must outlive it. Nothing is sent before start().
  Control(std::shared_ptr<const Configuration> configuration, SystemSample& system, MemoryState& memory,
          BackendEvents& events, Log& log);
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;
  ~Control();  // stops

  // Starts the thread; signals stay blocked in it as in the caller.
  void start();
  // Ends the loop and joins. Idempotent.
  void stop();

  // On its own thread, or before start(): from now on, by this configuration.
  void apply(std::shared_ptr<const Configuration> next);

  // For the data workers; thread-safe, also before start().
  PassiveHealth& passive() { return health_; }
  OutlierMonitor& outliers() { return outliers_; }
  EventLoop& loop() { return loop_; }
  TimerHeap& timers() { return timers_; }

 private:
  std::shared_ptr<const Configuration> configuration_;
  EventLoop loop_;
  TimerHeap timers_;
  HealthChecker health_;
  OutlierMonitor outliers_;
  StatsPoller stats_;
  TunnelHealth tunnel_health_;
  SystemMonitor system_;
  MemoryMonitor memory_;
  std::thread thread_;
};

}  // namespace dlb::lb
