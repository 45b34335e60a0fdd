// Autoscaling in the simulator, against what its trace says: each step up and down has to be the right one.
#include <algorithm>
#include <string>

#include "bench/simulate/report.h"
#include "bench/simulate/simulation.h"
#include "lb/autoscale_options.h"
#include "test/support/catch.h"

namespace dlb::bench {
namespace {

Scenario scenario_at(const std::string& name) {
  auto scenario = read_scenario("bench/scenarios/" + name + ".toml");
  INFO((scenario ? std::string() : scenario.error().text));
  REQUIRE(scenario);
  return std::move(*scenario);
}

// Pressed at every turn of the last up-after before `at`.
bool pressed_before(const Outcome& outcome, Duration at, Duration up_after) {
  return std::ranges::none_of(outcome.scale_turns, [&](const ScaleTurn& turn) {
    return turn.at <= at && turn.at >= at - up_after && !turn.pressed;
  });
}

// Right is: up only when all have been at capacity, or someone has waited, for up-after, or in place of one
// that went, or below min; down only who has been idle for idle-after; always between min and max.
void check_scaling(const Scenario& scenario, const Outcome& outcome) {
  const lb::AutoscaleRules rules = lb::autoscale_rules(scenario.options.autoscale);
  std::uint32_t processes = 0, draining = 0, replaced = 0;
  Duration grown_at = -Duration::max();
  for (const ScaleEvent& event : outcome.scaling) {
    INFO(seconds(event.at) << " s: " << event.action << ' ' << event.server << ": " << event.reason);
    if (event.action == "start") {
      const bool in_place = event.reason.starts_with("in place of");
      const bool below_min = event.reason.starts_with("fewer than min");
      if (below_min) CHECK(processes - draining < rules.min);
      if (in_place) CHECK(replaced-- > 0);
      if (!in_place && !below_min && grown_at != event.at) {
        CHECK(pressed_before(outcome, event.at, rules.up_after));
        grown_at = event.at;
      }
      CHECK(++processes <= rules.max);
    } else if (event.action == "drain") {
      CHECK(event.idle_for >= rules.idle_after - scenario.options.autoscale.interval);
      CHECK(processes - ++draining >= rules.min);
    } else if (event.action == "replace") {
      ++draining;
      ++replaced;
    } else if (event.action == "stop") {
      --processes;
      --draining;
    }
    CHECK(event.processes == processes + (event.action == "stop" ? 1 : 0));
  }
  for (const ScaleTurn& turn : outcome.scale_turns) {
    if (turn.at > Duration::zero()) CHECK(turn.serving >= 1);
    CHECK(turn.processes <= rules.max);
  }
}

std::uint64_t count(const Outcome& outcome, std::string_view action) {
  return static_cast<std::uint64_t>(std::ranges::count(outcome.scaling, action, &ScaleEvent::action));
}

TEST_CASE("scaling: a thousand requests, some servers turn unhealthy: all succeed, and every step is right") {
  for (const std::string policy : {"score", "first"}) {
    CAPTURE(policy);
    const Scenario scenario = scenario_at("autoscale_thousand");
    const Outcome outcome = Simulation(scenario, policy).run();
    CHECK(outcome.requests == 1000);
    CHECK(outcome.succeeded == 1000);
    check_scaling(scenario, outcome);
    CHECK(count(outcome, "replace") >= 1);
    CHECK(count(outcome, "drain") >= 8);
    CHECK(count(outcome, "start") >= 8);
  }
}

TEST_CASE("scaling: instances follow the day, under a policy that spreads") {
  const Scenario scenario = scenario_at("autoscale_diurnal");
  const Outcome outcome = Simulation(scenario, "score").run();
  CHECK(outcome.success_percent() == 100);
  check_scaling(scenario, outcome);
  const auto processes_at = [&](Duration at) {
    return std::ranges::find_if(outcome.scale_turns, [at](const ScaleTurn& turn) { return turn.at >= at; })
        ->processes;
  };
  CHECK(processes_at(std::chrono::minutes(5)) >= 6);
  CHECK(processes_at(std::chrono::minutes(10)) <= 5);
  CHECK(processes_at(std::chrono::minutes(15)) >= 6);
}

TEST_CASE("scaling: the report names every step") {
  const Scenario scenario = scenario_at("autoscale_thousand");
  const Outcome outcome = Simulation(scenario, "first").run();
  const std::string text = outcome_table({&outcome, 1});
  CHECK(text.find("fewer than min = 2") != std::string::npos);
  CHECK(text.find("idle for 60 s") != std::string::npos);
  CHECK(outcome_json({&outcome, 1}).find("\"mean_processes\"") != std::string::npos);
}

}  // namespace
}  // namespace dlb::bench
