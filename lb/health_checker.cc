#include "lb/health_checker.h"

#include <simdjson.h>

#include <algorithm>
#include <utility>

#include "common/http_probe.h"
#include "lb/metrics.h"
#include "lb/outlier_monitor.h"
#include "lb/probe_schedule.h"

namespace dlb::lb {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
// Of what data workers find out; more is lost to the log only.
constexpr std::size_t kMailboxCapacity = 1024;

ProbeMethod probe_method(HealthMethod method) {
  switch (method) {
    case HealthMethod::Get:
      return ProbeMethod::Get;
    case HealthMethod::Head:
      return ProbeMethod::Head;
    case HealthMethod::Tcp:
      return ProbeMethod::Tcp;
  }
  return ProbeMethod::Get;
}

}  // namespace

// One backend's checks: schedule, probe, streak.
class HealthChecker::Check final : public HeapTimerHandler, public HttpProbeHandler {
 public:
  Check(HealthChecker& owner, std::uint32_t index)
      : owner_(owner),
        index_(index),
        backend_(owner.backends_->shared_at(index)),
        schedule_(owner.loop_.now(), owner.options_->health_interval, index, owner.backends_->size()),
        streak_(static_cast<std::uint32_t>(owner.options_->failure_limit),
                backend_->active_health.load(kRelaxed)),
        timer_(owner.timers_, *this),
        probe_(owner.loop_, owner.timers_, *this) {
    timer_.arm_at(schedule_.next());
  }

  bool is_of(const std::shared_ptr<Backend>& backend) const { return backend_ == backend; }
  HealthStreak& streak() { return streak_; }

  void apply() {
    streak_.set_limit(static_cast<std::uint32_t>(owner_.options_->failure_limit));
    if (owner_.options_->health_interval == schedule_.interval()) return;
    schedule_.change(owner_.loop_.now(), owner_.options_->health_interval, index_, owner_.backends_->size());
    timer_.arm_at(schedule_.next());
  }

  void on_heap_timer(HeapTimer&) override {
    schedule_.advance(owner_.loop_.now());
    timer_.arm_at(schedule_.next());
    const Options& options = *owner_.options_;
    Backend& backend = *backend_;
    ProbeRequest request;
    request.address = backend.address;
    method_ = options.health_method_kind;  // a reload may come before the answer
    request.method = probe_method(method_);
    request.path = options.health_path;
    request.host = backend.authority();
    request.timeout = options.monitor_timeout;
    if (!probe_.start(request)) {
      count(backend.counters.probes_skipped);
      return;
    }
    began_ = monotonic_now();
    count(backend.counters.probes);
  }

  void on_probe_done(HttpProbe&, const ProbeResult& result) override {
    if (result.failure == ProbeFailure::OurFault) {
      count(backend_->counters.probes_skipped);
      return;
    }
    CheckVerdict verdict;
    if (!result.ok()) {
      verdict.error = result.error;
    } else if (method_ == HealthMethod::Tcp) {
      verdict.kind = CheckVerdict::Kind::Passed;
    } else if (result.body_cut) {
      verdict.error = "check answered with a body over 64 KiB";
    } else {
      verdict = judge_answer(result.status, result.body);
    }
    verdict.connected = result.connected;
    owner_.finished(index_, verdict, began_, owner_.loop_.now());
  }

 private:
  HealthChecker& owner_;
  const std::uint32_t index_;
  const std::shared_ptr<Backend> backend_;
  ProbeSchedule schedule_;
  HealthStreak streak_;
  HeapTimer timer_;
  HttpProbe probe_;
  TimePoint began_{};
  HealthMethod method_ = HealthMethod::Get;
};

CheckVerdict judge_answer(int status, std::string_view body) {
  CheckVerdict verdict;
  verdict.connected = true;
  if (status >= 200 && status < 400) {
    verdict.kind = CheckVerdict::Kind::Passed;
    return verdict;
  }
  if (status == 503) {
    simdjson::dom::parser parser;
    std::string_view word;
    if (parser.parse(simdjson::padded_string(body))["status"].get(word) == simdjson::SUCCESS &&
        word == "draining") {
      verdict.kind = CheckVerdict::Kind::Draining;
      return verdict;
    }
  }
  verdict.error = "check answered " + std::to_string(status);
  return verdict;
}

