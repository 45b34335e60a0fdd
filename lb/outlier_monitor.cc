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

std::int64_t ms(Duration d) { return d.count() / 1'000'000; }

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
      ejections_(options, backends, seed) {
  take_over_ejections(monotonic_now());
  apply(options, backends);
}

// Those that an upgrade has left in the backends' atomics.
void OutlierMonitor::take_over_ejections(TimePoint now) {
  ejections_.take_over(now);
  cooldown_told_.resize(ejections_.backends().size());
  for (std::uint32_t i = 0; i < cooldown_told_.size(); ++i)
    cooldown_told_[i] = !ejections_.detector().ejected(i, now);
  if (const auto next = ejections_.detector().next_end(now)) end_timer_.arm_at(*next);
}

void OutlierMonitor::apply(const Options& options, const BackendSet& backends) {
  check_ends_ejection_ = options.check_ends_ejection;
  {
    const std::lock_guard lock(mutex_);
    ejections_.apply(options, backends, loop_.now());
  }
  if (!ejections_.enabled()) {
    sample_timer_.cancel();
  } else if (!sample_timer_.armed()) {
    sample_timer_.arm_at(monotonic_now() + kSampleInterval);
  }
}

// --- outcomes, on any thread

void OutlierMonitor::failed(Backend& backend, TimePoint picked, TimePoint now, std::string_view what) {
  if (!ejections_.note_failure(backend, picked)) return;
  OutlierDecision decision;
  {
    const std::lock_guard lock(mutex_);
    decision = ejections_.failed(backend, now);
    carry_out(backend.index, decision, now, what);
  }
  tell(backend, decision, now, what);
}

// While a backend is ejected or on probation.
void OutlierMonitor::note_recovery(Backend& backend, TimePoint now) {
  OutlierDecision decision;
  {
    const std::lock_guard lock(mutex_);
    decision = ejections_.succeeded(backend, now);
    carry_out(backend.index, decision, now, {});
  }
  tell(backend, decision, now, {});
}

// --- what is decided: counted, then published. The mutex is held.

void OutlierMonitor::carry_out(std::uint32_t index, const OutlierDecision& decision, TimePoint now,
                               std::string_view what) {
  switch (decision.action) {
    case Action::None:
      return;
    case Action::Refused:
      count(counters_.refused);
      return;
    case Action::Eject: {
      Backend& backend = ejections_.backends().at(index);
      count(decision.reason == OutlierReason::InRow   ? counters_.in_row
            : decision.reason == OutlierReason::Share ? counters_.share
                                                      : counters_.probation);
      count(backend.ejection.total);
      if (cooldown_told_.size() <= index) cooldown_told_.resize(index + std::size_t{1});
      cooldown_told_[index] = false;
      const double seconds = static_cast<double>(ms(decision.until - now)) / 1000;
      std::string text = fmt::format("ejected for {:.1f} s: {}", seconds, reason_name(decision.reason));
      if (!what.empty()) text += fmt::format(", at last it {}", what);
      backend.last_error.set(text, wall_now_us());
      break;
    }
    case Action::EndEarly:
      count(counters_.ended_early);
      break;
    case Action::Sound:
      break;
    case Action::LiftAll:
      count(counters_.lifted);
      break;
  }
  ejections_.carry_out(index, decision, now);
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
    next = ejections_.detector().next_end(loop_.now());
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
  const std::int64_t until = ejections_.backends().at(index).ejected_until_ns.load(kRelaxed);
  if (until <= now.time_since_epoch().count()) return;
  OutlierDecision decision;
  {
    const std::lock_guard lock(mutex_);
    decision = ejections_.end_early(index, began, now);
    carry_out(index, decision, now, {});
  }
  tell(ejections_.backends().at(index), decision, now, {});
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
    ejections_.sample(now, [&](std::uint32_t index, const OutlierDecision& decision) {
      carry_out(index, decision, now, {});
      decided.emplace_back(index, decision);
    });
  }
  for (const auto& [index, decision] : decided) tell(ejections_.backends().at(index), decision, now, {});
}

// Backends whose cooldown is over are on probation by the clock alone; here it is told to who waits.
void OutlierMonitor::end_cooldowns(TimePoint now) {
  std::vector<std::uint32_t> back;
  {
    const std::lock_guard lock(mutex_);
    for (std::uint32_t i = 0; i < cooldown_told_.size(); ++i) {
      if (cooldown_told_[i] || ejections_.detector().ejected(i, now)) continue;
      cooldown_told_[i] = true;
      if (ejections_.detector().on_probation(i, now)) back.push_back(i);
    }
    if (const auto next = ejections_.detector().next_end(now)) end_timer_.arm_at(*next);
  }
  const BackendSet& backends = ejections_.backends();
  for (const std::uint32_t index : back) {
    log_.info("backend on probation", {log_key("backend", backends.at(index).id)});
    backends.note_change();
    events_.on_capacity_change(index);
  }
}

}  // namespace dlb::lb
