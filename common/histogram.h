// Histogram: log-linear (HDR style) counts in fixed memory, about 30 KiB: whole numbers, by convention
// microseconds, from 0 to 2^36 - 1 (19 h; larger ones are clamped). Up to 255 exact, above that buckets of
// 1/128 of their power of two, reported at their middle: error below 0.4 %. One thread.
//
// SampleWindow: the last N samples as they were, for "p50/p95/p99 over the last 20,000 samples". One writer;
// any thread may read quantiles while it writes (a sample is one relaxed atomic).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace dlb {

// What metrics show of a distribution, in the samples' unit. All 0 without samples.
struct Quantiles {
  std::uint64_t count = 0;  // samples that the quantiles are taken from, or for a Histogram all
  double p50 = 0;
  double p95 = 0;
  double p99 = 0;
  double max = 0;
  std::uint64_t total_count = 0;  // ever recorded
  double total_sum = 0;           // of all ever recorded
};

class Histogram {
 public:
  static constexpr int kPrecisionBits = 7;
  static constexpr std::uint64_t kMaxValue = (std::uint64_t{1} << 36) - 1;

  void record(std::uint64_t value) { record_n(value, 1); }
  void record_n(std::uint64_t value, std::uint64_t times);
  void merge(const Histogram& other);
  void reset();

  std::uint64_t count() const { return count_; }
  std::uint64_t sum() const { return sum_; }  // exact
  double mean() const { return count_ == 0 ? 0 : static_cast<double>(sum_) / static_cast<double>(count_); }
  std::uint64_t min() const { return count_ == 0 ? 0 : min_; }  // exact
  std::uint64_t max() const { return max_; }                    // exact
  std::uint64_t clamped() const { return clamped_; }            // values over kMaxValue

  // Nearest rank; `percent` 0-100, 0 gives min, 100 gives max. 0 without samples.
  std::uint64_t percentile(double percent) const;
  // Samples <= value, to the bucket's precision.
  std::uint64_t count_at_or_below(std::uint64_t value) const;
  Quantiles quantiles() const;

 private:
  static constexpr std::size_t kBuckets = (36 - kPrecisionBits - 1 + 2) << kPrecisionBits;
  static std::size_t index_of(std::uint64_t value);
  static std::uint64_t middle_of(std::size_t index);

  std::array<std::uint64_t, kBuckets> buckets_{};
  std::uint64_t count_ = 0;
  std::uint64_t sum_ = 0;
  std::uint64_t min_ = ~std::uint64_t{0};
  std::uint64_t max_ = 0;
  std::uint64_t clamped_ = 0;
};

class SampleWindow {
 public:
  static constexpr std::size_t kDefaultCapacity = 20'000;

  explicit SampleWindow(std::size_t capacity = kDefaultCapacity);  // 4 bytes a sample
  SampleWindow(const SampleWindow&) = delete;
  SampleWindow& operator=(const SampleWindow&) = delete;

  // The writing thread only. `value` keeps float precision (7 digits).
  void record(double value);

  std::size_t capacity() const { return capacity_; }
  std::uint64_t total_count() const { return total_count_.load(std::memory_order_acquire); }
  double total_sum() const { return total_sum_.load(std::memory_order_relaxed); }

  // Nearest-rank quantiles of the samples now in the window. Any thread; copies and selects: about 0.3 ms at
  // 20,000.
  Quantiles quantiles() const;
  // The same over several windows at once (one a worker, each of its share of the capacity).
  static Quantiles quantiles(std::span<const SampleWindow* const> windows);

 private:
  std::size_t capacity_;
  std::unique_ptr<std::atomic<float>[]> samples_;
  std::atomic<std::uint64_t> total_count_{0};
  std::atomic<double> total_sum_{0};
};

}  // namespace dlb