HealthChecker::HealthChecker(EventLoop& loop, TimerHeap& timers, const Options& options,
                             const BackendSet& backends, BackendEvents& events, Log& log)
    : loop_(loop),
      timers_(timers),
      options_(&options),
      backends_(&backends),
      events_(events),
      log_(log),
      failure_limit_(0),
      passive_mail_(loop, *this, kMailboxCapacity) {
  apply(options, backends);
}

void HealthChecker::apply(const Options& options, const BackendSet& backends) {
  options_ = &options;
  backends_ = &backends;
  failure_limit_.store(static_cast<std::uint32_t>(options.failure_limit), kRelaxed);
  checks_.resize(backends.size());
  for (std::uint32_t i = 0; i < backends.size(); ++i) {
    std::unique_ptr<Check>& check = checks_[i];
    if (backends.at(i).gone()) {
      check.reset();
    } else if (check != nullptr && check->is_of(backends.shared_at(i))) {
      check->apply();
    } else {
      check = std::make_unique<Check>(*this, i);
    }
  }
}

HealthChecker::~HealthChecker() = default;

void HealthChecker::note_connect_failure(Backend& backend, int err) {
  backend.last_error.set(errno_error("connect " + backend.address.to_string(), err).text, wall_now_us());
  // Whoever flips it tells the control thread, which logs and closes idle connections. A full mailbox loses
  // only that.
  if (note_connect_failed(backend, failure_limit_.load(kRelaxed), monotonic_now())) {
    count(backend.counters.health_changes);
    std::ignore = passive_mail_.post(backend.index);
  }
}

void HealthChecker::note_connect_success(Backend& backend) { note_connect_succeeded(backend); }

void HealthChecker::on_mail(std::uint32_t index) {
  Backend& backend = backends_->at(index);
  if (backend.healthy.load(kRelaxed)) return;  // a check has brought it back meanwhile
  const std::uint32_t failures = backend.connect_failures_in_row.load(kRelaxed);
  log_.warn(
      "backend down: connects fail",
      {log_key("backend", backend.id), {"failures", failures}, {"reason", backend.last_error.get().text}});
  backends_->note_change();
  events_.on_backend_out(index);
}

void HealthChecker::finished(std::uint32_t index, const CheckVerdict& verdict, TimePoint began,
                             TimePoint now) {
  Backend& backend = backends_->at(index);
  if (verdict.kind == CheckVerdict::Kind::Failed) {
    count(backend.counters.probe_failures);
    backend.last_error.set(verdict.error, wall_now_us());
  }
  const CheckEffects effects =
      take_check(backend, checks_[index]->streak(), verdict, began, now, options_->panic_fallback);

  if (effects.drain_began) {
    log_.info("backend draining by its own word", {{"backend", backend.id}});
    backends_->note_change();
    events_.on_backend_out(index);
  }
  if (verdict.kind == CheckVerdict::Kind::Passed && outliers_ != nullptr) {
    outliers_->check_passed(index, began, now, !backend.healthy.load(kRelaxed));
  }
  publish(index, verdict, effects.more_capacity);
  log_panic();
}

void HealthChecker::log_panic() {
  const bool panic = in_panic(*backends_, *options_);
  if (panic == panic_) return;
  panic_ = panic;
  if (panic) {
    log_.warn("panic: every backend fails its checks, those that accept connections are used all the same");
  } else {
    log_.info("panic over");
  }
}

void HealthChecker::publish(std::uint32_t index, const CheckVerdict& verdict, bool more_capacity) {
  Backend& backend = backends_->at(index);
  const HealthChange change = publish_health(backend, checks_[index]->streak(), loop_.now());
  if (change == HealthChange::Overruled) return;
  if (change != HealthChange::None) count(backend.counters.health_changes);
  if (change == HealthChange::Up) {
    log_.info("backend up", {{"backend", backend.id}});
  } else if (change == HealthChange::Down) {
    log_.warn("backend down", {log_key("backend", backend.id), {"reason", verdict.error}});
  } else if (!more_capacity) {
    return;
  }
  backends_->note_change();
  if (change == HealthChange::Up || more_capacity) {
    events_.on_capacity_change(index);
  } else {
    events_.on_backend_out(index);
  }
}

}  // namespace dlb::lb
