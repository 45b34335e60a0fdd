#include "common/histogram.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <thread>
#include <vector>

#include "common/rng.h"
#include "test/support/catch.h"

using namespace dlb;

namespace {

std::uint64_t exact_percentile(std::vector<std::uint64_t> values, double percent) {
  std::sort(values.begin(), values.end());
  const auto rank =
      static_cast<std::size_t>(std::ceil(percent / 100 * static_cast<double>(values.size()) - 1e-9));
  return values[std::max<std::size_t>(rank, 1) - 1];
}

}  // namespace

TEST_CASE("an empty histogram says 0", "[histogram]") {
  const auto h = std::make_unique<Histogram>();
  CHECK(h->count() == 0);
  CHECK(h->percentile(50) == 0);
  CHECK(h->min() == 0);
  CHECK(h->max() == 0);
  CHECK(h->mean() == 0);
}

TEST_CASE("small values are exact", "[histogram]") {
  const auto h = std::make_unique<Histogram>();
  for (std::uint64_t v = 0; v < 256; ++v) h->record(v);
  for (int percent = 1; percent <= 100; ++percent) {
    CHECK(h->percentile(percent) == static_cast<std::uint64_t>(std::ceil(percent * 2.56) - 1));
  }
}

TEST_CASE("every value is reported within one percent", "[histogram]") {
  Rng rng(3);
  for (int i = 0; i < 300; ++i) {
    const std::uint64_t value = rng.next() >> (28 + rng.below(36));
    const auto h = std::make_unique<Histogram>();
    // Two others keep min and max from helping.
    h->record(0);
    h->record(value);
    h->record(Histogram::kMaxValue);
    const double error = std::abs(static_cast<double>(h->percentile(50)) - static_cast<double>(value));
    INFO(value);
    REQUIRE(error <= 0.004 * static_cast<double>(value));
  }
}

TEST_CASE("percentiles of random samples are within one percent of the exact ones", "[histogram]") {
  Rng rng(4);
  for (int round = 0; round < 20; ++round) {
    const auto h = std::make_unique<Histogram>();
    std::vector<std::uint64_t> values;
    const std::uint64_t count = 1 + rng.below(5000);
    for (std::uint64_t i = 0; i < count; ++i) {
      values.push_back(static_cast<std::uint64_t>(std::exp(rng.unit() * 21)));  // 1 us to 20 min
      h->record(values.back());
    }
    for (const double percent : {0.1, 1.0, 25.0, 50.0, 90.0, 95.0, 99.0, 99.9, 100.0}) {
      const auto exact = static_cast<double>(exact_percentile(values, percent));
      INFO(percent << " of " << count);
      REQUIRE(std::abs(static_cast<double>(h->percentile(percent)) - exact) <= 0.01 * exact + 1e-9);
    }
    REQUIRE(h->min() == *std::min_element(values.begin(), values.end()));
    REQUIRE(h->max() == *std::max_element(values.begin(), values.end()));
    REQUIRE(h->percentile(0) == h->min());
    REQUIRE(h->count_at_or_below(Histogram::kMaxValue) == count);
  }
}

TEST_CASE("merging equals recording into one", "[histogram]") {
  Rng rng(5);
  const auto a = std::make_unique<Histogram>();
  const auto b = std::make_unique<Histogram>();
  const auto all = std::make_unique<Histogram>();
  for (int i = 0; i < 10'000; ++i) {
    const std::uint64_t value = rng.below(1'000'000'000);
    (i % 3 == 0 ? *a : *b).record(value);
    all->record(value);
  }
  a->merge(*b);
  CHECK(a->count() == all->count());
  CHECK(a->sum() == all->sum());
  CHECK(a->min() == all->min());
  CHECK(a->max() == all->max());
  for (int percent = 0; percent <= 100; ++percent)
    REQUIRE(a->percentile(percent) == all->percentile(percent));
}

TEST_CASE("values beyond the range are clamped and counted", "[histogram]") {
  const auto h = std::make_unique<Histogram>();
  h->record(~std::uint64_t{0});
  h->record(Histogram::kMaxValue);
  CHECK(h->clamped() == 1);
  CHECK(h->max() == Histogram::kMaxValue);
  CHECK(h->percentile(50) == Histogram::kMaxValue);
  h->reset();
  CHECK(h->count() == 0);
}

TEST_CASE("a window keeps the last samples only", "[histogram]") {
  SampleWindow window(100);
  CHECK(window.quantiles().count == 0);
  for (int i = 1; i <= 1000; ++i) window.record(i);
  const Quantiles q = window.quantiles();
  CHECK(q.count == 100);
  CHECK(q.total_count == 1000);
  CHECK(q.total_sum == 500'500);
  CHECK(q.p50 == 950);
  CHECK(q.p95 == 995);
  CHECK(q.p99 == 999);
  CHECK(q.max == 1000);
}

TEST_CASE("window quantiles are exact nearest ranks", "[histogram]") {
  Rng rng(6);
  for (const std::size_t count : {1U, 2U, 3U, 19U, 20U, 100U, 5000U}) {
    SampleWindow window(5000);
    std::vector<std::uint64_t> values;
    for (std::size_t i = 0; i < count; ++i) {
      values.push_back(rng.below(1'000'000));
      window.record(static_cast<double>(values.back()));
    }
    const Quantiles q = window.quantiles();
    CHECK(q.p50 == static_cast<double>(exact_percentile(values, 50)));
    CHECK(q.p95 == static_cast<double>(exact_percentile(values, 95)));
    CHECK(q.p99 == static_cast<double>(exact_percentile(values, 99)));
    CHECK(q.max == static_cast<double>(exact_percentile(values, 100)));
  }
}

TEST_CASE("windows of several workers are read as one", "[histogram]") {
  SampleWindow low(100);
  SampleWindow high(100);
  for (int i = 0; i < 50; ++i) low.record(1);
  for (int i = 0; i < 50; ++i) high.record(9);
  const SampleWindow* const both[] = {&low, &high};
  const Quantiles q = SampleWindow::quantiles(both);
  CHECK(q.count == 100);
  CHECK(q.p50 == 1);
  CHECK(q.p95 == 9);
  CHECK(q.total_sum == 500);
}

TEST_CASE("a window may be read while it is written", "[histogram]") {
  SampleWindow window(1000);
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    while (!stop.load()) window.record(5);
  });
  for (int i = 0; i < 200; ++i) {
    const Quantiles q = window.quantiles();
    if (q.count > 0) REQUIRE(q.p99 == 5);
  }
  stop.store(true);
  writer.join();
}
