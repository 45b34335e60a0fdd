#include "lb/ejections.h"

#include <optional>
#include <utility>

namespace dlb::lb {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
using Action = OutlierDecision::Action;

std::int64_t ns(TimePoint t) { return t.time_since_epoch().count(); }

bool in_service(const Backend& backend) {
  return !backend.taken_out() && backend.healthy.load(kRelaxed) && !backend.memory_blocked.load(kRelaxed) &&
         backend.weight.load(kRelaxed) > 0;
}

OutlierRules rules_of(const Options& options) {
  OutlierRules rules;
  rules.max_percent = options.max_ejected_percent;
  rules.base = options.ejection_time;
  return rules;
}

}  // namespace

Ejections::Ejections(const Options& options, const BackendSet& backends, std::uint64_t seed)
    : enabled_(options.max_ejected_percent > 0), backends_(backends), detector_(rules_of(options), seed) {}

void Ejections::take_over(TimePoint now) {
  for (std::uint32_t i = 0; i < backends_.size(); ++i) {
    const Backend& backend = backends_.at(i);
    const std::int64_t until_ns = backend.ejected_until_ns.load(kRelaxed);
    const std::uint32_t times = backend.ejection.times.load(kRelaxed);
    if (until_ns == 0 && times == 0) continue;
    const std::optional<TimePoint> until =
        until_ns == 0 ? std::nullopt : std::optional(TimePoint(Duration(until_ns)));
    if (enabled()) detector_.take_over(i, until, times, now);
    publish(i, detector_.until(i).value_or(now));
  }
}

void Ejections::apply(const Options& options, const BackendSet& backends, TimePoint now) {
  const bool enabled = options.max_ejected_percent > 0;
  const BackendSet before = std::exchange(backends_, backends);
  detector_.set_rules(rules_of(options));
  for (std::uint32_t i = 0; i < backends.size(); ++i) {
    const bool stays = i < before.size() && before.shared_at(i) == backends.shared_at(i);
    if (enabled && stays && !backends.at(i).gone()) continue;
    detector_.forget(i);
    backends.at(i).ejection.failures_in_row.store(0, kRelaxed);
    if (backends.at(i).ejected_until_ns.load(kRelaxed) != 0) publish(i, now);
  }
  enabled_.store(enabled, kRelaxed);
}

bool Ejections::note_failure(Backend& backend, TimePoint picked) const {
  if (ns(picked) < backend.ejection.judged_from_ns.load(kRelaxed)) return false;
  const std::uint32_t in_row = backend.ejection.failures_in_row.fetch_add(1, kRelaxed) + 1;
  if (!enabled()) return false;
  return in_row >= OutlierRules{}.failures_in_row || backend.ejected_until_ns.load(kRelaxed) != 0;
}

bool Ejections::note_success(Backend& backend, TimePoint picked) {
  // Read first: the words stay shared between workers while all is well.
  if (backend.ejection.failures_in_row.load(kRelaxed) != 0) {
    backend.ejection.failures_in_row.store(0, kRelaxed);
  }
  return backend.ejected_until_ns.load(kRelaxed) != 0 &&
         ns(picked) >= backend.ejection.judged_from_ns.load(kRelaxed);
}

bool Ejections::knows(const Backend& backend) const {
  return backend.index < backends_.size() && &backends_.at(backend.index) == &backend;
}

OutlierDecision Ejections::failed(const Backend& backend, TimePoint now) {
  if (!knows(backend)) return {};
  look_at_peers();
  return detector_.failed(backend.index, peers_, now);
}

OutlierDecision Ejections::succeeded(const Backend& backend, TimePoint now) {
  return knows(backend) ? detector_.succeeded(backend.index, now) : OutlierDecision{};
}

OutlierDecision Ejections::end_early(std::uint32_t index, TimePoint began, TimePoint now) {
  return detector_.end_early(index, began, now);
}

void Ejections::carry_out(std::uint32_t index, const OutlierDecision& decision, TimePoint now) {
  switch (decision.action) {
    case Action::None:
    case Action::Refused:
      return;
    case Action::Eject:
      backends_.at(index).ejection.failures_in_row.store(0, kRelaxed);
      return publish(index, decision.until);
    case Action::Sound:
      backends_.at(index).back_since_ns.store(ns(now), kRelaxed);
      return publish(index, now);
    case Action::EndEarly:
      return publish(index, now);
    case Action::LiftAll:
      for (std::uint32_t i = 0; i < backends_.size(); ++i) {
        if (backends_.at(i).ejected_until_ns.load(kRelaxed) != 0 && !detector_.until(i)) publish(i, now);
      }
      return;
  }
}

void Ejections::look_at_peers() {
  peers_.resize(backends_.size());
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    const Backend& backend = backends_.at(i);
    peers_[i] = {in_service(backend), backend.ejection.failures_in_row.load(kRelaxed), backend.gone()};
  }
}

void Ejections::take_samples() {
  look_at_peers();
  for (std::uint32_t i = 0; i < backends_.size(); ++i) {
    const BackendCounters& c = backends_.at(i).counters;
    const std::uint64_t broken = c.resets.load(kRelaxed) + c.timeouts.load(kRelaxed);
    const std::uint64_t bad = c.responses_5xx.load(kRelaxed) + broken;
    const std::uint64_t good =
        c.responses_2xx.load(kRelaxed) + c.responses_3xx.load(kRelaxed) + c.responses_4xx.load(kRelaxed);
    detector_.sample(i, good + bad, bad + c.response_failures.load(kRelaxed));
  }
}

void Ejections::publish(std::uint32_t index, TimePoint judged_from) {
  Backend& backend = backends_.at(index);
  const auto until = detector_.until(index);
  backend.ejection.times.store(detector_.times(index), kRelaxed);
  backend.ejection.judged_from_ns.store(ns(judged_from), kRelaxed);
  backend.ejected_until_ns.store(until ? ns(*until) : 0, std::memory_order_release);
  backends_.note_change();
}

}  // namespace dlb::lb
