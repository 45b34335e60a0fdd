// Plans: what a profile's stages are, what changes them, and that each stage sends messages of its own.
#include "loadgen/plan.h"

#include <set>

#include "loadgen/options.h"
#include "test/support/catch.h"

namespace dlb::loadgen {
namespace {

Options with_profile(const std::string& name) {
  Options options;
  options.profile = name;
  options.feed_percent = 5;
  return options;
}

std::vector<std::int64_t> users_of(const RunPlan& plan, std::string_view ladder) {
  std::vector<std::int64_t> users;
  for (const StagePlan& stage : plan.stages) {
    if (stage.ladder == ladder) users.push_back(stage.users);
  }
  return users;
}

TEST_CASE("a plain run is one stage, behind a warm-up with other messages if there is one") {
  Options options;
  options.users = 7;
  options.requests = 50;
  options.rate = 3;
  RunPlan plan = plan_of(options, 11);
  REQUIRE(plan.stages.size() == 1);
  CHECK(plan.stages[0].seed == 11);
  CHECK(plan.stages[0].requests == 50);
  CHECK(plan.users_max() == 7);
  CHECK_FALSE(plan.leaderboard);

  options.warmup = std::chrono::seconds(2);
  plan = plan_of(options, 11);
  REQUIRE(plan.stages.size() == 2);
  CHECK_FALSE(plan.stages[0].counted);
  CHECK(plan.stages[0].duration == std::chrono::seconds(2));
  CHECK(plan.stages[0].rate == 3);
  CHECK(plan.stages[0].seed != plan.stages[1].seed);
  CHECK(plan.stages[1].counted);
  CHECK(plan.stages[1].cool_down == Duration::zero());

  options.cooldown = std::chrono::seconds(1);
  options.stage_list = *parse_stages("users=1;users=2");
  plan = plan_of(options, 11);
  REQUIRE(plan.stages.size() == 3);
  CHECK(plan.stages[0].cool_down == Duration::zero());
  CHECK(plan.stages[1].cool_down == Duration::zero());
  CHECK(plan.stages[2].cool_down == std::chrono::seconds(1));
}

TEST_CASE("the paired leaderboard is a static and then a breakpoint ladder") {
  const RunPlan plan = plan_of(with_profile("leaderboard-paired-v2"), 1);
  REQUIRE(plan.stages.size() == 12);
  CHECK(users_of(plan, "static") == std::vector<std::int64_t>{250, 500, 750, 1000});
  CHECK(users_of(plan, "breakpoint") ==
        std::vector<std::int64_t>{200, 350, 500, 750, 1000, 1500, 2000, 2500});
  std::set<std::uint64_t> seeds;
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const StagePlan& stage = plan.stages[i];
    CHECK(stage.ladder == (i < 4 ? "static" : "breakpoint"));
    CHECK(stage.requests == 5000);
    CHECK(stage.feed_percent == 5);
    CHECK(stage.issue_window == std::chrono::seconds(i < 4 ? 20 : 30));
    CHECK(stage.stop_error_percent == (i < 4 ? 100 : 20));
    seeds.insert(stage.seed);
  }
  for (const StagePlan& stage : plan_of(with_profile("leaderboard-paired-v2"), 2).stages)
    seeds.insert(stage.seed);
  CHECK(seeds.size() == 24);  // neighbouring seeds share no stage's messages
  CHECK(plan.stages[0].name == "static-250");
  CHECK(plan.stages[11].name == "breakpoint-2500");
  CHECK(plan.users_max() == 2500);
  CHECK(plan.leaderboard);
  CHECK_FALSE(plan.altered);
  CHECK(plan.alphabet == Alphabet::Printable);
  CHECK(plan_of(with_profile("leaderboard-suite"), 1).alphabet == Alphabet::Alphanumeric);
  CHECK(plan_of(with_profile("leaderboard-static"), 1).stages.size() == 4);
  CHECK(plan_of(with_profile("leaderboard-breakpoint"), 1).stages.size() == 8);
}

TEST_CASE("options that change a profile are noted") {
  Options options = with_profile("leaderboard-static");
  options.requests = 100;
  RunPlan plan = plan_of(options, 1);
  CHECK(plan.altered);
  CHECK(plan.stages[3].requests == 100);
  options = with_profile("leaderboard-static");
  options.stage_issue_timeout = std::chrono::seconds(3);
  plan = plan_of(options, 1);
  CHECK(plan.altered);
  CHECK(plan.stages[0].issue_window == std::chrono::seconds(3));
  options = with_profile("leaderboard-static");
  options.payload_altered = true;
  CHECK(plan_of(options, 1).altered);
}

TEST_CASE("the stages of duplicate-breakpoint send the same messages under the same names") {
  const RunPlan plan = plan_of(with_profile("duplicate-breakpoint"), 9);
  const auto message_at = [&](std::size_t number, std::uint64_t index) {
    const StagePlan& stage = plan.stages[number];
    PayloadShape shape;
    shape.seed = stage.seed;
    shape.users = static_cast<std::uint64_t>(stage.users);
    shape.names = stage.names;
    Payload payload(shape);
    const Message message = payload.message(index);
    return std::pair(message.id, content_hash(message.client_name, message.text));
  };
  for (const std::uint64_t index : {0U, 3U, 777U, 4999U}) {
    CHECK(message_at(0, index) == message_at(7, index));
    CHECK(message_at(0, index).second != message_at(0, index + 1).second);
  }
}

TEST_CASE("alphanumeric texts are what their name says, and as long as the others") {
  PayloadShape shape;
  shape.alphabet = Alphabet::Alphanumeric;
  Payload payload(shape);
  std::set<char> seen;
  for (std::uint64_t i = 0; i < 200; ++i) {
    for (const char c : payload.message(i).text) seen.insert(c);
  }
  CHECK(seen.size() == 62);
  for (const char c : seen) CHECK(std::isalnum(static_cast<unsigned char>(c)));
}

TEST_CASE("every profile has stages, names of its own, and only known names are profiles") {
  for (const std::string& name : profile_names()) {
    CHECK(is_profile(name));
    std::set<std::string> names;
    for (const StagePlan& stage : plan_of(with_profile(name), 1).stages) names.insert(stage.name);
    CHECK(names.size() == plan_of(with_profile(name), 1).stages.size());
  }
  CHECK_FALSE(is_profile("leaderboard"));
  CHECK_FALSE(is_profile(""));
}

}  // namespace
}  // namespace dlb::loadgen
