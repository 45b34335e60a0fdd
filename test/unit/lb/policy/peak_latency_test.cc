#include "lb/policy/peak_latency.h"

#include "lb/policy/veto.h"
#include "test/support/catch.h"

namespace dlb::lb {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint at(Duration since_start) { return TimePoint(1'000'000s + since_start); }

struct Peak {
  std::atomic<double> us{0};
  std::atomic<std::int64_t> at_ns{0};
  void add(double sample_us, Duration when, Duration rise = 0s) {
    add_peak(us, at_ns, sample_us, at(when), rise);
  }
  double read(Duration when) const { return read_peak(us, at_ns, at(when)); }
};

TEST_CASE("peak: up at once, down with a half-life of 5 s, to nothing when no sample comes") {
  Peak peak;
  peak.add(100, 0s);
  peak.add(1000, 1ms);
  CHECK(peak.read(1ms) == 1000);
  CHECK(peak.read(5001ms) == Approx(500));
  peak.add(100, 5001ms);
  CHECK(peak.read(5001ms) == Approx(300));  // half way from what was left of it to the sample
  CHECK(peak.read(60s) < 1);
}

TEST_CASE("peak: with a rise one outlier of many moves it little, a row of them all the way") {
  Peak peak;
  for (int i = 0; i < 100; ++i) peak.add(100, i * 10ms, 500ms);
  CHECK(peak.read(990ms) == Approx(100));
  peak.add(1000, 1s, 500ms);
  CHECK(peak.read(1s) < 120);
  for (int i = 1; i < 200; ++i) peak.add(1000, 1s + i * 10ms, 500ms);
  CHECK(peak.read(2990ms) > 900);
  Peak sparse;
  sparse.add(100, 0s, 500ms);
  sparse.add(1000, 5s, 500ms);  // the only news of five seconds
  CHECK(sparse.read(5s) > 990);
}

TEST_CASE("peak: several samples of one instant leave the largest at least when it is taken at once") {
  Peak peak;
  for (const double sample : {10.0, 50.0, 20.0}) peak.add(sample, 1s);
  CHECK(peak.read(1s) == 50);
  peak.add(5, 1s, 500ms);
  peak.add(500, 1s, 500ms);
  CHECK(peak.read(1s) == 50);
}

TEST_CASE("slow start: from a tenth to all of its weight in 10 s") {
  const std::int64_t since = at(0s).time_since_epoch().count();
  CHECK(slow_start_share(0, at(0s)) == 1);
  CHECK(slow_start_share(since, at(0s)) == Approx(0.1));
  CHECK(slow_start_share(since, at(5s)) == Approx(0.5));
  CHECK(slow_start_share(since, at(10s)) == 1);
  CHECK(slow_start_share(since, at(-1s)) == Approx(0.1));  // another worker's turn may be ahead
}

TEST_CASE("veto: a term over the threshold that stands out, with hysteresis on both") {
  const Score pool{.cpu = 30, .in_flight = 30, .latency = 30};
  CHECK(next_veto(0, {.cpu = 75}, pool, 75) == kVetoCpu);
  CHECK(next_veto(0, {.cpu = 74, .in_flight = 90, .latency = 80}, pool, 75) ==
        (kVetoInFlight | kVetoLatency));
  CHECK(next_veto(kVetoCpu, {.cpu = 66}, pool, 75) == kVetoCpu);
  CHECK(next_veto(kVetoCpu, {.cpu = 65}, pool, 75) == 0);
  // All are busy: nobody is left out, and whoever was comes back.
  const Score busy{.cpu = 70, .in_flight = 70, .latency = 70};
  CHECK(next_veto(0, {.cpu = 100}, busy, 75) == 0);
  CHECK(next_veto(kVetoCpu, {.cpu = 100}, busy, 75) == 0);
}

TEST_CASE("veto: in a small pool too, one stands out from the others") {
  const int others = GENERATE(1, 2, 3);
  ScoreSum all;
  const Score hot{.cpu = 100};
  for (int i = 0; i < others; ++i) all.add({.cpu = 40});
  all.add(hot);
  CHECK(next_veto(0, hot, all.without(hot).mean(), 75) == kVetoCpu);
  CHECK(next_veto(0, {.cpu = 40}, all.without({.cpu = 40}).mean(), 75) == 0);
}

TEST_CASE("veto: alone there are no others") {
  ScoreSum all;
  all.add({.cpu = 100});
  CHECK(all.without({.cpu = 100}).empty());
}

}  // namespace
}  // namespace dlb::lb
