#include "lb/tunnel_health.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/http_probe.h"
#include "lb/policy/health_streak.h"
#include "lb/probe_schedule.h"

namespace dlb::lb {

class TunnelHealth::Check final : public HeapTimerHandler, public HttpProbeHandler {
 public:
  Check(EventLoop& loop, TimerHeap& timers, const Options& options, const TunnelPool& pool,
        std::uint32_t index, Log& log)
      : loop_(loop),
        timeout_(options.monitor_timeout),
        listen_(pool.listen),
        backend_(pool.backends[index]),
        log_(log),
        schedule_(loop.now(), options.health_interval, index, pool.backends.size()),
        streak_(static_cast<std::uint32_t>(options.failure_limit)),
        timer_(timers, *this),
        probe_(loop, timers, *this) {
    timer_.arm_at(schedule_.next());
  }

  bool is_of(const std::shared_ptr<TunnelBackend>& backend) const { return backend_ == backend; }

  void apply(const Options& options, std::uint32_t index, std::size_t count) {
    timeout_ = options.monitor_timeout;
    streak_.set_limit(static_cast<std::uint32_t>(options.failure_limit));
    if (options.health_interval == schedule_.interval()) return;
    schedule_.change(loop_.now(), options.health_interval, index, count);
    timer_.arm_at(schedule_.next());
  }

  void on_heap_timer(HeapTimer&) override {
    schedule_.advance(loop_.now());
    timer_.arm_at(schedule_.next());
    ProbeRequest request;
    request.address = backend_->address;
    request.method = ProbeMethod::Tcp;
    request.timeout = timeout_;
    probe_.start(request);  // one that still runs goes on: monitor-timeout ends it
  }

  void on_probe_done(HttpProbe&, const ProbeResult& result) override {
    const bool changed = streak_.record(result.ok());
    const bool up = streak_.state() == HealthState::Up;
    backend_->up.store(up, std::memory_order_relaxed);
    backend_->checked.store(true, std::memory_order_relaxed);
    if (!changed) return;
    if (up) {
      log_.info("tcp backend up", {{"listen", listen_}, {"backend", backend_->id}});
    } else {
      log_.warn("tcp backend down",
                {{"listen", listen_}, log_key("backend", backend_->id), {"reason", result.error}});
    }
  }

 private:
  EventLoop& loop_;
  Duration timeout_;
  const std::string listen_;
  const std::shared_ptr<TunnelBackend> backend_;
  Log& log_;
  ProbeSchedule schedule_;
  HealthStreak streak_;
  HeapTimer timer_;
  HttpProbe probe_;
};

TunnelHealth::TunnelHealth(EventLoop& loop, TimerHeap& timers, const Options& options,
                           const TunnelPools& pools, Log& log)
    : loop_(loop), timers_(timers), log_(log) {
  apply(options, pools);
}

void TunnelHealth::apply(const Options& options, const TunnelPools& pools) {
  std::vector<std::unique_ptr<Check>> before = std::move(checks_);
  checks_.clear();
  for (const auto& pool : pools) {
    if (pool->kind != TunnelKind::Tcp) continue;
    for (std::uint32_t i = 0; i < pool->backends.size(); ++i) {
      const auto known = std::ranges::find_if(before, [&](const std::unique_ptr<Check>& check) {
        return check != nullptr && check->is_of(pool->backends[i]);
      });
      if (known == before.end()) {
        checks_.push_back(std::make_unique<Check>(loop_, timers_, options, *pool, i, log_));
      } else {
        checks_.push_back(std::move(*known));
        checks_.back()->apply(options, i, pool->backends.size());
      }
    }
  }
}

TunnelHealth::~TunnelHealth() = default;

}  // namespace dlb::lb
