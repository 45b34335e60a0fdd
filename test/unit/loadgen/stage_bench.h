// StageBench: one stage after the other against servers of a test, on a loop, a pool and a ledger of its own.
// A test sets `shape` (and `targets`), runs, and reads the recorder and what the stage said of itself.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "loadgen/stage.h"
#include "test/support/catch.h"

namespace dlb::loadgen::test {

struct StageBench {
  static constexpr Duration kPatience = std::chrono::seconds(20);

  explicit StageBench(const std::string& url, Duration timeout = kPatience, Duration read_delay = {})
      : StageBench(std::vector<std::string>{url}, timeout, read_delay) {}
  // Without urls there is room for one target, which has to be there before run().
  explicit StageBench(const std::vector<std::string>& urls, Duration timeout = kPatience,
                      Duration read_delay = {})
      : context(loop, timeout, read_delay), pool(context, 1000, std::max<std::size_t>(urls.size(), 1)) {
    for (const std::string& url : urls) {
      auto target = parse_target(url);
      REQUIRE(target.has_value());
      targets.push_back(*target);
    }
  }

  // Runs one stage to its end, or abandons it as soon as `enough`, asked once a turn, says so. Every planned
  // operation must have come to lie in one bucket.
  const Recorder& run(const std::function<bool(const Stage&)>& enough = {}) {
    recorder = std::make_unique<Recorder>();
    Stage stage(shape, targets, loop, pool, *recorder, ledger);
    stage.start();
    while (!(enough && enough(stage)) && !stage.done()) loop.run_once(std::chrono::milliseconds(50));
    if (!stage.done()) stage.abandon();
    elapsed = stage.ended_at() - stage.started_at();
    hit_window = stage.hit_window();
    if (shape.cool_down > Duration::zero()) {
      REQUIRE(stage.counting().uncounted() != nullptr);
      uncounted = stage.counting().uncounted()->done();
    }
    recorder->close();
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < kBuckets; ++i) sum += recorder->in(static_cast<Bucket>(i));
    CHECK(sum == recorder->planned());
    return *recorder;
  }

  EventLoop loop;
  ConnectionContext context;
  ConnectionPool pool;
  std::vector<Target> targets;
  Ledger ledger;
  StageShape shape;
  // Of the last run.
  std::unique_ptr<Recorder> recorder;
  Duration elapsed{};
  bool hit_window = false;
  std::uint64_t uncounted = 0;  // operations of its cool-down
};

}  // namespace dlb::loadgen::test
