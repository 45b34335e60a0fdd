// The sampler before servers that hang, break off, or are something else: bounded, counted, one query at a
// time.
#include "loadgen/sampler.h"

#include <algorithm>

#include "test/support/catch.h"
#include "test/unit/loadgen/scripted_server.h"

namespace dlb::loadgen::test {
namespace {

using std::chrono::milliseconds;

constexpr Duration kLimit = std::chrono::seconds(30);

struct Rows final : SampleSink {
  void on_sample(const MetricsRow& row) override {
    lines.push_back(std::string(row.name) + " " + std::string(row.source) + " " + std::string(row.stage));
  }
  std::vector<std::string> lines;
};

// Balancer and backend sys2 in one. From the `trouble_from`-th time /lb/metrics is asked for, it has trouble.
struct System {
  explicit System(Reply in_trouble, int trouble_from)
      : trouble(std::move(in_trouble)), server([this, trouble_from](const Received& r) {
          const auto is = [&](std::string_view path) {
            return r.text.starts_with("GET " + std::string(path) + " ");
          };
          if (is("/lb/status")) {
            return Reply{{response(
                200, R"({"policy":"x","backends":[{"id":"sys2","url":")" + server.url() + "\"}]}")}};
          }
          if (is("/lb/metrics") && ++asked >= trouble_from) return trouble;
          if (is("/lb/metrics")) return Reply{{response(200, R"({"sys1":{"cpu_percent":1},"backends":[]})")}};
          if (is("/internal/stats"))
            return Reply{{response(200, R"({"backend-id":"sys2","cpu_percent":2})")}};
          if (is("/metrics?format=json")) return Reply{{response(200, R"({"process":{"cpu_seconds":1}})")}};
          return Reply{{response(404)}};
        }) {}

  SamplerPlan plan() const {
    SamplerPlan plan;
    plan.interval = milliseconds(10);
    plan.patience = milliseconds(500);
    plan.balancer = *parse_target(server.url());
    return plan;
  }

  Reply trouble;
  std::atomic<int> asked{0};
  ScriptedServer server;
};

template <class Done>
void drive(EventLoop& loop, Done done) {
  const TimePoint until = monotonic_now() + kLimit;
  while (!done() && monotonic_now() < until) loop.run_once(milliseconds(20));
  REQUIRE(done());
}

TEST_CASE("sampler: a balancer that hangs misses samples, has one query at a time, and stops nobody else") {
  System system(Reply{{}, Reply::Then::Hang}, 3);
  EventLoop loop;
  bool stop = false;
  Sampler sampler(loop, system.plan());
  sampler.discover(stop);
  REQUIRE(sampler.systems().size() == 2);
  Rows rows;
  sampler.begin(&rows, stop);
  sampler.set_stage("measured");
  drive(loop,
        [&] { return sampler.systems()[0].missed_samples() >= 3 && sampler.systems()[1].samples() >= 4; });
  CHECK(system.asked == 3);  // to find it, the first sample, and the one that hangs
  CHECK(sampler.systems()[0].samples() == 1);
  CHECK(std::count(rows.lines.begin(), rows.lines.end(), "Sys1 missed measured") >= 3);
  CHECK(std::count(rows.lines.begin(), rows.lines.end(), "Sys2 direct measured") >= 3);
  stop = true;
  sampler.finish(stop);
}

TEST_CASE("sampler: what breaks off or is no answer is missed, and asked again") {
  const Reply trouble =
      GENERATE(Reply{{"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{"}, Reply::Then::Close},
               Reply{{}, Reply::Then::Reset}, Reply{{response(503)}, Reply::Then::Keep},
               Reply{{response(200, "[]")}, Reply::Then::Close});
  System system(trouble, 3);
  EventLoop loop;
  const bool stop = false;
  Sampler sampler(loop, system.plan());
  sampler.discover(stop);
  sampler.begin(nullptr, stop);
  drive(loop, [&] { return sampler.systems()[0].missed_samples() >= 3; });
  CHECK(system.asked >= 5);
  CHECK(sampler.systems()[0].samples() == 1);
}

TEST_CASE("sampler: a server that is no balancer is asked once, and no more") {
  ScriptedServer server([](const Received&) {
    return Reply{{response(200, "<html>")}, Reply::Then::Keep, {}};
  });
  EventLoop loop;
  const bool stop = false;
  SamplerPlan plan;
  plan.balancer = *parse_target(server.url());
  Sampler sampler(loop, std::move(plan));
  sampler.discover(stop);
  CHECK_FALSE(sampler.present());
  sampler.begin(nullptr, stop);
  sampler.finish(stop);
  CHECK(server.requests().size() == 1);
}

TEST_CASE("sampler: backends that are given are theirs by name, also without a balancer") {
  System system(Reply{}, 1000);
  EventLoop loop;
  const bool stop = false;
  SamplerPlan plan = system.plan();
  plan.balancer.reset();
  plan.backends = {{"b10", *parse_target(system.server.url())},
                   {"b9", *parse_target("http://127.0.0.1:" + std::to_string(closed_port()))}};
  Sampler sampler(loop, std::move(plan));
  sampler.discover(stop);
  sampler.begin(nullptr, stop);
  sampler.finish(stop);
  const auto& systems = sampler.systems();
  REQUIRE(systems.size() == 2);
  CHECK(systems[0].name() == "Sys2");
  CHECK(systems[0].id() == "b9");
  CHECK(systems[0].samples() == 0);
  CHECK(systems[0].missed_samples() == 2);
  CHECK(systems[1].name() == "Sys3");
  CHECK(systems[1].samples() == 2);
}

}  // namespace
}  // namespace dlb::loadgen::test
