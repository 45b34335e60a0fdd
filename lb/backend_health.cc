#include "lb/backend_health.h"

#include <algorithm>

namespace dlb::lb {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

std::int64_t ns(TimePoint t) { return t.time_since_epoch().count(); }

}  // namespace

bool note_connect_failed(Backend& backend, std::uint32_t failure_limit, TimePoint now) {
  const std::uint32_t in_row = backend.connect_failures_in_row.fetch_add(1, kRelaxed) + 1;
  if (in_row < failure_limit) return false;
  backend.connect_down_at_ns.store(ns(now), kRelaxed);
  backend.accepting.store(false, kRelaxed);
  return backend.healthy.exchange(false, std::memory_order_acq_rel);
}

void note_connect_succeeded(Backend& backend) {
  // Read first: the word stays shared between workers while all is well.
  if (backend.connect_failures_in_row.load(kRelaxed) != 0) backend.connect_failures_in_row.store(0, kRelaxed);
}

CheckEffects take_check(Backend& backend, HealthStreak& streak, const CheckVerdict& verdict, TimePoint began,
                        TimePoint now, bool panic_fallback) {
  CheckEffects effects;
  backend.checked_at_ns.store(ns(now), kRelaxed);
  backend.check_us.store(std::max<std::int64_t>(0, (now - began).count() / 1000), kRelaxed);

  const bool was_draining = backend.reported_draining.load(kRelaxed);
  const bool drains = verdict.kind == CheckVerdict::Kind::Draining;
  // A draining process that no longer answers stays draining until it is down; any other answer ends the
  // drain.
  if (verdict.connected) backend.reported_draining.store(drains, kRelaxed);
  if (!drains) streak.record(verdict.kind == CheckVerdict::Kind::Passed);
  backend.active_health.store(streak.state(), kRelaxed);

  const std::int64_t connect_down_at = backend.connect_down_at_ns.load(kRelaxed);
  if (connect_down_at != 0 && verdict.kind != CheckVerdict::Kind::Failed && ns(began) >= connect_down_at) {
    backend.connect_failures_in_row.store(0, kRelaxed);
    backend.connect_down_at_ns.store(0, kRelaxed);
  }
  const bool accepting = verdict.connected && backend.connect_down_at_ns.load(kRelaxed) == 0;
  // Panic may use it from now on.
  const bool opened = !backend.accepting.exchange(accepting, kRelaxed) && accepting && panic_fallback;
  effects.drain_began = drains && !was_draining;
  effects.more_capacity = opened || (was_draining && verdict.connected && !drains);
  return effects;
}

HealthChange publish_health(Backend& backend, const HealthStreak& streak, TimePoint now) {
  const bool up =
      streak.state() == HealthState::Up && backend.connect_down_at_ns.load(std::memory_order_acquire) == 0;
  if (up && !backend.healthy.load(kRelaxed)) backend.back_since_ns.store(ns(now), kRelaxed);
  const bool was_up = backend.healthy.exchange(up, std::memory_order_acq_rel);
  // A worker may have taken it out between the two words above: its judgement is the newer one.
  if (up && backend.connect_down_at_ns.load(std::memory_order_acquire) != 0) {
    backend.healthy.store(false, std::memory_order_release);
    return HealthChange::Overruled;
  }
  if (up == was_up) return HealthChange::None;
  return up ? HealthChange::Up : HealthChange::Down;
}

}  // namespace dlb::lb
