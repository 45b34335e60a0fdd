// The last N durations, and the rate of the last seconds, each written by one worker and read by any thread.
// No lock and no locked instruction: relaxed atomics of one writer. A reader may miss the newest sample or
// see one that has just replaced another; it never sees half of one, since a sample is one word.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/clock.h"

namespace dlb::lb {

// One sample: when it ended (to order the samples of several workers) and how long it took.
struct DurationSample {
  std::uint32_t at_ms = 0;  // on the monotonic line, modulo 2^32
  std::uint32_t duration_us = 0;
};

class SampleWindow {
 public:
  explicit SampleWindow(std::size_t capacity)
      : capacity_(capacity), places_(std::make_unique<std::atomic<std::uint64_t>[]>(capacity)) {}

  // The owning worker only. Durations over 71 minutes count as 71 minutes.
  void add(TimePoint now, Duration took) {
    const auto at_ms = static_cast<std::uint32_t>(now.time_since_epoch().count() / 1'000'000);
    const std::int64_t us = took.count() < 0 ? 0 : took.count() / 1000;
    const auto clamped = static_cast<std::uint32_t>(us > 0xffffffff ? 0xffffffff : us);
    const std::uint64_t n = written_.load(std::memory_order_relaxed);
    places_[n % capacity_].store((static_cast<std::uint64_t>(at_ms) << 32) | clamped,
                                 std::memory_order_relaxed);
    sum_us_.store(sum_us_.load(std::memory_order_relaxed) + clamped, std::memory_order_relaxed);
    written_.store(n + 1, std::memory_order_release);
  }

  std::uint64_t count() const { return written_.load(std::memory_order_acquire); }  // since start
  std::uint64_t sum_us() const { return sum_us_.load(std::memory_order_relaxed); }  // since start
  std::size_t capacity() const { return capacity_; }

  // Appends what the window holds.
  void copy_to(std::vector<DurationSample>& out) const {
    const std::uint64_t n = count();
    const std::size_t held = n < capacity_ ? static_cast<std::size_t>(n) : capacity_;
    for (std::size_t i = 0; i < held; ++i) {
      const std::uint64_t word = places_[i].load(std::memory_order_relaxed);
      out.push_back({static_cast<std::uint32_t>(word >> 32), static_cast<std::uint32_t>(word)});
    }
  }

 private:
  std::size_t capacity_;
  std::unique_ptr<std::atomic<std::uint64_t>[]> places_;
  std::atomic<std::uint64_t> written_{0};
  std::atomic<std::uint64_t> sum_us_{0};
};

// What several windows say together about their newest `limit` samples.
struct DurationSummary {
  std::uint64_t count = 0;   // since start
  std::uint64_t sum_us = 0;  // since start
  std::size_t samples = 0;   // that the percentiles are made of
  std::uint32_t p50_us = 0, p95_us = 0, p99_us = 0, max_us = 0;
};

DurationSummary summarize(std::span<const SampleWindow* const> windows, std::size_t limit);

// Events per second over the last complete seconds.
class RateWindow {
 public:
  static constexpr std::int64_t kSeconds = 10;

  // The owning worker only.
  void add(TimePoint now) {
    const auto second = static_cast<std::uint32_t>(now.time_since_epoch().count() / 1'000'000'000);
    std::atomic<std::uint64_t>& place = places_[second % kPlaces];
    const std::uint64_t old = place.load(std::memory_order_relaxed);
    const bool same = static_cast<std::uint32_t>(old >> 32) == second;
    place.store(same ? old + 1 : (static_cast<std::uint64_t>(second) << 32) | 1, std::memory_order_relaxed);
  }

  // Events in the kSeconds complete seconds before `now`, divided by them.
  double per_second(TimePoint now) const {
    const std::int64_t second = now.time_since_epoch().count() / 1'000'000'000;
    std::uint64_t events = 0;
    for (std::int64_t s = second - kSeconds; s < second; ++s) {
      if (s < 0) continue;
      const std::uint64_t word =
          places_[static_cast<std::size_t>(s) % kPlaces].load(std::memory_order_relaxed);
      if (static_cast<std::uint32_t>(word >> 32) == static_cast<std::uint32_t>(s))
        events += word & 0xffffffff;
    }
    return static_cast<double>(events) / static_cast<double>(kSeconds);
  }

 private:
  static constexpr std::size_t kPlaces = 16;
  std::array<std::atomic<std::uint64_t>, kPlaces> places_{};
};

}  // namespace dlb::lb
