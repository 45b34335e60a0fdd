#include "lb/policy/latency_average.h"

#include <cmath>
#include <thread>
#include <vector>

#include "common/rng.h"
#include "test/support/catch.h"

namespace dlb::lb {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint at(Duration since_start) { return TimePoint(1'000'000s + since_start); }

struct Average {
  std::atomic<double> us{0};
  std::atomic<std::int64_t> at_ns{0};
  void add(Duration sample, TimePoint now) { add_latency(us, at_ns, sample, now); }
  double read(TimePoint now) const { return read_latency(us, at_ns, now); }
};

TEST_CASE("the first sample is the average") {
  Average average;
  CHECK(average.read(at(0s)) == 0);
  average.add(80ms, at(0s));
  CHECK(average.read(at(0s)) == Approx(80'000));
}

TEST_CASE("without samples the average halves every 5 s") {
  Average average;
  average.add(2s, at(0s));
  CHECK(average.read(at(5s)) == Approx(1'000'000));
  CHECK(average.read(at(10s)) == Approx(500'000));
  CHECK(average.read(at(60s)) < 1'000);
}

TEST_CASE("one slow request is outweighed by what follows") {
  Average average;
  average.add(2s, at(0s));
  for (int i = 1; i <= 100; ++i) average.add(1ms, at(i * 100ms));
  // 10 s on: a quarter of the old, three quarters of the new.
  CHECK(average.read(at(10s)) == Approx(0.25 * 2'000'000 + 0.75 * 1'000).epsilon(0.001));
}

TEST_CASE("steady samples give their value, at any rate") {
  for (const Duration gap : {Duration(100us), Duration(10ms), Duration(3s)}) {
    Average average;
    Duration t = 0s;
    while (t < 60s) {
      average.add(30ms, at(t));
      t += gap;
    }
    CHECK(average.read(at(t - gap)) == Approx(30'000).epsilon(0.001));
  }
}

TEST_CASE("samples of one instant, or from another worker's past, do no harm") {
  Average average;
  average.add(10ms, at(1s));
  average.add(5s, at(1s));
  average.add(5s, at(500ms));
  CHECK(average.read(at(1s)) == Approx(10'000));
  CHECK(average.read(at(500ms)) == Approx(10'000));  // a reader a little behind
}

TEST_CASE("several workers at once: always between nothing and the largest sample") {
  Average average;
  std::atomic<bool> stop{false};
  std::atomic<bool> wrong{false};
  std::vector<std::thread> threads;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    threads.emplace_back([&, seed] {
      Rng rng(seed);
      for (int i = 0; i < 100'000; ++i) {
        average.add(std::chrono::microseconds(rng.below(1'000'000)), at(i * 50us + seed * 7us));
      }
    });
  }
  std::thread reader([&] {
    for (int i = 0; !stop.load(); ++i) {
      const double value = average.read(at(i % 5'000 * 1ms));
      if (!(value >= 0 && value <= 1'000'000)) wrong.store(true);
    }
  });
  for (std::thread& thread : threads) thread.join();
  stop.store(true);
  reader.join();
  CHECK_FALSE(wrong.load());
  CHECK(average.read(at(5s)) > 0);
}

}  // namespace
}  // namespace dlb::lb
