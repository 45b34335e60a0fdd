// That nothing is called a difference which is none, counted over thousands of simulated pairs, and that real
// ones are found.
#include "loadgen/compare_stats.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "common/rng.h"
#include "test/support/catch.h"

namespace dlb::loadgen {
namespace {

double normal(Rng& rng) {
  const double u = 1 - rng.unit();
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * rng.unit());
}

// A run's latency: spread from run to run, and now and then one that the machine spoilt.
double run_latency(Rng& rng, double spread, double factor) {
  const double spoilt = rng.below(10) == 0 ? 0.5 : 0;
  return 10 * factor * std::exp(spread * normal(rng) + spoilt);
}

std::vector<double> runs(Rng& rng, std::size_t count, double spread, double factor = 1) {
  std::vector<double> values;
  for (std::size_t i = 0; i < count; ++i) values.push_back(run_latency(rng, spread, factor));
  return values;
}

// Seconds that depend on the one before, as a queue's do.
std::vector<double> seconds(Rng& rng, std::size_t count, double memory, double factor = 1) {
  std::vector<double> values;
  double state = normal(rng);
  for (std::size_t i = 0; i < count; ++i) {
    state = memory * state + std::sqrt(1 - memory * memory) * normal(rng);
    values.push_back(factor * 1000 * std::exp(0.15 * state));
  }
  return values;
}

TEST_CASE("compare: Student's t is that of the tables") {
  CHECK(student_t(0.05, 4) == Approx(2.776445).epsilon(1e-5));
  CHECK(student_t(0.01, 2) == Approx(9.924843).epsilon(1e-5));
  CHECK(student_t(0.05, 1e6) == Approx(1.959966).epsilon(1e-4));
  CHECK(student_p(2.776445, 4) == Approx(0.05).epsilon(1e-4));
  CHECK(student_p(0, 7) == Approx(1));
  CHECK(student_p(-3.5, 10) == Approx(student_p(3.5, 10)));
}

TEST_CASE("compare: Holm's p-values, by hand") {
  const std::vector<double> p = {0.01, 0.04, 0.03, 0.005};
  const auto adjusted = holm(p);
  CHECK(adjusted[3] == Approx(0.02));
  CHECK(adjusted[0] == Approx(0.03));
  CHECK(adjusted[2] == Approx(0.06));
  CHECK(adjusted[1] == Approx(0.06));  // never under one that comes before it
  CHECK(holm(p, 2)[3] == Approx(0.04));
  CHECK(holm({}).empty());
}

TEST_CASE("compare: equal distributions come out the same in 95 of 100 pairs of three to six runs") {
  constexpr int kPairs = 1500;
  for (const std::size_t count : {3U, 4U, 6U}) {
    Rng rng(7 + count);
    int single = 0;
    int family = 0;
    int bootstrap = 0;
    for (int pair = 0; pair < kPairs; ++pair) {
      // Eight figures, four by four of one cause, as percentiles of one run are.
      std::vector<double> p;
      std::vector<double> first;
      for (int cause = 0; cause < 2; ++cause) {
        const auto a = runs(rng, count, 0.08);
        const auto b = runs(rng, count, 0.08);
        for (int figure = 0; figure < 4; ++figure) {
          auto x = a;
          auto y = b;
          for (double& value : x) value *= std::exp(0.03 * normal(rng));
          for (double& value : y) value *= std::exp(0.03 * normal(rng));
          p.push_back(compare_runs(x, y, 0.95).p);
          if (first.empty()) first = {x.begin(), x.end()}, first.insert(first.end(), y.begin(), y.end());
        }
      }
      single += p.front() < 0.05 ? 1 : 0;
      family += std::ranges::min(holm(p)) < 0.05 ? 1 : 0;
      // What was rejected: percentiles of resampled runs.
      std::vector<double> ratios;
      for (int i = 0; i < 80; ++i) {
        double log_ratio = 0;
        for (std::size_t j = 0; j < count; ++j) {
          log_ratio += std::log(first[count + rng.below(count)]) - std::log(first[rng.below(count)]);
        }
        ratios.push_back(log_ratio);
      }
      std::ranges::sort(ratios);
      bootstrap += ratios[1] > 0 || ratios[78] < 0 ? 1 : 0;
    }
    INFO("runs " << count << ": single " << single << ", family " << family << ", bootstrap " << bootstrap);
    CHECK(single <= kPairs * 5 / 100);
    CHECK(family <= kPairs * 5 / 100);
    CHECK(bootstrap > single * 3 / 2);
  }
}

TEST_CASE("compare: equal systems whose runs lie in two modes are told apart by luck, but for the floor") {
  constexpr int kPairs = 2000;
  int floored = 0;
  int bare = 0;
  Rng rng(11);
  const auto sides = [&] {
    std::vector<double> values;
    for (int i = 0; i < 3; ++i)
      values.push_back((rng.below(2) == 0 ? 30.0 : 34.0) * std::exp(0.01 * normal(rng)));
    return values;
  };
  for (int pair = 0; pair < kPairs; ++pair) {
    std::vector<double> bare_p;
    std::vector<double> p;
    for (int cause = 0; cause < 3; ++cause) {  // figures that share none of it
      const auto a = sides();
      const auto b = sides();
      bare_p.push_back(compare_runs(a, b, 0.95).p);
      p.push_back(compare_runs(a, b, 0.95, 0.05).p);
    }
    bare += std::ranges::min(holm(bare_p)) < 0.05 ? 1 : 0;
    floored += std::ranges::min(holm(p)) < 0.05 ? 1 : 0;
  }
  INFO("with the floor " << floored << ", without " << bare);
  CHECK(bare > kPairs * 5 / 100);
  CHECK(floored < kPairs / 100);
}

TEST_CASE("compare: a difference of a third is found with four quiet runs, whichever way") {
  Rng rng(3);
  int found = 0;
  for (int pair = 0; pair < 200; ++pair) {
    std::vector<double> a;
    std::vector<double> b;
    for (int i = 0; i < 4; ++i) {
      a.push_back(10 * std::exp(0.05 * normal(rng)));
      b.push_back(13.3 * std::exp(0.05 * normal(rng)));
    }
    const Estimate up = compare_runs(a, b, 0.95);
    const Estimate down = compare_runs(b, a, 0.95);
    CHECK(up.value == Approx(1 / down.value));
    CHECK(up.low == Approx(1 / down.high));
    found += up.p < 0.05 / 8 && up.value > 1 && up.low > 1 ? 1 : 0;
  }
  CHECK(found > 170);
}

TEST_CASE("compare: equal rounded figures are no certainty") {
  const std::vector<double> a = {10, 10, 10};
  const std::vector<double> near = {10.01, 10.01, 10.01};
  CHECK(compare_runs(a, near, 0.95).p > 0.05);
  CHECK(compare_runs(a, a, 0.95).p == Approx(1));
  CHECK(!compare_runs(a, std::vector<double>{10}, 0.95).judged);
  CHECK(!compare_runs(a, std::vector<double>{10, 0}, 0.95).judged);
}

TEST_CASE("compare: errors, from none to many") {
  const auto three = [](double failed) { return std::vector<ErrorCount>(3, {failed, 20000}); };
  CHECK(compare_error_runs(three(0), three(0), 0.95).p == Approx(1));
  CHECK(compare_error_runs(three(0), three(1), 0.95).p > 0.05);
  CHECK(compare_error_runs(three(0), three(10), 0.95).p < 0.01);
  const std::vector<ErrorCount> one_bad = {{0, 20000}, {0, 20000}, {2000, 20000}};
  CHECK(compare_error_runs(three(0), one_bad, 0.95).p > 0.05);
  const Estimate worse = compare_error_runs(three(0), three(200), 0.95);
  CHECK((worse.value == Approx(0.01) && worse.low > 0 && worse.high < 0.02));
}

TEST_CASE("compare: equal series that remember come out the same, and a fifth more is found") {
  constexpr int kPairs = 200;
  const SeriesSettings settings{0.95, 1, 100};
  for (const std::size_t length : {12U, 30U, 120U}) {
    Rng rng(11 + length);
    int alarms = 0;
    int latency_alarms = 0;
    int found = 0;
    for (int pair = 0; pair < kPairs; ++pair) {
      const auto a = seconds(rng, length, 0.4);
      const auto b = seconds(rng, length, 0.4);
      alarms += compare_series(a, b, false, settings).p < 0.05 ? 1 : 0;
      latency_alarms += compare_series(a, b, true, settings).p < 0.05 ? 1 : 0;
      found += compare_series(a, seconds(rng, length, 0.4, 1.2), true, settings).p < 0.05 ? 1 : 0;
    }
    INFO("seconds " << length << ": " << alarms << ", " << latency_alarms << ", found " << found);
    CHECK(alarms <= kPairs * 7 / 100);  // each figure; the family is held by holm()
    CHECK(latency_alarms <= kPairs * 7 / 100);
    if (length >= 30) CHECK(found > kPairs * 6 / 10);
  }
}

TEST_CASE("compare: a series' interval depends on the seed alone, and a short one is not judged") {
  Rng rng(5);
  const auto a = seconds(rng, 30, 0.4);
  const auto b = seconds(rng, 30, 0.4, 1.3);
  const Estimate first = compare_series(a, b, true, {0.95, 9, 500});
  const Estimate again = compare_series(a, b, true, {0.95, 9, 500});
  CHECK((first.low == again.low && first.high == again.high));
  CHECK(first.low != compare_series(a, b, true, {0.95, 10, 500}).low);
  CHECK(!compare_series(std::vector<double>(9, 1), b, true, {}).judged);
}

TEST_CASE("compare: seconds in which nothing was done count in the throughput") {
  Rng rng(6);
  const auto a = seconds(rng, 30, 0.4);
  auto b = seconds(rng, 30, 0.4);
  for (std::size_t i = 0; i < 30; i += 2) b[i] = 0;
  for (const bool turned : {false, true}) {
    const Estimate stalled = turned ? compare_series(b, a, false, {}) : compare_series(a, b, false, {});
    REQUIRE(stalled.judged);
    CHECK(stalled.p < 0.05);
    CHECK((turned ? stalled.low > 1 : stalled.high < 1));
    CHECK((stalled.low >= 0 && stalled.low <= stalled.value && stalled.value <= stalled.high));
  }
  CHECK(compare_series(b, b, false, {}).p == Approx(1));
  CHECK(!compare_series(a, b, true, {}).judged);  // a latency of 0 is none
  CHECK(!compare_series(a, std::vector<double>(30, 0), false, {}).judged);
}

TEST_CASE("compare: errors by their seconds") {
  std::vector<ErrorCount> none(30, {0, 1000});
  std::vector<ErrorCount> some(30, {0, 1000});
  for (std::size_t i = 0; i < some.size(); ++i) some[i].failed = 10 + static_cast<double>(i % 3);
  CHECK(compare_error_series(none, none, {}).p == Approx(1));
  CHECK(compare_error_series(none, some, {}).p < 0.001);
  std::vector<ErrorCount> burst = none;
  burst[12].failed = 300;  // one bad second in one run says little
  CHECK(compare_error_series(none, burst, {}).p > 0.05);
}

}  // namespace
}  // namespace dlb::loadgen
