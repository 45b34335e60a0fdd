// StallWatch: whether a backend has stopped answering, long before the first of its exchanges times out
// (L12). A process whose worker threads are stuck goes on taking connections, and often passes its checks; a
// policy that does not go by load sends it its share for a whole backend-timeout.
//
//   exchanges that wait for connect or head │ no head from it for          │ stalled
//   ────────────────────────────────────────┼──────────────────────────────┼────────
//   fewer than kStallExchanges              │ any                          │ no
//   that many or more                       │ < floor and < factor × usual │ no
//   that many or more                       │ longer than both             │ yes
//
// "Usual" is its own average latency, so that a backend whose answers take seconds is given many of them. It
// is no ejection: others are preferred, and the first head ends it, as does the end of the exchanges that
// wait (their time-outs then count for ejection). Words are written by the data workers without a lock; one
// read in between is a moment old. No clock.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "common/clock.h"

namespace dlb::lb {

inline constexpr std::uint32_t kStallExchanges = 5;
inline constexpr Duration kStallFloor = std::chrono::milliseconds(500);
inline constexpr double kStallFactor = 10;

class StallWatch {
 public:
  // An exchange waits for its connect or its response head from now on.
  void asked(TimePoint now) {
    if (awaiting_.fetch_add(1, std::memory_order_relaxed) == 0) answered(now);
  }
  // It waits no more, whatever the reason.
  void over() { awaiting_.fetch_sub(1, std::memory_order_relaxed); }
  // A response head has come.
  void answered(TimePoint now) { since_ns_.store(now.time_since_epoch().count(), std::memory_order_relaxed); }

  std::uint32_t awaiting() const { return awaiting_.load(std::memory_order_relaxed); }
  // `usual_us()`: the backend's average time to a response head now; asked for only when it matters.
  template <typename Usual>
  bool stalled(TimePoint now, Usual&& usual_us) const {
    if (awaiting() < kStallExchanges) return false;
    const auto silent =
        static_cast<double>(now.time_since_epoch().count() - since_ns_.load(std::memory_order_relaxed));
    return silent > static_cast<double>(kStallFloor.count()) && silent > kStallFactor * 1000 * usual_us();
  }

 private:
  std::atomic<std::uint32_t> awaiting_{0};
  std::atomic<std::int64_t> since_ns_{0};  // the last head, or when the first of those that wait was asked
};

}  // namespace dlb::lb
