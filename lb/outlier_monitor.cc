#include "lb/outlier_monitor.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lb/metrics.h"

namespace dlb::lb {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr std::size_t kMailboxCapacity = 4096;
using Action = OutlierDecision::Action;

std::int64_t ns(TimePoint t) { return t.time_since_epoch().count(); }
std::int64_t ms(Duration d) { return d.count() / 1'000'000; }

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

std::string_view reason_name(OutlierReason reason) {
  switch (reason) {
    case OutlierReason::InRow:
      return "failures in a row";
    case OutlierReason::Share:
      return "share of failures";
    case OutlierReason::Probation:
      return "failed on probation";
  }
  return "unknown";
}

}  // namespace

OutlierMonitor::OutlierMonitor(EventLoop& loop, TimerHeap& timers, const Options& options,
                               const BackendSet& backends, BackendEvents& events, Log& log,
                               std::uint64_t seed)
    : loop_(loop),
      events_(events),
      log_(log),
      mail_(loop, *this, kMailboxCapacity),
      sample_timer_(timers, *this),
      end_timer_(timers, *this),
      backends_(backends),
      detector_(rules_of(options), seed) {
  apply(options, backends);
}

void OutlierMonitor::apply(const Options& options, const BackendSet& backends) {
  const bool enabled = options.max_ejected_percent > 0;
  check_ends_ejection_ = options.check_ends_ejection;
  {
    const std::lock_guard lock(mutex_);
    const BackendSet before = std::exchange(backends_, backends);
    detector_.set_rules(rules_of(options));
    for (std::uint32_t i = 0; i < backends.size(); ++i) {
      const bool stays = i < before.size() && before.shared_at(i) == backends.shared_at(i);
      if (enabled && stays && !backends.at(i).gone()) continue;
      detector_.forget(i);
      backends.at(i).ejection.failures_in_row.store(0, kRelaxed);
      if (backends.at(i).ejected_until_ns.load(kRelaxed) != 0) publish(i, loop_.now());
    }
  }
  if (enabled && !enabled_.exchange(true, kRelaxed)) {
    sample_timer_.arm_at(monotonic_now() + kSampleInterval);
  } else if (!enabled) {
    enabled_.store(false, kRelaxed);
    sample_timer_.cancel();
  }
}

// --- outcomes, on any thread

// False: its place has another one, or has none yet. A worker may be a reload ahead or behind. Under the
// mutex.
bool OutlierMonitor::knows(const Backend& backend) const {
  return backend.index < backends_.size() && &backends_.at(backend.index) == &backend;
}

void OutlierMonitor::failed(Backend& backend, TimePoint picked, TimePoint now, std::string_view what) {
  if (ns(picked) < backend.ejection.judged_from_ns.load(kRelaxed)) return;
  const std::uint32_t in_row = backend.ejection.failures_in_row.fetch_add(1, kRelaxed) + 1;
  if (!enabled_.load(kRelaxed)) return;
  if (in_row < OutlierRules{}.failures_in_row && backend.ejected_until_ns.load(kRelaxed) == 0) return;
  OutlierDecision decision;
  {
    const std::lock_guard lock(mutex_);
    if (!knows(backend)) return;
    look_at_peers();
    decision = detector_.failed(backend.index, peers_, now);
    apply(backend.index, decision, now, what);
  }
  tell(backend, decision, now, what);
}

// While a backend is ejected or on probation.
void OutlierMonitor::note_recovery(Backend& backend, TimePoint picked, TimePoint now) {
  if (ns(picked) < backend.ejection.judged_from_ns.load(kRelaxed)) return;
  OutlierDecision decision;
  {
    const std::lock_guard lock(mutex_);
    if (!knows(backend)) return;
    decision = detector_.succeeded(backend.index, now);
    apply(backend.index, decision, now, {});
  }
  tell(backend, decision, now, {});
}

// --- what is decided. The mutex is held.

void OutlierMonitor::look_at_peers() {
  peers_.resize(backends_.size());
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    const Backend& backend = backends_.at(i);
    peers_[i] = {in_service(backend), backend.ejection.failures_in_row.load(kRelaxed), backend.gone()};
  }
}

void OutlierMonitor::apply(std::uint32_t index, const OutlierDecision& decision, TimePoint now,
                           std::string_view what) {
  Backend& backend = backends_.at(index);
  switch (decision.action) {
    case Action::None:
      return;
    case Action::Refused:
      count(counters_.refused);
      return;
    case Action::Eject: {
      count(decision.reason == OutlierReason::InRow   ? counters_.in_row
            : decision.reason == OutlierReason::Share ? counters_.share
                                                      : counters_.probation);
      count(backend.ejection.total);
      if (cooldown_told_.size() <= index) cooldown_told_.resize(index + std::size_t{1});
      cooldown_told_[index] = false;
      backend.ejection.failures_in_row.store(0, kRelaxed);
      const double seconds = static_cast<double>(ms(decision.until - now)) / 1000;
      std::string text = fmt::format("ejected for {:.1f} s: {}", seconds, reason_name(decision.reason));
      if (!what.empty()) text += fmt::format(", at last it {}", what);
      backend.last_error.set(text, wall_now_us());
      return publish(index, decision.until);
    }
    case Action::EndEarly:
      count(counters_.ended_early);
      return publish(index, now);
    case Action::Sound:
      return publish(index, now);
    case Action::LiftAll:
      count(counters_.lifted);
      for (std::uint32_t i = 0; i < backends_.size(); ++i) {
        if (backends_.at(i).ejected_until_ns.load(kRelaxed) != 0 && !detector_.until(i)) publish(i, now);
      }
      return;
  }
}

