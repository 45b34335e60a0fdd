#include "lb/tunnel_health.h"

#include "common/http_probe.h"
#include "lb/policy/health_streak.h"
#include "lb/probe_schedule.h"

namespace dlb::lb {

class TunnelHealth::Check final : public HeapTimerHandler, public HttpProbeHandler {
 public:
  Check(EventLoop& loop, TimerHeap& timers, const Options& options, const TunnelPool& pool,
        TunnelBackend& backend, std::uint32_t index, Log& log)
      : loop_(loop),
        timeout_(options.monitor_timeout),
        pool_(pool),
        backend_(backend),
        log_(log),
        schedule_(loop.now(), options.health_interval, index, pool.backends.size()),
        streak_(static_cast<std::uint32_t>(options.failure_limit)),
        timer_(timers, *this),
        probe_(loop, timers, *this) {
    timer_.arm_at(schedule_.next());
  }

  void on_heap_timer(HeapTimer&) override {
    schedule_.advance(loop_.now());
    timer_.arm_at(schedule_.next());
    ProbeRequest request;
    request.address = backend_.address;
    request.method = ProbeMethod::Tcp;
    request.timeout = timeout_;
    probe_.start(request);  // one that still runs goes on: monitor-timeout ends it
  }

  void on_probe_done(HttpProbe&, const ProbeResult& result) override {
    const bool changed = streak_.record(result.ok());
    const bool up = streak_.state() == HealthState::Up;
    backend_.up.store(up, std::memory_order_relaxed);
    backend_.checked.store(true, std::memory_order_relaxed);
    if (!changed) return;
    if (up) {
      log_.info("tcp backend up", {{"listen", pool_.listen}, {"backend", backend_.id}});
    } else {
      log_.warn("tcp backend down",
                {{"listen", pool_.listen}, log_key("backend", backend_.id), {"reason", result.error}});
    }
  }

 private:
  EventLoop& loop_;
  const Duration timeout_;
  const TunnelPool& pool_;
  TunnelBackend& backend_;
  Log& log_;
  ProbeSchedule schedule_;
  HealthStreak streak_;
  HeapTimer timer_;
  HttpProbe probe_;
};

TunnelHealth::TunnelHealth(EventLoop& loop, TimerHeap& timers, const Options& options,
                           const TunnelPools& pools, Log& log) {
  for (const auto& pool : pools) {
    if (pool->kind != TunnelKind::Tcp) continue;
    for (std::uint32_t i = 0; i < pool->backends.size(); ++i) {
      checks_.push_back(std::make_unique<Check>(loop, timers, options, *pool, *pool->backends[i], i, log));
    }
  }
}

TunnelHealth::~TunnelHealth() = default;

}  // namespace dlb::lb
