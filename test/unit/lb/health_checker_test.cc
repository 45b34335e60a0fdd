#include "lb/health_checker.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <mutex>
#include <string>

#include "lb/backend_changes.h"
#include "lb/probe_schedule.h"
#include "test/support/catch.h"
#include "test/unit/lb/monitor_scene.h"

namespace dlb::lb {
namespace {

using namespace std::chrono_literals;
using Connection = ScriptedServer::Connection;

// Answers every check with `mode`: a status, or 0 to reset the connection.
struct Switchable {
  std::atomic<int> status{200};
  std::atomic<const char*> body{R"({"status":"ok"})"};
  ScriptedServer server{[this](Connection& c) {
    c.read_head();
    const int answer = status.load();
    if (answer == 0) {
      c.reset_on_close();
    } else {
      c.answer(answer, body.load());
    }
  }};
};

TEST_CASE("the first check of each backend goes out at start, whatever the interval") {
  Switchable a, b;
  MonitorScene scene({a.server.address(), b.server.address()});
  scene.options.health_interval = 1h;
  HealthChecker checker(scene.loop, scene.timers, scene.options, *scene.backends, scene.events, scene.log);
  REQUIRE(scene.run_until([&] { return scene.backend(0).healthy && scene.backend(1).healthy; }));
  std::sort(scene.events.capacity.begin(), scene.events.capacity.end());
  CHECK(scene.events.capacity == std::vector<std::uint32_t>{0, 1});
  CHECK(scene.backend(0).active_health == HealthState::Up);
  CHECK(scene.backend(0).counters.probes == 1);
}

TEST_CASE("failure-limit failures in a row take it out, the first success brings it back") {
  Switchable a;
  MonitorScene scene({a.server.address()});
  scene.options.failure_limit = 3;
  HealthChecker checker(scene.loop, scene.timers, scene.options, *scene.backends, scene.events, scene.log);
  Backend& backend = scene.backend();
  REQUIRE(scene.run_until([&] { return backend.healthy.load(); }));

  a.status = 500;
  REQUIRE(scene.run_until([&] { return backend.counters.probe_failures == 2; }));
  CHECK(backend.healthy);
  CHECK(scene.events.out.empty());
  REQUIRE(scene.run_until([&] { return !backend.healthy; }));
  CHECK(backend.counters.probe_failures == 3);
  CHECK(scene.events.out == std::vector<std::uint32_t>{0});
  CHECK(backend.last_error.get().text == "check answered 500");
  CHECK(backend.accepting);  // what panic goes by

  scene.events.capacity.clear();
  a.status = 204;
  REQUIRE(scene.run_until([&] { return backend.healthy.load(); }));
  CHECK(scene.events.capacity == std::vector<std::uint32_t>{0});
}

TEST_CASE("a draining answer takes it out at once and is no failure; any other answer ends it") {
  Switchable a;
  MonitorScene scene({a.server.address()});
  HealthChecker checker(scene.loop, scene.timers, scene.options, *scene.backends, scene.events, scene.log);
  Backend& backend = scene.backend();
  REQUIRE(scene.run_until([&] { return backend.healthy.load(); }));
  a.body = R"({"status":"draining","database":"ok"})";
  a.status = 503;
  REQUIRE(scene.run_until([&] { return backend.reported_draining.load(); }));
  CHECK(scene.events.out == std::vector<std::uint32_t>{0});
  const std::uint64_t probes = backend.counters.probes;
  REQUIRE(scene.run_until([&] { return backend.counters.probes >= probes + 3; }));
  CHECK(backend.counters.probe_failures == 0);
  CHECK(scene.events.out.size() == 1);
  CHECK(backend_state(backend, monotonic_now()) == "draining");

  scene.events.capacity.clear();
  a.status = 200;
  REQUIRE(scene.run_until([&] { return !backend.reported_draining; }));
  CHECK(scene.events.capacity == std::vector<std::uint32_t>{0});
}

TEST_CASE("a refused connect is a failed check, and it does not accept connections") {
  Address closed;
  {
    const ScriptedServer server([](Connection&) {});
    closed = server.address();
  }
  MonitorScene scene({closed});
  HealthChecker checker(scene.loop, scene.timers, scene.options, *scene.backends, scene.events, scene.log);
  REQUIRE(scene.run_until([&] { return scene.backend().checked_at_ns != 0; }));
  CHECK_FALSE(scene.backend().healthy);
  CHECK_FALSE(scene.backend().accepting);
  CHECK(scene.backend().active_health == HealthState::Down);
  CHECK_THAT(scene.backend().last_error.get().text, Catch::Matchers::Contains("ECONNREFUSED"));
}

// One total deadline from connect to verdict, whatever trickles in; nonsense fails at once.
TEST_CASE("checks that never become an answer fail at the deadline or before it") {
  struct Case {
    const char* name;
    ScriptedServer::Script script;
    bool at_deadline;
  };
  const std::string large(64 * 1024, 'x');
  const Case cases[] = {
      {"a byte now and then",
       [](Connection& c) {
         c.read_head();
         for (const char byte : std::string("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")) {
           if (c.stopping() || !c.send(std::string(1, byte))) return;
           c.pause(50ms);
         }
       },
       true},
      {"a status line and no more",
       [](Connection& c) {
         c.read_head();
         c.send("HTTP/1.1 200 OK\r\n");
         c.wait_for_close();
       },
       true},
      {"accepts and says nothing", [](Connection& c) { c.wait_for_close(); }, true},
      {"half a body",
       [](Connection& c) {
         c.read_head();
         c.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
         c.wait_for_close();
       },
       true},
      {"a body without end",
       [&large](Connection& c) {
         c.read_head();
         c.send("HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n");
         while (!c.stopping() && c.send(large)) {
         }
       },
       false},
      {"no HTTP",
       [](Connection& c) {
         c.read_head();
         c.send("garbage\r\n\r\n");
         c.wait_for_close();
       },
       false},
      {"a head, then a reset",
       [](Connection& c) {
         c.read_head();
         c.send("HTTP/1.1 200 OK\r\n\r\n");
         c.pause(20ms);
         c.reset_on_close();
       },
       false},
      {"closes without a byte", [](Connection& c) { c.read_head(); }, false},
  };
  for (const Case& one : cases) {
    INFO(one.name);
    const ScriptedServer server(one.script);
    MonitorScene scene({server.address()});
    scene.options.health_interval = 1h;
    HealthChecker checker(scene.loop, scene.timers, scene.options, *scene.backends, scene.events, scene.log);
    REQUIRE(scene.run_until([&] { return scene.backend().checked_at_ns != 0; }));
    CHECK_FALSE(scene.backend().healthy);
    CHECK(scene.backend().counters.probe_failures == 1);
    const std::int64_t took_us = scene.backend().check_us;
    if (one.at_deadline) {
      CHECK(took_us >= 450'000);
    } else {
      CHECK(took_us < 495'000);
    }
    CHECK(took_us < 1'500'000);
  }
}

TEST_CASE("one check at a time: ticks that find it running are skipped and counted") {
  const ScriptedServer server([](Connection& c) { c.wait_for_close(); });
  MonitorScene scene({server.address()});
  scene.options.monitor_timeout = 200ms;
  HealthChecker checker(scene.loop, scene.timers, scene.options, *scene.backends, scene.events, scene.log);
  REQUIRE(scene.run_until([&] { return scene.backend().counters.probe_failures == 2; }));
  CHECK(server.most_at_once() <= 2);  // the closed one may still be on its way out
  CHECK(scene.backend().counters.probes <= 3);
  CHECK(scene.backend().counters.probes_skipped >= 2);
}

TEST_CASE("a check is a GET of health-path with Host and without a body") {
  std::mutex mutex;
  std::string seen;
  const ScriptedServer server([&](Connection& c) {
    const std::string head = c.read_head();
    {
      const std::lock_guard lock(mutex);
      seen = head;
    }
    c.answer(200, "ok");
  });
  MonitorScene scene({server.address()});
  scene.options.health_path = "/healthz";
  HealthChecker checker(scene.loop, scene.timers, scene.options, *scene.backends, scene.events, scene.log);
  REQUIRE(scene.run_until([&] { return scene.backend().healthy.load(); }));
  const std::lock_guard lock(mutex);
  CHECK(seen.starts_with("GET /healthz HTTP/1.1\r\n"));
  CHECK_THAT(seen, Catch::Matchers::Contains("\r\nHost: " + server.address().to_string() + "\r\n"));
  CHECK_THAT(seen, !Catch::Matchers::Contains("Content-Length", Catch::CaseSensitive::No));
  CHECK_THAT(seen, !Catch::Matchers::Contains("Transfer-Encoding", Catch::CaseSensitive::No));
}

TEST_CASE("HEAD needs no body, TCP no answer") {
  const ScriptedServer head_server([](Connection& c) {
    if (c.read_head().starts_with("HEAD ")) c.send("HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n");
    c.wait_for_close();
  });
  MonitorScene head({head_server.address()});
  head.options.health_method_kind = HealthMethod::Head;
  HealthChecker head_checker(head.loop, head.timers, head.options, *head.backends, head.events, head.log);
  CHECK(head.run_until([&] { return head.backend().healthy.load(); }));

  const ScriptedServer silent([](Connection& c) { c.wait_for_close(); });
  MonitorScene tcp({silent.address()});
  tcp.options.health_method_kind = HealthMethod::Tcp;
  HealthChecker tcp_checker(tcp.loop, tcp.timers, tcp.options, *tcp.backends, tcp.events, tcp.log);
  CHECK(tcp.run_until([&] { return tcp.backend().healthy.load(); }));
}

TEST_CASE("failed connects take it out at once until a check that began later succeeds") {
  Switchable a;
  MonitorScene scene({a.server.address()});
  scene.options.health_interval = 400ms;
  scene.options.failure_limit = 2;
  HealthChecker checker(scene.loop, scene.timers, scene.options, *scene.backends, scene.events, scene.log);
  Backend& backend = scene.backend();
  REQUIRE(scene.run_until([&] { return backend.healthy.load(); }));

  checker.note_connect_failure(scene.backend(), ECONNREFUSED);
  CHECK(backend.healthy);
  checker.note_connect_success(scene.backend());
  checker.note_connect_failure(scene.backend(), ECONNREFUSED);
  CHECK(backend.healthy);  // not two in a row
  CHECK(backend.last_error.get().text ==
        "connect " + a.server.address().to_string() + ": ECONNREFUSED (Connection refused)");
  checker.note_connect_failure(scene.backend(), ECONNREFUSED);
  CHECK_FALSE(backend.healthy);
  CHECK_FALSE(backend.accepting);
  CHECK(backend.active_health == HealthState::Up);  // traffic doesn't move the active streak
  REQUIRE(scene.run_until([&] { return !scene.events.out.empty(); }));
  CHECK(scene.events.out == std::vector<std::uint32_t>{0});

  scene.events.capacity.clear();
  REQUIRE(scene.run_until([&] { return backend.healthy.load(); }));
  CHECK(backend.connect_failures_in_row == 0);
  CHECK(backend.counters.probe_failures == 0);
  CHECK(scene.events.capacity == std::vector<std::uint32_t>{0});
}

TEST_CASE("an answer is judged by its status, draining by its words") {
  CHECK(judge_answer(200, "").kind == CheckVerdict::Kind::Passed);
  CHECK(judge_answer(301, "").kind == CheckVerdict::Kind::Passed);
  CHECK(judge_answer(404, "").kind == CheckVerdict::Kind::Failed);
  CHECK(judge_answer(503, R"({"status":"unavailable"})").kind == CheckVerdict::Kind::Failed);
  CHECK(judge_answer(503, R"({"status":"draining"})").kind == CheckVerdict::Kind::Draining);
  CHECK(judge_answer(503, "draining").kind == CheckVerdict::Kind::Failed);
  CHECK(judge_answer(503, "").kind == CheckVerdict::Kind::Failed);
  CHECK(judge_answer(500, R"({"status":"draining"})").kind == CheckVerdict::Kind::Failed);
}

TEST_CASE("checks start at once, spread over the interval, and leave out what was missed") {
  const TimePoint start(1'000'000s);
  std::vector<TimePoint> seconds;
  for (std::uint32_t i = 0; i < 4; ++i) {
    ProbeSchedule schedule(start, 1s, i, 4);
    CHECK(schedule.next() == start);
    schedule.advance(start);
    CHECK(schedule.next() > start);
    CHECK(schedule.next() <= start + 1s);
    seconds.push_back(schedule.next());
    schedule.advance(schedule.next());
    CHECK(schedule.next() == seconds.back() + 1s);
    schedule.advance(schedule.next() + 3500ms);
    CHECK(schedule.next() == seconds.back() + 5s);
  }
  CHECK(seconds == std::vector<TimePoint>{start + 250ms, start + 500ms, start + 750ms, start + 1s});
}

TEST_CASE("a reload keeps streaks and health, checks new backends at once and forgets those that are gone") {
  Switchable a, b, c;
  a.status = 500;
  MonitorScene scene({a.server.address(), b.server.address()});
  scene.options.health_interval = 1h;
  HealthChecker checker(scene.loop, scene.timers, scene.options, *scene.backends, scene.events, scene.log);
  REQUIRE(scene.run_until([&] { return scene.backend(0).checked_at_ns != 0 && scene.backend(1).healthy; }));
  const std::int64_t checked = scene.backend(1).checked_at_ns;

  Options next = scene.options;
  next.backends.erase(next.backends.begin());
  next.backends.push_back(scene.options.backends[0]);
  next.backends.back().id = "new";
  next.backends.back().url = "http://" + c.server.address().to_string();
  next.backends.back().address = c.server.address();
  BackendChanges changes = change_backends(*scene.backends, scene.options, next, 1);
  checker.apply(next, changes.set);
  REQUIRE(scene.run_until([&] { return changes.set.at(2).healthy.load(); }));
  CHECK(scene.backend(1).healthy);
  CHECK(scene.backend(1).checked_at_ns == checked);  // its time has not come
  CHECK(changes.leaving == std::vector<std::uint32_t>{0});

  retire_backends(changes.set, changes.leaving, 2);
  next.health_interval = 5ms;
  checker.apply(next, changes.set);
  const std::uint64_t probes = scene.backend(0).counters.probes;
  REQUIRE(scene.run_until([&] { return changes.set.at(2).counters.probes > 5; }));
  CHECK(scene.backend(0).counters.probes == probes);
  CHECK(scene.backend(1).counters.probes > 1);  // the new interval
}

}  // namespace
}  // namespace dlb::lb
