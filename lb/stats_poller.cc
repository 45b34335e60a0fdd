#include "lb/stats_poller.h"

#include "common/http_probe.h"
#include "lb/metrics.h"
#include "lb/policy/hysteresis.h"
#include "lb/probe_schedule.h"

namespace dlb::lb {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

}  // namespace

// One backend's polls: schedule, probe, memory guards.
class StatsPoller::Poll final : public HeapTimerHandler, public HttpProbeHandler {
 public:
  Poll(StatsPoller& owner, std::uint32_t index)
      : owner_(owner),
        index_(index),
        backend_(owner.backends_->shared_at(index)),
        schedule_(owner.loop_.now(), owner.options_->stats_interval, index, owner.backends_->size()),
        guards_(owner.options_->max_memory, owner.options_->max_total_memory),
        timer_(owner.timers_, *this),
        probe_(owner.loop_, owner.timers_, *this) {
    timer_.arm_at(schedule_.next());
  }

  bool is_of(const std::shared_ptr<Backend>& backend) const { return backend_ == backend; }

  void apply() {
    guards_.set_limits(owner_.options_->max_memory, owner_.options_->max_total_memory);
    if (owner_.options_->stats_interval == schedule_.interval()) return;
    schedule_.change(owner_.loop_.now(), owner_.options_->stats_interval, index_, owner_.backends_->size());
    timer_.arm_at(schedule_.next());
  }

  BackendMemoryGuards& guards() { return guards_; }

  void on_heap_timer(HeapTimer&) override {
    schedule_.advance(owner_.loop_.now());
    timer_.arm_at(schedule_.next());
    Backend& backend = *backend_;
    ProbeRequest request;
    request.address = backend.address;
    request.path = owner_.options_->stats_path;
    request.host = backend.authority();
    request.timeout = owner_.options_->monitor_timeout;
    count(probe_.start(request) ? backend.counters.probes : backend.counters.probes_skipped);
  }

  void on_probe_done(HttpProbe&, const ProbeResult& result) override {
    if (result.failure == ProbeFailure::OurFault) {
      count(backend_->counters.probes_skipped);
    } else if (!result.ok()) {
      owner_.failed(index_, result.error);
    } else if (result.status != 200 || result.body_cut) {
      owner_.failed(index_, "statistics: the answer is not a 200 of at most 64 KiB");
    } else {
      owner_.received(index_, result.body, owner_.loop_.now());
    }
  }

 private:
  StatsPoller& owner_;
  const std::uint32_t index_;
  const std::shared_ptr<Backend> backend_;
  ProbeSchedule schedule_;
  BackendMemoryGuards guards_;
  HeapTimer timer_;
  HttpProbe probe_;
};

StatsPoller::StatsPoller(EventLoop& loop, TimerHeap& timers, const Options& options,
                         const BackendSet& backends, BackendEvents& events, Log& log)
    : loop_(loop), timers_(timers), options_(&options), backends_(&backends), events_(events), log_(log) {
  apply(options, backends);
}

void StatsPoller::apply(const Options& options, const BackendSet& backends) {
  options_ = &options;
  backends_ = &backends;
  polls_.resize(backends.size());
  for (std::uint32_t i = 0; i < backends.size(); ++i) {
    std::unique_ptr<Poll>& poll = polls_[i];
    if (backends.at(i).gone()) {
      poll.reset();
    } else if (options.stats_path.empty()) {
      forget(i);
    } else if (poll != nullptr && poll->is_of(backends.shared_at(i))) {
      poll->apply();
    } else {
      poll = std::make_unique<Poll>(*this, i);
    }
  }
}

// Without statistics there is no memory part either, and nothing would ever clear a guard.
void StatsPoller::forget(std::uint32_t index) {
  polls_[index].reset();
  Backend& backend = backends_->at(index);
  backend.report.received_at_ns.store(0, kRelaxed);
  if (!backend.memory_blocked.exchange(false, kRelaxed)) return;
  backends_->note_change();
  events_.on_capacity_change(index);
}

StatsPoller::~StatsPoller() = default;

void StatsPoller::failed(std::uint32_t index, std::string_view error) {
  Backend& backend = backends_->at(index);
  count(backend.counters.probe_failures);
  backend.last_error.set(error, wall_now_us());
  log_.debug("statistics poll failed", {{"backend", backend.id}, {"reason", error}});
}

void StatsPoller::received(std::uint32_t index, std::string_view body, TimePoint now) {
  const auto stats = parser_.parse(body);
  if (!stats) return failed(index, "statistics: the answer is no JSON object");

  Backend& backend = backends_->at(index);
  BackendReport& report = backend.report;
  report.cpu_percent.store(stats->cpu_percent, kRelaxed);
  report.unreclaimable_percent.store(stats->unreclaimable_percent, kRelaxed);
  report.working_set_percent.store(stats->working_set_percent, kRelaxed);
  report.total_percent.store(stats->total_percent, kRelaxed);
  report.received_at_ns.store(now.time_since_epoch().count(), kRelaxed);

  const bool blocked = polls_[index]->guards().update(stats->unreclaimable_percent);
  const bool was_blocked = backend.memory_blocked.exchange(blocked, kRelaxed);
  backends_->note_change();
  if (blocked == was_blocked) return;
  if (blocked) {
    log_.warn("backend over a memory guard",
              {log_key("backend", backend.id), {"percent", stats->unreclaimable_percent}});
  } else {
    log_.info("backend clear of its memory guards",
              {{"backend", backend.id}, {"percent", stats->unreclaimable_percent}});
    events_.on_capacity_change(index);
  }
}

}  // namespace dlb::lb
