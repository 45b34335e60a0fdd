// Stages, source addresses, mixes and held connections as they are asked for: pure rules, and errors that say
// where.
#include <set>

#include "loadgen/options.h"
#include "test/support/catch.h"
#include "test/support/temp_dir.h"

namespace dlb::loadgen {
namespace {

using std::chrono::seconds;

struct Asked {
  Options options;
  std::string error;
};

Asked ask(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "loadgen");
  const char* const no_environment[] = {nullptr};
  Asked result;
  const auto loaded = load_options(kOptionTable, result.options, static_cast<int>(arguments.size()),
                                   arguments.data(), no_environment);
  REQUIRE(loaded.has_value());
  const auto finished = finish_options(*loaded, result.options);
  if (!finished) result.error = finished.error().text;
  return result;
}

TEST_CASE("stages: what one doesn't name is as the options say") {
  const Asked asked = ask({"-users", "7", "-duration", "3s", "-feed-percent", "5", "-stages",
                           "users=100 duration=10s; name=peak users=200 rate=500 feed-percent=0 ;requests=50 "
                           "ramp-up=2s issue-timeout=1s;"});
  REQUIRE(asked.error.empty());
  const RunPlan plan = plan_of(asked.options, 11);
  REQUIRE(plan.stages.size() == 3);
  CHECK(plan.stages[0].name == "stage-1");
  CHECK(plan.stages[0].users == 100);
  CHECK(plan.stages[0].duration == seconds(10));
  CHECK(plan.stages[0].feed_percent == 5);
  CHECK(plan.stages[1].name == "peak");
  CHECK(plan.stages[1].duration == seconds(3));
  CHECK(plan.stages[1].rate == 500);
  CHECK(plan.stages[1].feed_percent == 0);
  CHECK(plan.stages[2].users == 7);
  CHECK(plan.stages[2].requests == 50);
  CHECK(plan.stages[2].ramp_up == seconds(2));
  CHECK(plan.stages[2].issue_window == seconds(1));
  CHECK(plan.users_max() == 200);
  std::set<std::uint64_t> seeds;
  for (const StagePlan& stage : plan.stages) seeds.insert(stage.seed);
  CHECK(seeds.size() == 3);  // no two stages send the same messages
  CHECK(ask({"-duration", "1s", "-warmup", "1s", "-stages", "users=1;users=2"}).options.any_rate() == false);
}

TEST_CASE("stages: a warm-up is like the first one") {
  const Asked asked = ask({"-users", "7", "-duration", "3s", "-warmup", "1s", "-feed-percent", "5", "-stages",
                           "users=100 rate=50 feed-percent=20; users=200"});
  REQUIRE(asked.error.empty());
  const RunPlan plan = plan_of(asked.options, 11);
  REQUIRE(plan.stages.size() == 3);
  const StagePlan& warm = plan.stages.front();
  CHECK_FALSE(warm.counted);
  CHECK(warm.users == 100);
  CHECK(warm.rate == 50);
  CHECK(warm.feed_percent == 20);
  CHECK(warm.duration == seconds(1));
  CHECK(warm.requests == 0);
}

TEST_CASE("stages: an error names its column") {
  const auto [text, error] = GENERATE(table<std::string, std::string>({
      {"users=0", "column 7: users is 1 to 100000"},
      {"users=1 duration=10s; user=2", "column 23: \"user\" is no setting of a stage"},
      {"users=1 users=2", "column 15: users is"},
      {"users", "column 1: users=VALUE is expected"},
      {"users=1;;users=2", "column 9: a stage with nothing in it"},
      {"duration=soon", "column 10: duration is a time"},
      {"name=a users=1; name=a users=2", "column 17: two stages are named a"},
      {"rate=0.0001", "column 6: rate is 0, or"},
  }));
  const auto parsed = parse_stages(text);
  REQUIRE_FALSE(parsed.has_value());
  CHECK(parsed.error().text.starts_with(error));
  CHECK(parse_stages("  ")->empty());
}

TEST_CASE("stages: what can't be is refused beforehand") {
  CHECK(ask({"-stages", " "}).error.find("has no stage in it") != std::string::npos);
  CHECK(ask({"-stages", "", "-duration", "1s"}).error.empty());
  CHECK(ask({"-stages", "users=5"}).error.find("stage-1 has no end") != std::string::npos);
  CHECK(ask({"-profile", "stress-static", "-stages", "users=5"}).error.find("stages") != std::string::npos);
  CHECK(ask({"-stages", "rate=5 duration=1s", "-interval-max", "1s"}).error.find("stage-1") !=
        std::string::npos);
  CHECK(ask({"-stages", "rate=5 duration=1s ramp-up=1s"}).error.find("ramp-up") != std::string::npos);
  CHECK(ask({"-stages", "feed-percent=60 duration=1s", "-duplicate-percent", "50"}).error.find("over 100") !=
        std::string::npos);
  CHECK(ask({"-stages", "rate=5 duration=1s", "-fail", "p99(post,intended)<1s"}).error.empty());
}

TEST_CASE("a profile's configuration, printed and fed back, is the same run") {
  const auto again = [](std::vector<const char*> arguments) {
    Asked first = ask(std::move(arguments));
    REQUIRE(first.error.empty());
    const dlb::test::TempDir folder;
    const std::string path = folder.write("printed.toml", print_config(kOptionTable, first.options));
    Asked second = ask({"-c", path.c_str()});
    CHECK(second.error.empty());
    CHECK(changed_options(kOptionTable, first.options, second.options).empty());
    CHECK(second.options.payload_altered == first.options.payload_altered);
    CHECK(second.options.mode == first.options.mode);
    return second.options;
  };
  CHECK_FALSE(again({"-profile", "leaderboard-static"}).payload_altered);
  CHECK(again({"-profile", "leaderboard-static", "-message-max", "100"}).payload_altered);
  CHECK(again({"-profile", "leaderboard-static", "-feed-percent", "0"}).payload_altered);
  CHECK(again({"-profile", "stress-static", "-verify-feed=false"}).verify_feed == false);
  CHECK(again({"-profile", "chat", "-wss-url", "wss://127.0.0.1:1", "-users", "9"}).users == 9);
  CHECK(ask({"-profile", "stress-static", "-users", "100"}).error.empty());  // nothing is asked for
  for (const auto& [name, value] :
       {std::pair("-users", "7"), std::pair("-duration", "1s"), std::pair("-rate", "5"),
        std::pair("-warmup", "1s"), std::pair("-cooldown", "1s")}) {
    CHECK(ask({"-profile", "stress-static", name, value}).error ==
          "-" + std::string(name) + ": is the profile's: leave one of the two out");
  }
}

TEST_CASE("options that make a profile's load another one are noted, and need what they need elsewhere") {
  const std::vector<const char*> altering =
      GENERATE(values<std::vector<const char*>>({{"-request-timeout", "3s"},
                                                 {"-held-new-connections", "5"},
                                                 {"-source-addresses", "127.1.0.0/24"},
                                                 {"-subscribers", "10", "-wss-url", "ws://127.0.0.1:1/ws"},
                                                 {"-ramp-up", "1s"}}));
  std::vector<const char*> arguments = {"-profile", "leaderboard-static"};
  CHECK_FALSE(plan_of(ask(arguments).options, 1).altered);
  arguments.insert(arguments.end(), altering.begin(), altering.end());
  const Asked asked = ask(arguments);
  CHECK(asked.error.empty());
  CHECK(plan_of(asked.options, 1).altered);
  CHECK(ask({"-profile", "leaderboard-static", "-subscribers", "10"}).error.find("wss-url must say where") !=
        std::string::npos);
}

TEST_CASE("held connections belong to a stage: by number, by name, or the last") {
  const std::vector<const char*> base = {"-held-new-connections", "3", "-duration", "1s", "-stages",
                                         "name=low;name=high"};
  const auto held = [&](std::vector<const char*> more) {
    std::vector<const char*> arguments = base;
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Asked asked = ask(arguments);
    return asked.error.empty() ? asked.options.held_stage : asked.error;
  };
  CHECK(held({}) == "high");
  CHECK(held({"-held-new-stage", "1"}) == "low");
  CHECK(held({"-held-new-stage", "low"}) == "low");
  CHECK(held({"-held-new-stage", "3"}).find("there are 2, from low to high") != std::string::npos);
  CHECK(ask({"-held-new-age", "3s"}).error.find("there are none") != std::string::npos);
  CHECK(ask({"-held-new-age", "10s", "-held-new-stage", ""}).error.empty());  // as print-config gives them
  CHECK(ask({"-held-new-connections", "1", "-profile", "leaderboard-static", "-held-new-stage", "static-500"})
            .options.held_stage == "static-500");
}

TEST_CASE("source addresses go round by user number") {
  const auto sources = SourceAddresses::parse({"127.0.1.0/30", "127.9.0.7", "127.0.0.254-127.0.1.1"});
  REQUIRE(sources.has_value());
  CHECK(sources->size() == 2 + 1 + 4);  // the first and the last of a prefix are left out
  std::vector<std::string> hosts;
  for (std::uint64_t user = 0; user < 8; ++user) hosts.push_back(sources->of(user).host());
  CHECK(hosts == std::vector<std::string>{"127.0.1.1", "127.0.1.2", "127.9.0.7", "127.0.0.254", "127.0.0.255",
                                          "127.0.1.0", "127.0.1.1", "127.0.1.1"});
  CHECK(sources->of(0).port() == 0);
  CHECK(sources->check(3).has_value());
  CHECK(SourceAddresses::parse({"127.0.0.0/8"})->size() == (1U << 24) - 2);
  CHECK(SourceAddresses::parse({"::1"})->of(5).host() == "::1");
  CHECK(SourceAddresses::parse({})->empty());
  const auto foreign = SourceAddresses::parse({"127.0.0.1", "192.0.2.1"})->check(5);
  REQUIRE_FALSE(foreign.has_value());
  CHECK(foreign.error().text.starts_with("bind 192.0.2.1: EADDRNOTAVAIL"));
  for (const char* bad : {"127.0.0", "127.0.0.1/0", "127.0.0.1/33", "127.0.0.9-127.0.0.1", "localhost",
                          "::1/64", "127.0.0.0/8,127.0.0.1", ""}) {
    INFO(bad);
    const auto parsed = SourceAddresses::parse({bad});
    REQUIRE_FALSE(parsed.has_value());
    CHECK(parsed.error().text.starts_with("\"" + std::string(bad) + "\": "));
  }
}

TEST_CASE("repeats are messages that the same user sent before, byte for byte") {
  PayloadShape shape;
  shape.seed = 4;
  shape.users = 7;
  shape.feed_percent = 10;
  shape.duplicate_percent = 20;
  Payload payload(shape);
  int repeats = 0;
  int feeds = 0;
  for (std::uint64_t i = 0; i < 10'000; ++i) {
    if (payload.operation_class(i) == OperationClass::Feed) {
      ++feeds;
      CHECK(payload.origin(i) == i);
      continue;
    }
    const std::uint64_t origin = payload.origin(i);
    if (origin == i) continue;
    ++repeats;
    CHECK(origin < i);
    CHECK(origin % 7 == i % 7);
    CHECK(payload.origin(origin) == origin);
    CHECK(payload.operation_class(origin) == OperationClass::Message);
    CHECK(payload.message(i).id == payload.message(origin).id);
  }
  CHECK(feeds == 1000);
  CHECK(repeats > 1990);  // all but those that have nothing to repeat
  CHECK(repeats <= 2000);
}

TEST_CASE("slow readers are spread over the users") {
  const auto count = [](double percent) {
    int slow = 0;
    for (std::uint64_t user = 0; user < 1000; ++user) slow += is_slow_reader(user, percent) ? 1 : 0;
    return slow;
  };
  CHECK(count(0) == 0);
  CHECK(count(0.1) == 1);
  CHECK(count(5) == 50);
  CHECK(count(100) == 1000);
  CHECK_FALSE(is_slow_reader(0, 50));
  CHECK(is_slow_reader(1, 50));
}

}  // namespace
}  // namespace dlb::loadgen
