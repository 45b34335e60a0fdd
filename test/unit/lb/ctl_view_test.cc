#include "lb/ctl_view.h"

#include <string>

#include "test/support/catch.h"

namespace dlb::lb {
namespace {

constexpr std::string_view kStatus = R"({"status":"ok","version":"1.2","pid":7,"uptime_seconds":3700.5,
  "predecessor_drains":true,"policy":"score","configuration":{"generation":4},"backends":[
  {"id":"sys2","url":"http://a","state":"ready","in_flight":12,"weight":1,"score":3.25,"latency_ms":0,
   "cpu_percent":null,"memory":{"unreclaimable_percent":41.6},"last_error":null,
   "counters":{"requests":1234567,"responses":{"5xx":2},"failures":{"timeout":1,"reset":1,"bad_response":1,"connect":9}}},
  {"id":"a-longer-name","url":"http://b","state":"draining","in_flight":0,"weight":65535,"score":115,"latency_ms":1.5,
   "last_error":{"text":"bad \u001b[31m thing","at":"2026-01-01T00:00:00Z"}}]})";

TEST_CASE("a status as a table") {
  const auto status = read_ctl_status(kStatus);
  REQUIRE(status.has_value());
  CHECK(show_status(*status) ==
        "ok · policy score · up 1 h 1 min · configuration 4 · pid 7 · dlb 1.2 · the process before it still "
        "drains\n"
        "BACKEND        STATE     IN-FLIGHT  WEIGHT  SCORE  LATENCY  CPU  MEMORY  REQUESTS  FAILED\n"
        "sys2           ready            12       1    3.2   0.0 ms    -    42 %   1234567       5\n"
        "a-longer-name  draining          0   65535  115.0   1.5 ms    -       -         0       0\n"
        "a-longer-name: last error at 2026-01-01T00:00:00Z: bad ?[31m thing\n");
}

TEST_CASE(
    "autoscaling in a status: how many there are to be, how many there are, and why that has changed last") {
  const auto shown = [](std::string_view autoscale) {
    const auto status = read_ctl_status(R"({"status":"ok","version":"1","backends":[],"autoscale":)" +
                                        std::string(autoscale) + "}");
    REQUIRE(status.has_value());
    const std::string text = show_status(*status);
    const std::size_t begin = text.find('\n') + 1;
    return text.substr(begin, text.find("BACKEND") - begin);
  };
  CHECK(shown("null").empty());
  CHECK(shown(R"({"min":1,"max":8,"desired":1,"running":0,"pressed":false,"last":{"action":"","instance":"",
      "reason":"","at":null},"problem":null,"instances":[]})") ==
        "autoscale · 1 wanted of 1 to 8 · 0 running\n");
  CHECK(
      shown(R"({"min":1,"max":8,"desired":4,"running":5,"pressed":true,"last":{"action":"start",
      "instance":"auto-7004","reason":"all have been at\u001b capacity for 2 s","at":"2026-01-01T00:00:00Z"},
      "problem":"all ports of 7001-7005 are taken, by instances or by others","instances":[
      {"id":"auto-7001","phase":"serving","rests":false},{"id":"auto-7002","phase":"serving","rests":true},
      {"id":"auto-7003","phase":"starting","rests":false},{"id":"auto-7004","phase":"draining"},{}]})") ==
      "autoscale · 4 wanted of 1 to 8 · 5 running (2 serving, 1 starting, 1 draining, 1 resting) · at "
      "capacity · "
      "last at 2026-01-01T00:00:00Z: start auto-7004, all have been at? capacity for 2 s\n"
      "autoscale: no instance can be started: all ports of 7001-7005 are taken, by instances or by others\n");
}

TEST_CASE("what is no balancer's answer is told from one") {
  for (const char* text : {"", "ok", "[]", "{}", "{\"backends\":", "<html>"}) {
    CHECK_FALSE(read_ctl_status(text).has_value());
    CHECK_FALSE(read_ctl_backend(text).has_value());
    CHECK_FALSE(read_ctl_reload(text).has_value());
    CHECK(read_ctl_error(text).code.empty());
  }
  for (const char* text :
       {R"({"backends":{}})", R"({"backends":[1,null]})", R"({"backends":[{"id":"a"},[]]})"})
    CHECK_FALSE(read_ctl_status(text).has_value());
  CHECK(read_ctl_error(R"({"error":"x","detail":"y\nz"})").detail == "y?z");
  CHECK(read_ctl_error(R"({"error":"x","detail":"\u009b31m\u0080\u007f\u00a0é"})").detail == "?31m??\u00a0é");
}

TEST_CASE("a reload for people") {
  const auto quiet = read_ctl_reload(R"({"generation":2,"changed":[],"needs_restart":[]})");
  REQUIRE(quiet.has_value());
  CHECK(show_reload(*quiet) == "reloaded: configuration 2, changed: nothing\n");
  const auto more = read_ctl_reload(
      R"({"generation":3,"changed":["a","b"],"needs_restart":["listen"],"backends_added":1,"backends_leaving":2})");
  REQUIRE(more.has_value());
  CHECK(show_reload(*more) ==
        "reloaded: configuration 3, changed: a, b; backends: 1 new, 2 leaving\n"
        "these stay as they are until a restart: listen\n");
}

}  // namespace
}  // namespace dlb::lb
