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
