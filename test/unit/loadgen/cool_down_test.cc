// The cool-down: the load goes on behind the counted operations, and counts for nothing but the ledger.
#include <functional>
#include <optional>

#include "test/support/catch.h"
#include "test/unit/loadgen/scripted_server.h"
#include "test/unit/loadgen/stage_bench.h"

namespace dlb::loadgen::test {
namespace {

using std::chrono::milliseconds;

Reply after_a_moment(const Received&) { return Reply{{response(201)}, Reply::Then::Keep, milliseconds(1)}; }

struct CoolBench : StageBench {
  explicit CoolBench(const std::string& url) : StageBench(url) {
    shape.payload.users = 4;
    shape.cool_down = milliseconds(80);
  }

  // Nothing is counted as issued behind the end of counting.
  const Recorder& run(const std::function<bool(const Stage&)>& enough = {}) {
    std::optional<std::uint64_t> issued_at_stop;
    return StageBench::run([&](const Stage& stage) {
      if (stage.counting().stopped()) {
        if (!issued_at_stop) issued_at_stop = recorder->issued_count();
        CHECK(recorder->issued_count() == *issued_at_stop);
      }
      return enough && enough(stage);
    });
  }
};

TEST_CASE("cool-down: behind a duration the load goes on, and only what began within it counts") {
  ScriptedServer server(after_a_moment);
  CoolBench bench(server.url());
  bench.shape.duration = milliseconds(60);
  SECTION("closed model") {
    bench.run();
    CHECK(bench.recorder->planned() == bench.recorder->in(Bucket::Ok));
  }
  SECTION("open model: the plan is what was intended within it, not at its very end") {
    bench.shape.open.rate = 1000;
    bench.run();
    CHECK(bench.recorder->planned() == 60);
    CHECK(bench.recorder->schedule_lag_us().count() == 60);
    CHECK(bench.recorder->in(Bucket::Ok) + bench.recorder->in(Bucket::NotIssued) == 60);
  }
  const ClassTotals& totals = bench.recorder->of(OperationClass::Message);
  CHECK(totals.latency_us.count() == totals.in(Bucket::Ok));
  CHECK(totals.in(Bucket::Ok) > 0);
  CHECK(bench.uncounted > 0);
  CHECK(server.requests().size() == totals.in(Bucket::Ok) + bench.uncounted);
  CHECK(bench.ledger.accepted() == server.requests().size());
}

TEST_CASE("cool-down: behind a plan by number it begins with the last planned operation") {
  ScriptedServer server(after_a_moment);
  CoolBench bench(server.url());
  bench.shape.requests = 21;
  bench.shape.open.rate = GENERATE(0, 1000);
  const Recorder& recorder = bench.run();
  CHECK(recorder.planned() == 21);
  CHECK(recorder.in(Bucket::Ok) == 21);
  CHECK(recorder.of(OperationClass::Message).latency_us.count() == 21);
  CHECK(bench.uncounted > 0);
  CHECK(bench.ledger.accepted() == 21 + bench.uncounted);
  CHECK(server.requests().size() == 21 + bench.uncounted);
}

TEST_CASE("cool-down: a slow operation begun before the end is counted with its whole latency") {
  ScriptedServer server([](const Received& r) {
    return Reply{{response(201)}, Reply::Then::Keep, milliseconds(r.number == 0 ? 250 : 1)};
  });
  CoolBench bench(server.url());
  bench.shape.duration = milliseconds(30);
  bench.shape.cool_down = std::chrono::hours(1);
  bench.shape.open.rate = GENERATE(0, 1000);
  const Recorder& recorder = bench.run([](const Stage& stage) { return stage.counted_done(); });
  CHECK(recorder.in(Bucket::Interrupted) == 0);  // those cut in the cool-down are uncounted
  CHECK(recorder.of(OperationClass::Message).latency_us.max() >= 250'000);
  CHECK(bench.elapsed >= milliseconds(250));
  CHECK(bench.uncounted > 4);  // the load went on meanwhile
}

TEST_CASE("cool-down: behind an issue window, what was not issued within it never is") {
  ScriptedServer server(after_a_moment);
  CoolBench bench(server.url());
  bench.shape.requests = 1'000'000;
  bench.shape.issue_window = milliseconds(40);
  bench.shape.open.rate = GENERATE(0, 1000);
  const Recorder& recorder = bench.run();
  CHECK(bench.hit_window);
  CHECK(recorder.in(Bucket::Ok) + recorder.in(Bucket::NotIssued) == 1'000'000);
  CHECK(recorder.in(Bucket::Ok) > 0);
  CHECK(bench.uncounted > 0);
  if (bench.shape.open.rate > 0) CHECK(recorder.schedule_lag_us().count() == 40);
}

TEST_CASE("cool-down: operations that found the queue full don't hold up its begin") {
  ScriptedServer server([](const Received&) {
    return Reply{{response(201)}, Reply::Then::Keep, milliseconds(10)};
  });
  CoolBench bench(server.url());
  bench.shape.payload.users = 1;
  bench.shape.requests = 50;
  bench.shape.open.rate = 1000;
  bench.shape.open.queue_max = 0;
  const Recorder& recorder = bench.run();
  CHECK(recorder.in(Bucket::NotIssued) == recorder.queue_full());
  CHECK(recorder.in(Bucket::Ok) + recorder.queue_full() == 50);
  CHECK(recorder.queue_full() > 0);
  CHECK(bench.uncounted > 0);
}

}  // namespace
}  // namespace dlb::loadgen::test
