// Intended send times: fixed by rate, pattern and seed alone.
#include "loadgen/schedule.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/histogram.h"
#include "test/support/catch.h"

namespace dlb::loadgen {
namespace {

std::vector<Duration> first_times(Schedule schedule, std::size_t count) {
  std::vector<Duration> times;
  for (std::size_t i = 0; i < count; ++i) times.push_back(schedule.next());
  return times;
}

TEST_CASE("schedule: even times stand at their number over the rate, without drift") {
  for (const double rate : {0.5, 3.0, 700.0, 1e6 / 7}) {
    Schedule schedule(rate, Arrival::Even, 1);
    for (int i = 0; i < 1'000'000; ++i) {
      const double expected = i * (1e9 / rate);
      const double off = static_cast<double>(schedule.next().count()) - expected;
      if (std::abs(off) > 1) {
        FAIL("operation " << i << " at rate " << rate << " is " << off << " ns off");
      }
    }
  }
  CHECK(first_times(Schedule(1000, Arrival::Even, 1), 3) ==
        std::vector<Duration>{Duration(0), Duration(1'000'000), Duration(2'000'000)});
}

TEST_CASE("schedule: Poisson gaps have the mean and the spread of an exponential") {
  constexpr int kCount = 200'000;
  constexpr double kRate = 2000;
  Schedule schedule(kRate, Arrival::Poisson, 42);
  Duration before{};
  double square_sum = 0;
  int longer_than_mean = 0;
  for (int i = 0; i < kCount; ++i) {
    const Duration at = schedule.next();
    REQUIRE(at >= before);
    const double gap = seconds(at - before) * kRate;  // in means
    square_sum += gap * gap;
    if (gap > 1) ++longer_than_mean;
    before = at;
  }
  // The seed is fixed, so these are no chances: five standard deviations of what any seed would give.
  CHECK(std::abs(seconds(before) * kRate / kCount - 1) < 0.012);
  CHECK(std::abs(square_sum / kCount - 2) < 0.06);
  CHECK(std::abs(longer_than_mean / double{kCount} - std::exp(-1)) < 0.006);
}

TEST_CASE("schedule: the same seed gives the same times, another one others") {
  const auto once = first_times(Schedule(100, Arrival::Poisson, 7), 100);
  CHECK(first_times(Schedule(100, Arrival::Poisson, 7), 100) == once);
  CHECK(first_times(Schedule(100, Arrival::Poisson, 8), 100) != once);
}

// An M/M/1 queue in virtual time: what the open model must report of a server whose latency is known by
// theory, a mean of 1/(mu - lambda) and exponential around it.
TEST_CASE("schedule: Poisson arrivals at one exponential server have the latencies of an M/M/1 queue") {
  constexpr int kCount = 400'000;
  constexpr double kArrivals = 200;  // a second
  constexpr double kServed = 350;
  Schedule schedule(kArrivals, Arrival::Poisson, 11);
  Rng rng(12);
  Histogram latency_us;
  Duration free_at{};
  for (int i = 0; i < kCount; ++i) {
    const Duration intended = schedule.next();
    const auto service = static_cast<Duration::rep>(-1e9 / kServed * std::log1p(-rng.unit()));
    free_at = std::max(free_at, intended) + Duration(service);
    latency_us.record(static_cast<std::uint64_t>((free_at - intended).count()) / 1000);
  }
  const double mean_us = 1e6 / (kServed - kArrivals);
  CHECK(std::abs(latency_us.mean() / mean_us - 1) < 0.03);
  for (const double percent : {50.0, 90.0, 99.0}) {
    INFO("p" << percent);
    const double theory = -std::log(1 - percent / 100) * mean_us;
    CHECK(std::abs(static_cast<double>(latency_us.percentile(percent)) / theory - 1) < 0.05);
  }
}

}  // namespace
}  // namespace dlb::loadgen