void OutlierMonitor::publish(std::uint32_t index, TimePoint judged_from) {
  Backend& backend = backends_.at(index);
  const auto until = detector_.until(index);
  backend.ejection.times.store(detector_.times(index), kRelaxed);
  backend.ejection.judged_from_ns.store(ns(judged_from), kRelaxed);
  backend.ejected_until_ns.store(until ? ns(*until) : 0, std::memory_order_release);
  backends_.note_change();
}

// --- what is told. The mutex is not held.

void OutlierMonitor::tell(const Backend& backend, const OutlierDecision& decision, TimePoint now,
                          std::string_view what) {
  switch (decision.action) {
    case Action::None:
      return;
    case Action::Refused:
      log_.warn("backend not ejected: max-ejected-percent are",
                {log_key("backend", backend.id), {"reason", reason_name(decision.reason)}});
      return;
    case Action::Eject:
      log_.warn("backend ejected", {log_key("backend", backend.id),
                                    {"reason", reason_name(decision.reason)},
                                    {"last", what},
                                    {"share", decision.share},
                                    {"times", decision.times},
                                    {"cooldown_ms", ms(decision.until - now)}});
      break;
    case Action::EndEarly:
      log_.info("ejection ended by a check", {log_key("backend", backend.id)});
      break;
    case Action::Sound:
      log_.info("backend off probation", {log_key("backend", backend.id)});
      break;
    case Action::LiftAll:
      log_.warn("ejections lifted: all other backends fail too", {log_key("backend", backend.id)});
      break;
  }
  std::ignore = mail_.post(backend.index);  // full: waiters look again within a second, at the next sample
}

// --- the control thread

// The end timer follows the detector; whoever waits for a slot looks again, at all backends.
void OutlierMonitor::on_mail(std::uint32_t index) {
  std::optional<TimePoint> next;
  {
    const std::lock_guard lock(mutex_);
    next = detector_.next_end(loop_.now());
  }
  if (next) {
    end_timer_.arm_at(*next);
  } else {
    end_timer_.cancel();
  }
  events_.on_capacity_change(index);
}

void OutlierMonitor::check_passed(std::uint32_t index, TimePoint began, TimePoint now, bool came_up) {
  // Who was down and is up again is most likely another process: it is to show itself at once, on probation.
  if (!check_ends_ejection_ && !came_up) return;
  const std::int64_t until = backends_.at(index).ejected_until_ns.load(kRelaxed);
  if (until <= ns(now)) return;
  OutlierDecision decision;
  {
    const std::lock_guard lock(mutex_);
    decision = detector_.end_early(index, began, now);
    apply(index, decision, now, {});
  }
  tell(backends_.at(index), decision, now, {});
}

void OutlierMonitor::on_heap_timer(HeapTimer& timer) {
  const TimePoint now = std::max(loop_.now(), monotonic_now());
  if (&timer == &sample_timer_) {
    sample(now);
    sample_timer_.arm_at(now + kSampleInterval);
  }
  end_cooldowns(now);
}

void OutlierMonitor::sample(TimePoint now) {
  std::vector<std::pair<std::uint32_t, OutlierDecision>> decided;
  {
    const std::lock_guard lock(mutex_);
    look_at_peers();
    for (std::uint32_t i = 0; i < backends_.size(); ++i) {
      const BackendCounters& c = backends_.at(i).counters;
      const std::uint64_t broken = c.resets.load(kRelaxed) + c.timeouts.load(kRelaxed);
      const std::uint64_t bad = c.responses_5xx.load(kRelaxed) + broken;
      const std::uint64_t good =
          c.responses_2xx.load(kRelaxed) + c.responses_3xx.load(kRelaxed) + c.responses_4xx.load(kRelaxed);
      detector_.sample(i, good + bad, bad + c.response_failures.load(kRelaxed));
    }
    for (std::uint32_t i = 0; i < backends_.size(); ++i) {
      const OutlierDecision decision = detector_.judge(i, peers_, now);
      backends_.at(i).ejection.times.store(detector_.times(i), kRelaxed);
      apply(i, decision, now, {});
      if (decision.action != Action::None) decided.emplace_back(i, decision);
    }
  }
  for (const auto& [index, decision] : decided) tell(backends_.at(index), decision, now, {});
}

// Backends whose cooldown is over are on probation by the clock alone; here it is told to who waits.
void OutlierMonitor::end_cooldowns(TimePoint now) {
  std::vector<std::uint32_t> back;
  {
    const std::lock_guard lock(mutex_);
    for (std::uint32_t i = 0; i < cooldown_told_.size(); ++i) {
      if (cooldown_told_[i] || detector_.ejected(i, now)) continue;
      cooldown_told_[i] = true;
      if (detector_.on_probation(i, now)) back.push_back(i);
    }
    if (const auto next = detector_.next_end(now)) end_timer_.arm_at(*next);
  }
  for (const std::uint32_t index : back) {
    log_.info("backend on probation", {log_key("backend", backends_.at(index).id)});
    backends_.note_change();
    events_.on_capacity_change(index);
  }
}

}  // namespace dlb::lb
