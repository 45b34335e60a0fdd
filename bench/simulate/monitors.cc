// The balancer's control thread in virtual time: checks, statistics, ejections.
#include "bench/simulate/simulation.h"

namespace dlb::bench {
namespace {

constexpr Duration kProbeTime = std::chrono::milliseconds(1);  // of a server that answers
using Kind = lb::CheckVerdict::Kind;

}  // namespace

void Simulation::start_check(std::uint32_t index) {
  Monitor& monitor = monitors_[index];
  monitor.checks.advance(now_);
  schedule(monitor.checks.next(), EventKind::Check, index);
  check(index);
}

void Simulation::check(std::uint32_t index) {
  Monitor& monitor = monitors_[index];
  if (backend(index).gone()) return;
  if (monitor.checking) return;  // a tick is skipped while the last check still runs
  const SimServer& server = servers_[index];
  monitor.checking = true;
  monitor.began = now_;
  monitor.verdict = {};
  Duration takes = scenario_.network + kProbeTime;
  if (server.drops(now_)) {
    takes = options_.monitor_timeout;
  } else if (server.running(now_)) {
    monitor.verdict.connected = true;
    if (server.hangs(now_)) {
      takes = options_.monitor_timeout;
    } else if (server.draining(now_)) {
      monitor.verdict.kind = Kind::Draining;
    } else if (server.passes(now_)) {
      monitor.verdict.kind = Kind::Passed;
    }
  }
  schedule(now_ + takes, EventKind::CheckDone, index, monitor.process);
}

// As HealthChecker::finished() does.
void Simulation::finish_check(std::uint32_t index, std::uint32_t process) {
  Monitor& monitor = monitors_[index];
  lb::Backend& one = backend(index);
  monitor.checking = false;
  if (process != monitor.process) return;  // of one that has been ended meanwhile
  const lb::CheckEffects effects =
      lb::take_check(one, monitor.streak, monitor.verdict, monitor.began, now_, options_.panic_fallback);
  if (effects.drain_began) backends_->note_change();
  if (monitor.verdict.kind == Kind::Passed && (options_.check_ends_ejection || !one.healthy) &&
      one.ejected_until_ns > now_.time_since_epoch().count()) {
    carry_out(index, ejections_.end_early(index, monitor.began, now_));
  }
  const lb::HealthChange change = lb::publish_health(one, monitor.streak, now_);
  if (change == lb::HealthChange::Overruled) return;
  if (change == lb::HealthChange::None && !effects.more_capacity) return;
  backends_->note_change();
  serve_again_ = true;
}

void Simulation::poll(std::uint32_t index) {
  Monitor& monitor = monitors_[index];
  monitor.polls.advance(now_);
  schedule(monitor.polls.next(), EventKind::Poll, index);
  SimServer& server = servers_[index];
  if (!server.running(now_) || server.hangs(now_) || server.drops(now_)) return;
  lb::BackendReport& report = backend(index).report;
  report.cpu_percent = server.take_cpu_percent(now_);
  report.received_at_ns = now_.time_since_epoch().count();
}

void Simulation::carry_out(std::uint32_t index, const lb::OutlierDecision& decision) {
  using Action = lb::OutlierDecision::Action;
  if (decision.action == Action::None) return;
  if (decision.action == Action::Eject) {
    ++outcome_.ejections;
    ++outcome_.servers[index].ejections;
    schedule(decision.until, EventKind::LookAgain, index);
  }
  ejections_.carry_out(index, decision, now_);
  serve_again_ = true;
}

// The process is killed: what it works on, what waits for it and what is on its way breaks.
void Simulation::die(std::uint32_t index) {
  if (scaler_ && std::erase(running_, index) == 0) return;  // it does not run
  if (scaler_) switch_off(index);
  servers_[index].clear(now_);
  break_off(index);
}

void Simulation::break_off(std::uint32_t index) {
  std::vector<std::uint32_t> victims;
  for (const Request& request : requests_) {
    const bool there =
        request.state == State::Sent || request.state == State::InLine || request.state == State::InService;
    if (there && request.backend == index) victims.push_back(request.index);
  }
  for (const std::uint32_t victim : victims) {
    Request& request = requests_[victim];
    request.state = State::Sent;  // no longer the server's
    ++backend(index).counters.resets;
    note_failed(request);
    fail(request, Failure::Broken);
  }
}

}  // namespace dlb::bench
