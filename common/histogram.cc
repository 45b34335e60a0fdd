#include "common/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "common/check.h"

namespace dlb {
namespace {

// 1-based nearest rank of `percent` among `count` samples; the small term takes back what the division added.
std::uint64_t nearest_rank(double percent, std::uint64_t count) {
  const double rank = std::ceil(percent / 100.0 * static_cast<double>(count) - 1e-9);
  return std::clamp<std::uint64_t>(rank <= 1 ? 1 : static_cast<std::uint64_t>(rank), 1, count);
}

}  // namespace

std::size_t Histogram::index_of(std::uint64_t value) {
  const int top_bit = static_cast<int>(std::bit_width(value)) - 1;
  const int shift = std::max(0, top_bit - kPrecisionBits);
  return (static_cast<std::size_t>(shift) << kPrecisionBits) + static_cast<std::size_t>(value >> shift);
}

std::uint64_t Histogram::middle_of(std::size_t index) {
  const std::size_t group = index >> kPrecisionBits;
  if (group <= 1) return index;
  const std::size_t shift = group - 1;
  const std::uint64_t base = static_cast<std::uint64_t>(index - (shift << kPrecisionBits)) << shift;
  return base + ((std::uint64_t{1} << shift) - 1) / 2;
}

void Histogram::record_n(std::uint64_t value, std::uint64_t times) {
  if (times == 0) return;
  if (value > kMaxValue) {
    value = kMaxValue;
    clamped_ += times;
  }
  buckets_[index_of(value)] += times;
  count_ += times;
  sum_ += value * times;
  min_ = std::min(min_, value);
  max_ = std::max(max_, value);
}

void Histogram::merge(const Histogram& other) {
  for (std::size_t i = 0; i < kBuckets; ++i) buckets_[i] += other.buckets_[i];
  count_ += other.count_;
  sum_ += other.sum_;
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
  clamped_ += other.clamped_;
}

void Histogram::reset() { *this = Histogram(); }

std::uint64_t Histogram::percentile(double percent) const {
  if (count_ == 0) return 0;
  if (percent <= 0) return min_;
  if (percent >= 100) return max_;
  const std::uint64_t rank = nearest_rank(percent, count_);
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    seen += buckets_[i];
    if (seen >= rank) return std::clamp(middle_of(i), min_, max_);
  }
  DLB_CHECK(false);
}

std::uint64_t Histogram::count_at_or_below(std::uint64_t value) const {
  const std::size_t last = index_of(std::min(value, kMaxValue));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i <= last; ++i) seen += buckets_[i];
  return seen;
}

Quantiles Histogram::quantiles() const {
  Quantiles result;
  result.count = result.total_count = count_;
  result.p50 = static_cast<double>(percentile(50));
  result.p95 = static_cast<double>(percentile(95));
  result.p99 = static_cast<double>(percentile(99));
  result.max = static_cast<double>(max_);
  result.total_sum = static_cast<double>(sum_);
  return result;
}

SampleWindow::SampleWindow(std::size_t capacity)
    : capacity_(std::max<std::size_t>(1, capacity)), samples_(new std::atomic<float>[capacity_]) {}

void SampleWindow::record(double value) {
  const std::uint64_t index = total_count_.load(std::memory_order_relaxed);
  samples_[index % capacity_].store(static_cast<float>(value), std::memory_order_relaxed);
  total_sum_.store(total_sum_.load(std::memory_order_relaxed) + value, std::memory_order_relaxed);
  total_count_.store(index + 1, std::memory_order_release);
}

Quantiles SampleWindow::quantiles() const {
  const SampleWindow* const self = this;
  return quantiles({&self, 1});
}

Quantiles SampleWindow::quantiles(std::span<const SampleWindow* const> windows) {
  Quantiles result;
  std::vector<float> samples;
  for (const SampleWindow* window : windows) {
    const std::uint64_t total = window->total_count();
    const auto held = static_cast<std::size_t>(std::min<std::uint64_t>(total, window->capacity_));
    samples.reserve(samples.size() + held);
    for (std::size_t i = 0; i < held; ++i) {
      samples.push_back(window->samples_[i].load(std::memory_order_relaxed));
    }
    result.total_count += total;
    result.total_sum += window->total_sum();
  }
  result.count = samples.size();
  if (samples.empty()) return result;

  // Each selection leaves everything above it to the right, so the next one looks at less.
  auto from = samples.begin();
  const auto select = [&](double percent) {
    const auto rank = static_cast<std::ptrdiff_t>(nearest_rank(percent, samples.size()));
    const auto place = samples.begin() + (rank - 1);
    std::nth_element(from, place, samples.end());
    from = place;
    return static_cast<double>(*place);
  };
  result.p50 = select(50);
  result.p95 = select(95);
  result.p99 = select(99);
  result.max = static_cast<double>(*std::max_element(from, samples.end()));
  return result;
}

}  // namespace dlb
