// Autoscaling in virtual time: the balancer's Autoscaler (lb/policy/autoscaler.h) over simulated servers, of
// which only those run that it has started; what lb/autoscale.cc does with processes, this does with them.
#include <algorithm>

#include "bench/simulate/simulation.h"
#include "lb/autoscale_options.h"

namespace dlb::bench {
namespace {

using Kind = lb::AutoscaleAction::Kind;

std::uint32_t capacity_of(const lb::Options& options) {
  return static_cast<std::uint32_t>(options.backend_cap != 0 ? options.backend_cap : options.max_inflight);
}

}  // namespace

// Nobody runs at first.
void Simulation::begin_scaling() {
  if (!options_.autoscale.on()) return;
  scaler_.emplace(lb::autoscale_rules(options_.autoscale));
  last_busy_.resize(servers_.size());
  for (std::uint32_t i = 0; i < servers_.size(); ++i) switch_off(i);
  last_started_ = static_cast<std::uint32_t>(servers_.size() - 1);
  schedule(now_, EventKind::Scale, 0);
}

void Simulation::switch_off(std::uint32_t server) {
  servers_[server].stop(now_);
  lb::Backend& one = backend(server);
  one.membership = lb::Membership::Gone;
  one.healthy = one.accepting = one.resting = false;
  one.active_health = lb::HealthState::Unknown;
  one.checked_at_ns = 0;
  one.connect_failures_in_row = 0;
  one.connect_down_at_ns = 0;
  one.admin = lb::AdminState::Ready;
  monitors_[server].streak = lb::HealthStreak(static_cast<std::uint32_t>(options_.failure_limit));
  ++monitors_[server].process;
  backends_->note_change();
}

// The servers take turns, as the ports of real ones do.
void Simulation::switch_on_next() {
  const auto count = static_cast<std::uint32_t>(servers_.size());
  for (std::uint32_t i = 1; i <= count; ++i) {
    const std::uint32_t server = (last_started_ + i) % count;
    if (std::ranges::count(running_, server) != 0) continue;
    last_started_ = server;
    running_.push_back(server);
    servers_[server].start(now_);
    backend(server).membership = lb::Membership::Member;
    last_busy_[server] = now_;
    backends_->note_change();
    schedule(now_, EventKind::FirstCheck, server, monitors_[server].process);
    return;
  }
}

void Simulation::scale() {
  schedule(now_ + options_.autoscale.interval, EventKind::Scale, 0);
  std::vector<lb::InstanceFacts> facts;
  ScaleTurn seen{.at = now_ - zero_, .processes = static_cast<std::uint32_t>(running_.size())};
  bool room = false;
  for (const std::uint32_t server : running_) {
    const lb::Backend& one = backend(server);
    lb::InstanceFacts fact{.id = server, .healthy = one.healthy, .capacity = capacity_of(options_)};
    fact.available = one.healthy && one.ejected_until_ns <= now_.time_since_epoch().count();
    fact.draining = one.admin != lb::AdminState::Ready;
    fact.in_flight = one.slots.taken();
    fact.busy = fact.in_flight != 0;
    fact.requests = one.counters.requests;
    facts.push_back(fact);
    if (fact.healthy && !fact.draining) {
      ++seen.serving;
      room = room || (fact.available && fact.in_flight < fact.capacity);
    }
  }
  const auto waiting = waiting_.taken();
  seen.pressed = waiting != 0 || (seen.serving != 0 && !room);
  outcome_.scale_turns.push_back(seen);
  for (const lb::AutoscaleAction& action : scaler_->turn({.instances = facts, .waiting = waiting}, now_)) {
    carry_out(action);
  }
  bool changed = false;
  for (const std::uint32_t server : running_) {
    const bool rests = scaler_->rests(server);
    changed = backend(server).resting.exchange(rests) != rests || changed;
  }
  if (changed) backends_->note_change();
}

void Simulation::carry_out(const lb::AutoscaleAction& action) {
  const std::uint32_t server = action.id;
  if (action.kind == Kind::Start) {
    switch_on_next();
    note_scaling(action, last_started_);
    return;
  }
  note_scaling(action, server);
  switch (action.kind) {
    case Kind::Drain:
    case Kind::Replace:
      backend(server).admin = lb::AdminState::Drain;
      backends_->note_change();
      return;
    case Kind::Stop:
    case Kind::Kill:
      std::erase(running_, server);
      switch_off(server);
      return break_off(server);
    case Kind::Start:
      return;
  }
}

void Simulation::note_scaling(const lb::AutoscaleAction& action, std::uint32_t server) {
  const bool drains = action.kind == Kind::Drain;
  outcome_.scaling.push_back({.at = now_ - zero_,
                              .action = lb::action_name(action.kind),
                              .server = servers_[server].spec().id,
                              .reason = action.reason,
                              .processes = static_cast<std::uint32_t>(running_.size()),
                              .idle_for = drains && backend(server).slots.taken() == 0
                                              ? now_ - last_busy_[server]
                                              : Duration::zero()});
}

}  // namespace dlb::bench
