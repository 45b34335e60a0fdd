// The open model: every operation of the schedule is taken up at its time, whatever the answers do.
#include "loadgen/open_loop.h"

#include <memory>
#include <set>

#include "loadgen/soundness.h"
#include "test/support/catch.h"
#include "test/unit/loadgen/scripted_server.h"
#include "test/unit/loadgen/stage_bench.h"

namespace dlb::loadgen::test {
namespace {

using std::chrono::milliseconds;

struct OpenBench : StageBench {
  explicit OpenBench(const std::string& url) : StageBench(url) {
    shape.payload.users = 5;
    shape.requests = 40;
    shape.open.rate = 2000;
  }
};

Reply ok_reply(const Received&) { return Reply{{response(201)}, Reply::Then::Keep, {}}; }

TEST_CASE("open model: all of the plan is performed once, with the bytes of the closed model") {
  std::set<std::string> sent[2];
  for (const bool open : {false, true}) {
    ScriptedServer server(ok_reply);
    OpenBench bench(server.url());
    bench.targets[0].host = "same";
    bench.shape.payload.seed = 11;
    bench.shape.open.arrival = Arrival::Poisson;
    if (!open) bench.shape.open.rate = 0;
    const Recorder& recorder = bench.run();
    CHECK(recorder.planned() == 40);
    CHECK(recorder.in(Bucket::Ok) == 40);
    CHECK(recorder.of(OperationClass::Message).intended_us.count() == (open ? 40 : 0));
    CHECK(recorder.schedule_lag_us().count() == (open ? 40 : 0));
    for (const std::string& request : server.requests()) sent[open ? 1 : 0].insert(request);
  }
  CHECK(sent[0].size() == 40);
  CHECK(sent[0] == sent[1]);
}

TEST_CASE("open model: with a duration the plan is what was intended within it") {
  ScriptedServer server(ok_reply);
  OpenBench bench(server.url());
  bench.shape.requests = 0;
  bench.shape.duration = milliseconds(50);
  const Recorder& recorder = bench.run();
  CHECK(recorder.planned() == 100);
  // A machine that pauses leaves some waiting at the end of the time.
  CHECK(recorder.in(Bucket::Ok) + recorder.not_issued() == 100);
  CHECK(recorder.in(Bucket::Ok) > 0);
}

TEST_CASE("open model: what waits for a user counts from its intended time") {
  ScriptedServer server([](const Received&) {
    return Reply{{response(201)}, Reply::Then::Keep, milliseconds(20)};
  });
  OpenBench bench(server.url());
  bench.shape.payload.users = 1;
  bench.shape.requests = 6;
  const Recorder& recorder = bench.run();
  const ClassTotals& messages = recorder.of(OperationClass::Message);
  CHECK(messages.in(Bucket::Ok) == 6);
  CHECK(messages.latency_us.min() >= 20'000);
  // The sixth was to begin 2.5 ms after the first and did so when five had been answered.
  CHECK(messages.intended_us.max() >= 6 * 20'000 - 2'500);
  CHECK(messages.intended_us.mean() > messages.latency_us.mean());
}

TEST_CASE("open model: over the bound of the queue an operation is not issued") {
  ScriptedServer server([](const Received&) { return Reply{{}, Reply::Then::Hang, {}}; });
  OpenBench bench(server.url());
  bench.shape.payload.users = 1;
  bench.shape.requests = 9;
  bench.shape.open.queue_max = 3;
  const Recorder& recorder = bench.run([&](const Stage&) { return bench.recorder->queue_full() == 5; });
  CHECK(recorder.in(Bucket::Interrupted) == 1);
  CHECK(recorder.not_issued() == 8);
  CHECK(recorder.planned() == 9);
}

TEST_CASE("open model: more users than operations, and a server that isn't there, end too") {
  OpenBench bench("http://127.0.0.1:" + std::to_string(closed_port()));
  bench.shape.payload.users = 8;
  bench.shape.requests = 3;
  CHECK(bench.run().in(Bucket::Connect) == 3);
}

TEST_CASE("open model: abandoned, what was taken up is the plan without a number of requests") {
  ScriptedServer server([](const Received&) { return Reply{{}, Reply::Then::Hang, {}}; });
  OpenBench bench(server.url());
  bench.shape.requests = 0;
  bench.shape.duration = std::chrono::hours(1);
  const Recorder& recorder = bench.run([&](const Stage&) { return bench.recorder->planned() >= 20; });
  CHECK(recorder.in(Bucket::Interrupted) == 5);
  CHECK(recorder.not_issued() == recorder.planned() - 5);
}

TEST_CASE("a run is invalid when its generator was late or busy, and only then") {
  using std::chrono::seconds;
  Recorder recorder;
  OperationResult r;
  r.latency = milliseconds(50);
  const auto operations = [&](int count, Duration lag) {
    for (int i = 0; i < count; ++i) {
      recorder.taken_up(lag);
      recorder.issued(r.operation_class);
      r.backend = kNoBackend;
      recorder.record(r);
    }
  };
  operations(990, Duration::zero());
  CHECK(invalid_reasons(recorder, {8.9, seconds(10)}).empty());
  CHECK(invalid_reasons(recorder, {9.1, seconds(10)}).size() == 1);
  CHECK(invalid_reasons(recorder, {0.9, milliseconds(900)}).empty());  // too short to be judged
  operations(5, milliseconds(500));
  CHECK(invalid_reasons(recorder, {1, seconds(10)}).empty());  // fewer than one in a hundred
  operations(10, milliseconds(9));
  CHECK(invalid_reasons(recorder, {1, seconds(10)}).empty());
  operations(20, milliseconds(12));
  CHECK(invalid_reasons(recorder, {1, seconds(10)}).size() == 1);
  r.latency = milliseconds(200);
  operations(100, Duration::zero());
  CHECK(invalid_reasons(recorder, {1, seconds(10)}).empty());  // a lag of 12 ms does not matter to 200 ms
}

TEST_CASE("invalid: a generator that was kept waiting for a core, when it mattered") {
  using std::chrono::seconds;
  const auto recorder = std::make_unique<Recorder>();
  OperationResult result;
  result.backend = kNoBackend;
  result.latency = milliseconds(20);
  for (int i = 0; i < 100; ++i) {
    recorder->issued(result.operation_class);
    recorder->record(result);
  }
  const auto reasons = [&](Duration waited, std::uint64_t times, Duration elapsed) {
    return invalid_reasons(*recorder, {0.1, elapsed, {waited, times}});
  };
  CHECK(reasons(milliseconds(600), 100, seconds(2)).size() == 1);  // 6 ms of 20
  CHECK(reasons(milliseconds(600), 100, seconds(2)).front().find("for a core 6.0 ms each time") !=
        std::string::npos);
  CHECK(reasons(milliseconds(400), 100, seconds(2)).empty());         // 4 ms of 20
  CHECK(reasons(milliseconds(600), 100, milliseconds(900)).empty());  // too short to be judged
  CHECK(reasons(milliseconds(600), 40, seconds(2)).empty());          // it seldom ran
  CHECK(reasons(milliseconds(1900), 1000, seconds(2)).empty());       // each time short
  CHECK(reasons({}, 0, seconds(2)).empty());                          // a kernel that doesn't count
}

}  // namespace
}  // namespace dlb::loadgen::test
