#include "lb/stats_poller.h"

#include <atomic>
#include <chrono>
#include <string>

#include "lb/score_view.h"
#include "test/support/catch.h"
#include "test/unit/lb/monitor_scene.h"

namespace dlb::lb {
namespace {

using namespace std::chrono_literals;
using Connection = ScriptedServer::Connection;

std::string stats(double cpu, std::int64_t rss, std::int64_t sock = 0, std::int64_t limit = 1000) {
  return R"({"backend-id":"sys2","cpu_percent":)" + std::to_string(cpu) +
         R"(,"memory":{"total_bytes":900,"limit_bytes":)" + std::to_string(limit) + R"(,"rss_bytes":)" +
         std::to_string(rss) + R"(,"sock_bytes":)" + std::to_string(sock) +
         R"(,"total_percent":90.0,"working_set_percent":50.5},"requests":{"in_flight":0,"total":1}})";
}

TEST_CASE("statistics of the documented shape") {
  StatsParser parser;
  const auto parsed = parser.parse(stats(37.5, 400, 50));
  REQUIRE(parsed);
  CHECK(parsed->cpu_percent == 37.5);
  CHECK(parsed->working_set_percent == 50.5);
  CHECK(parsed->total_percent == 90);
  CHECK(parsed->unreclaimable_percent == Approx(45));
}

TEST_CASE("unreclaimable memory as reported, else derived, else the working set, else unknown") {
  StatsParser parser;
  const auto judged = [&](const std::string& memory) {
    return parser.parse(R"({"memory":)" + memory + "}")->unreclaimable_percent;
  };
  CHECK(judged(R"({"unreclaimable_percent":12,"rss_bytes":900,"limit_bytes":1000})") == 12);
  CHECK(judged(R"({"rss_bytes":900,"limit_bytes":1000})") == 90);
  CHECK(judged(R"({"rss_bytes":900,"limit_bytes":0,"working_set_percent":33})") == 33);
  CHECK(judged(R"({"rss_bytes":900,"limit_bytes":-1})") == -1);
  CHECK(judged(R"({"working_set_percent":null})") == -1);
}

TEST_CASE("what is not there or makes no sense counts as not said") {
  StatsParser parser;
  CHECK_FALSE(parser.parse(""));
  CHECK_FALSE(parser.parse("[1]"));
  CHECK_FALSE(parser.parse("{\"cpu_percent\":"));
  CHECK(parser.parse("{}")->cpu_percent == -1);
  CHECK(parser.parse(R"({"cpu_percent":"12"})")->cpu_percent == -1);
  CHECK(parser.parse(R"({"cpu_percent":-3,"memory":7})")->cpu_percent == -1);
  CHECK(parser.parse(R"({"cpu_percent":12})")->cpu_percent == 12);  // a whole number
}

struct Reporting {
  std::atomic<int> rss{100};
  std::atomic<int> status{200};
  ScriptedServer server{[this](Connection& c) {
    c.read_head();
    c.answer(status.load(), stats(25, rss.load()));
  }};
};

TEST_CASE("polls publish CPU and memory, and the guards with their hysteresis") {
  Reporting a;
  MonitorScene scene({a.server.address()});
  StatsPoller poller(scene.loop, scene.timers, scene.options, *scene.backends, scene.events, scene.log);
  Backend& backend = scene.backend();
  REQUIRE(scene.run_until([&] { return backend.report.received_at_ns != 0; }));
  CHECK(backend.report.cpu_percent == 25);
  CHECK(backend.report.unreclaimable_percent == Approx(10));
  CHECK_FALSE(statistics_stale(backend, scene.options, monotonic_now()));

  const auto settle = [&](int rss) {
    a.rss = rss;
    return scene.run_until([&] { return backend.report.unreclaimable_percent == rss / 10.0; });
  };
  REQUIRE(settle(950));
  CHECK(backend.memory_blocked);
  CHECK(scene.events.capacity.empty());
  REQUIRE(settle(920));
  CHECK(backend.memory_blocked);
  REQUIRE(settle(900));
  CHECK_FALSE(backend.memory_blocked);
  CHECK(scene.events.capacity == std::vector<std::uint32_t>{0});
}

TEST_CASE("failed polls change nothing but the age of the statistics") {
  Reporting a;
  a.rss = 960;
  MonitorScene scene({a.server.address()});
  StatsPoller poller(scene.loop, scene.timers, scene.options, *scene.backends, scene.events, scene.log);
  Backend& backend = scene.backend();
  REQUIRE(scene.run_until([&] { return backend.memory_blocked.load(); }));
  a.status = 500;
  REQUIRE(scene.run_until([&] { return statistics_stale(backend, scene.options, monotonic_now()); }));
  CHECK(backend.report.cpu_percent == 25);
  CHECK(backend.memory_blocked);
  CHECK(backend.counters.probe_failures > 0);
  CHECK(score_of(backend, scene.options, monotonic_now()).penalty == 15);
}

TEST_CASE("with stats-path empty nothing is asked") {
  Reporting a;
  MonitorScene scene({a.server.address()});
  scene.options.stats_path = "";
  StatsPoller poller(scene.loop, scene.timers, scene.options, *scene.backends, scene.events, scene.log);
  CHECK(scene.timers.size() == 0);
}

}  // namespace
}  // namespace dlb::lb
