#include "lb/policy/hysteresis.h"

#include "lb/policy/health_streak.h"
#include "test/support/catch.h"

namespace dlb::lb {
namespace {

TEST_CASE("a guard turns on at its limit and off a gap below it") {
  Hysteresis guard(95, 5);
  CHECK_FALSE(guard.update(94.9));
  CHECK(guard.update(95));
  CHECK(guard.update(94));
  CHECK(guard.update(90.1));
  CHECK_FALSE(guard.update(90));
  CHECK_FALSE(guard.update(94.9));
  CHECK(guard.update(99));
}

TEST_CASE("an unknown value leaves the judgement standing") {
  Hysteresis guard(95, 5);
  CHECK_FALSE(guard.update(-1));
  CHECK(guard.update(97));
  CHECK(guard.update(-1));
}

TEST_CASE("both memory guards judge one figure: 5 points under max-memory, 4 under max-total-memory") {
  BackendMemoryGuards guards(95, 98);
  CHECK_FALSE(guards.update(94));
  CHECK(guards.update(99));
  CHECK(guards.update(93.9));  // the total guard is off, the other still on
  CHECK_FALSE(guards.update(90));

  BackendMemoryGuards total_first(99, 90);
  CHECK(total_first.update(90));
  CHECK(total_first.update(86.5));
  CHECK_FALSE(total_first.update(86));
  CHECK(total_first.update(92));
  total_first.reset();
  CHECK_FALSE(total_first.blocked());
}

TEST_CASE("failure-limit failures in a row take a backend out, one success brings it back") {
  HealthStreak streak(3);
  CHECK(streak.state() == HealthState::Unknown);
  CHECK(streak.record(true));
  CHECK(streak.state() == HealthState::Up);
  CHECK_FALSE(streak.record(false));
  CHECK_FALSE(streak.record(false));
  CHECK_FALSE(streak.record(true));  // the row is broken
  CHECK_FALSE(streak.record(false));
  CHECK_FALSE(streak.record(false));
  CHECK(streak.state() == HealthState::Up);
  CHECK(streak.record(false));
  CHECK(streak.state() == HealthState::Down);
  CHECK(streak.failures_in_row() == 3);
  CHECK_FALSE(streak.record(false));
  CHECK(streak.record(true));
  CHECK(streak.state() == HealthState::Up);
}

TEST_CASE("a backend that was never up is down after one failure") {
  HealthStreak streak(5);
  CHECK(streak.record(false));
  CHECK(streak.state() == HealthState::Down);
  CHECK(streak.record(true));
}

}  // namespace
}  // namespace dlb::lb
