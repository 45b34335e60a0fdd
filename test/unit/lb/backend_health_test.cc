#include "lb/backend_health.h"

#include "lb/options.h"
#include "test/support/catch.h"

namespace dlb::lb {
namespace {

using namespace std::chrono_literals;
using Kind = CheckVerdict::Kind;

constexpr TimePoint at(Duration since_start) { return TimePoint(1'000'000s + since_start); }

struct Checked {
  Backend backend{0, "a", "http://a:1", {}, 1};
  HealthStreak streak{2};
  HealthChange check(Kind kind, bool connected, Duration began, CheckEffects* effects = nullptr) {
    const CheckEffects found =
        take_check(backend, streak, {.kind = kind, .connected = connected}, at(began), at(began + 1ms), true);
    if (effects != nullptr) *effects = found;
    return publish_health(backend, streak, at(began + 1ms));
  }
};

TEST_CASE("health: up with the first success, down with the limit of failures in a row") {
  Checked one;
  CHECK(one.check(Kind::Passed, true, 0s) == HealthChange::Up);
  CHECK(one.check(Kind::Failed, true, 1s) == HealthChange::None);
  CHECK(one.check(Kind::Failed, true, 2s) == HealthChange::Down);
  CHECK(one.backend.accepting);  // it answered, if only badly: panic may use it
  CHECK(one.check(Kind::Failed, false, 3s) == HealthChange::None);
  CHECK_FALSE(one.backend.accepting);
  CHECK(one.check(Kind::Passed, true, 4s) == HealthChange::Up);
}

TEST_CASE("health: failed connects take a backend out until a check that began later passes") {
  Checked one;
  one.check(Kind::Passed, true, 0s);
  CHECK_FALSE(note_connect_failed(one.backend, 2, at(1s)));
  note_connect_succeeded(one.backend);
  CHECK_FALSE(note_connect_failed(one.backend, 2, at(2s)));
  CHECK(note_connect_failed(one.backend, 2, at(2s)));
  CHECK_FALSE(note_connect_failed(one.backend, 2, at(2s)));  // told once
  CHECK_FALSE(one.backend.healthy);
  CHECK(one.check(Kind::Passed, true, 1s) == HealthChange::None);  // it began before
  CHECK_FALSE(one.backend.healthy);
  CHECK(one.check(Kind::Passed, true, 3s) == HealthChange::Up);
}

TEST_CASE("health: draining by its own word neither moves the streak nor lasts") {
  Checked one;
  one.check(Kind::Passed, true, 0s);
  CheckEffects effects;
  CHECK(one.check(Kind::Draining, true, 1s, &effects) == HealthChange::None);
  CHECK(effects.drain_began);
  CHECK(one.backend.taken_out());
  one.check(Kind::Failed, false, 2s, &effects);
  CHECK(one.backend.taken_out());  // gone silent: still draining
  one.check(Kind::Passed, true, 3s, &effects);
  CHECK(effects.more_capacity);
  CHECK_FALSE(one.backend.taken_out());
}

}  // namespace
}  // namespace dlb::lb
