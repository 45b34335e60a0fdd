// The simulator (bench/simulate), which drives the balancer's own classes: what queueing theory knows, what
// has to be even, and that a seed decides everything.
#include "bench/simulate/simulation.h"

#include <algorithm>
#include <string>

#include "bench/simulate/report.h"
#include "lb/policy/policy.h"
#include "test/support/catch.h"

namespace dlb::bench {
namespace {

Scenario scenario_of(const std::string& text) {
  auto scenario = parse_scenario(text, "test.toml");
  INFO((scenario ? std::string() : scenario.error().text));
  REQUIRE(scenario);
  return std::move(*scenario);
}

Outcome play(const std::string& text, const std::string& policy = "least_conn") {
  const Scenario scenario = scenario_of(text);
  return Simulation(scenario, policy).run();
}

std::string one_server(const std::string& service) {
  return "duration = \"600s\"\nnetwork = \"0\"\n[balancer]\nproxy-max-conns-per-host = 5000\n"
         "[[servers]]\ncapacity = 1\nservice = \"" +
         service + "\"\n[[arrivals]]\nrate = 50\n";
}

constexpr std::string_view kThree = R"(duration = "60s"
[[servers]]
count = 3
capacity = 16
service = "exponential 20ms"
[[arrivals]]
rate = 100
)";

TEST_CASE("simulation: one server meets what is known of M/M/1 and M/D/1") {
  // 10 ms of work at 50 a second: half busy. M/M/1: 10 / (1 - 0.5) = 20 ms; M/D/1: 10 + 0.5·10/(2·0.5) = 15
  // ms.
  CHECK(play(one_server("exponential 10ms")).mean_us == Approx(20'000).epsilon(0.06));
  CHECK(play(one_server("fixed 10ms")).mean_us == Approx(15'000).epsilon(0.04));
}

TEST_CASE("simulation: equal servers get equal shares under every policy that spreads") {
  for (const std::string policy :
       {"score", "adaptive", "least_conn", "round_robin", "weighted_round_robin"}) {
    const Outcome outcome = play(std::string(kThree), policy);
    CHECK(outcome.success_percent() == 100);
    for (const ServerOutcome& one : outcome.servers) {
      CHECK(static_cast<double>(one.requests) == Approx(static_cast<double>(outcome.requests) / 3)
                                                     .epsilon(policy.ends_with("round_robin") ? 0.001 : 0.1));
    }
  }
}

TEST_CASE("simulation: the same seed gives the same output, another one another") {
  Scenario scenario = scenario_of(std::string(kThree));
  const auto json = [&scenario] {
    const Outcome outcome = Simulation(scenario, "score").run();
    return outcome_json({&outcome, 1});
  };
  const std::string first = json();
  CHECK(json() == first);
  scenario.seed = 2;
  CHECK(json() != first);
}

TEST_CASE("simulation: a server that fails at once is ejected under every policy") {
  const std::string text = R"(duration = "60s"
judged-from = "11s"
[[servers]]
capacity = 16
service = "exponential 20ms"
[[servers.episode]]
kind = "errors"
from = "10s"
for = "40s"
[[servers]]
count = 3
capacity = 16
service = "exponential 20ms"
[[arrivals]]
rate = 100
)";
  for (const lb::PolicyKind kind : lb::kPolicyKinds) {
    const std::string policy(lb::policy_name(kind));
    const Outcome outcome = play(text, policy);
    INFO(policy);
    CHECK(outcome.success_percent() > 99);
    CHECK(outcome.servers[0].ejections > 0);
    CHECK(outcome.ejections == outcome.servers[0].ejections);
  }
}

TEST_CASE("simulation: a killed server costs no request, since they are tried once more") {
  const Outcome outcome = play(std::string(kThree) + R"(
[[servers]]
capacity = 16
service = "exponential 20ms"
start-up = "1s"
[[servers.episode]]
kind = "refuse"
from = "20s"
for = "10s"
)");
  CHECK(outcome.success_percent() == 100);
  CHECK(outcome.retries > 0);
  CHECK(outcome.buckets[50].picks[3] == 0);   // 25 s: away
  CHECK(outcome.buckets[100].picks[3] != 0);  // 50 s: back
}

TEST_CASE("simulation: over backend-cap requests wait their turn, and none is lost") {
  const Outcome outcome = play(R"(duration = "30s"
[balancer]
backend-cap = 2
[[servers]]
count = 2
capacity = 2
service = "exponential 20ms"
[[arrivals]]
rate = 20
[[users]]
count = 12
think = "exponential 10ms"
)");
  CHECK(outcome.queued > 100);
  CHECK(outcome.success_percent() == 100);
}

TEST_CASE("simulation: adaptive leaves a slow server, where score does not") {
  const std::string text = std::string(kThree) + R"(
[[servers]]
capacity = 16
service = "exponential 20ms"
[[servers.episode]]
kind = "slow"
factor = 10
from = "10s"
for = "30s"
)";
  const Outcome score = play(text, "score"), adaptive = play(text, "adaptive");
  CHECK(adaptive.p999_us < 0.5 * score.p999_us);
  CHECK(adaptive.mean_us < score.mean_us);
}

TEST_CASE("scenario: what is wrong is told with its place") {
  const auto error = [](const std::string& text) {
    const auto scenario = parse_scenario(text, "a.toml");
    return scenario ? std::string() : scenario.error().text;
  };
  const std::string server = "[[servers]]\nservice = \"fixed 1ms\"\n[[arrivals]]\nrate = 1\n";
  CHECK(error(server).empty());
  CHECK(error("durations = \"1s\"\n" + server).find("a.toml:1:") == 0);
  CHECK(error(server + "[balancer]\nmax-in-flight = 1\n").find("max-inflight") != std::string::npos);
  CHECK(error("[[servers]]\nservice = \"often\"\n").find("a.toml:2:") == 0);
  CHECK(error("[[servers]]\nservice = \"fixed 1ms\"\n[[servers.episode]]\nkind = \"fire\"\n").find("kind") !=
        std::string::npos);
  CHECK_FALSE(error("[[servers]]\nservice = \"fixed 1ms\"\n").empty());  // nobody asks
}

}  // namespace
}  // namespace dlb::bench
