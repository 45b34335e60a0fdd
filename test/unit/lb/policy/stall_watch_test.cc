#include "lb/policy/stall_watch.h"

#include <array>
#include <chrono>

#include "lb/policy/policy.h"
#include "test/support/catch.h"

namespace dlb::lb {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint at(Duration since_start) { return TimePoint(1'000'000s + since_start); }

bool stalled(const StallWatch& watch, Duration when, double usual_us = 0) {
  return watch.stalled(at(when), [&] { return usual_us; });
}

void ask(StallWatch& watch, int times, Duration when) {
  for (int i = 0; i < times; ++i) watch.asked(at(when));
}

TEST_CASE("stall watch: five that wait for longer than half a second without a head from it") {
  StallWatch watch;
  ask(watch, 4, 0s);
  CHECK_FALSE(stalled(watch, 10s));
  watch.asked(at(10s));
  CHECK(stalled(watch, 10s));  // the first has waited since 0 s
  watch.over();
  CHECK_FALSE(stalled(watch, 20s));
}

TEST_CASE("stall watch: the silence counts from the last head, or from the first of those that wait") {
  StallWatch watch;
  ask(watch, 5, 3s);
  CHECK_FALSE(stalled(watch, 3500ms));
  CHECK(stalled(watch, 3501ms));
  watch.asked(at(3600ms));
  watch.answered(at(3600ms));
  watch.over();
  CHECK_FALSE(stalled(watch, 4100ms));
  CHECK(stalled(watch, 4101ms));
  for (int i = 0; i < 5; ++i) watch.over();
  CHECK(watch.awaiting() == 0);
  ask(watch, 5, 60s);
  CHECK_FALSE(stalled(watch, 60400ms));
}

TEST_CASE("stall watch: a backend whose answers take long is given ten of them") {
  StallWatch watch;
  ask(watch, 5, 0s);
  CHECK_FALSE(stalled(watch, 20s, 2e6));
  CHECK(stalled(watch, 20s + 1ms, 2e6));
  CHECK(stalled(watch, 600ms, 40e3));
  CHECK_FALSE(stalled(watch, 600ms, 61e3));
}

TEST_CASE("a stalled backend is picked only when there is no other, under every policy") {
  for (const PolicyKind kind : kPolicyKinds) {
    std::array<BackendView, 3> views;
    for (BackendView& view : views) view.healthy = view.accepting = true;
    views[0].stalled = true;
    views[1].in_flight = 30;
    views[2].in_flight = 30;
    PolicyRules rules{.kind = kind, .threshold = 75, .panic_fallback = true};
    for (std::uint64_t draw = 0; draw < 20; ++draw) {
      rules.draw = draw * 0x9e3779b97f4a7c15U;
      CHECK(choose(views, rules).index != 0);
    }
    // One that is slow to answer is still better than one that fails.
    views[1].ejected = views[2].ejected = true;
    for (std::uint64_t draw = 0; draw < 20; ++draw) {
      rules.draw = draw * 0x9e3779b97f4a7c15U;
      CHECK(choose(views, rules).index == 0);
    }
    views[1].draining = true;
    views[2].healthy = false;
    const Decision alone = choose(views, rules);
    CHECK(alone.reason == PickReason::Picked);
    CHECK_FALSE(alone.panic);
    CHECK(alone.index == 0);
  }
}

}  // namespace
}  // namespace dlb::lb
