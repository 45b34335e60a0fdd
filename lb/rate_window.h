// RateWindow: events per second over the last complete seconds, written by one worker and read by any thread.
// Each place is one word (second and count), so a reader never sees half of one.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "common/clock.h"

namespace dlb::lb {

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
