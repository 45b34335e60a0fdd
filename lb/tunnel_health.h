// TunnelHealth: a TCP check of each [[tcp]] backend at health-interval: a connect within monitor-timeout is
// enough. failure-limit failures in a row take it out for new connections, the first success brings it back
// (policy/health_streak.h); open ones are left alone. Runs on the control loop and publishes in the backends'
// atomics. The backends of wss-listen have the health of their HTTP side.
#pragma once

#include <memory>
#include <vector>

#include "common/event_loop.h"
#include "common/log.h"
#include "common/timer_heap.h"
#include "lb/options.h"
#include "lb/tunnel_pool.h"

namespace dlb::lb {

class TunnelHealth {
 public:
  // Everything must outlive it, or the next apply(). The first check of each goes out at once, further ones
  // are spread.
  TunnelHealth(EventLoop& loop, TimerHeap& timers, const Options& options, const TunnelPools& pools,
               Log& log);
  TunnelHealth(const TunnelHealth&) = delete;
  TunnelHealth& operator=(const TunnelHealth&) = delete;
  ~TunnelHealth();

  // From now on, by these: backends that stay keep their streak.
  void apply(const Options& options, const TunnelPools& pools);

 private:
  class Check;

  EventLoop& loop_;
  TimerHeap& timers_;
  Log& log_;
  std::vector<std::unique_ptr<Check>> checks_;
};

}  // namespace dlb::lb
