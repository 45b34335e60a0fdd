// How checks and failed connects become "up" and "down" in a backend's atomics (L9, L10, L13): the decisions
// of HealthChecker without its probes, clock and log, so that the simulator runs them too.
//
//   active   take_check(): a verdict moves the streak (policy/health_streak.h), never traffic
//   passive  note_connect_failed(): the limit-th in a row takes a backend out at once, until a check succeeds
//            that began later
//
//   healthy = active streak is up, and not out by failed connects: publish_health()
//
// Checks: one thread, the control thread. note_connect_*(): any thread.
#pragma once

#include <cstdint>
#include <string>

#include "common/clock.h"
#include "lb/backend_set.h"
#include "lb/policy/health_streak.h"

namespace dlb::lb {

// What one check found.
struct CheckVerdict {
  enum class Kind : std::uint8_t { Passed, Failed, Draining } kind = Kind::Failed;
  bool connected = false;
  std::string error{};  // with Failed: one sentence
};

// True when this one takes the backend out: the control thread is to be told.
bool note_connect_failed(Backend& backend, std::uint32_t failure_limit, TimePoint now);
void note_connect_succeeded(Backend& backend);

struct CheckEffects {
  bool drain_began = false;    // by its own word
  bool more_capacity = false;  // it may be used where it couldn't be: a drain is over, or panic may use it
};

// A check that began at `began` is done at `now`. Health itself changes with publish_health().
CheckEffects take_check(Backend& backend, HealthStreak& streak, const CheckVerdict& verdict, TimePoint began,
                        TimePoint now, bool panic_fallback);

enum class HealthChange : std::uint8_t {
  None,
  Up,
  Down,
  Overruled,  // failed connects have taken it out in this very moment, and told it themselves
};
HealthChange publish_health(Backend& backend, const HealthStreak& streak, TimePoint now);

}  // namespace dlb::lb
