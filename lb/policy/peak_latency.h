// A peak average of latencies for `peak_ewma` and `adaptive`: up fast with slow answers, down with a
// half-life of 5 s, also while no sample comes, so that a backend that was slow is tried again. Beside it
// what a failure costs and how a backend that has come back is eased in. Pure but for the two atomics of its
// state, which several workers update without a lock: a lost update loses one sample, or one worker's peak
// for a moment.
//
//   read at t:          p · 2^-((t - last)/5s)
//   sample x below it:  p = that + (x - that) · (1 - 2^-((t - last)/5s))
//   else:               p = x at once (`peak_ewma`, and failures), or
//                       p = before + (x - before) · (1 - 2^-((t - last)/rise)) with a rise of 0.5 s
//                       (`adaptive`)
//
// At once, one answer of a thousand decides: service times with a long tail (lognormal, sigma 1) then cost 6
// % at the median beside least_conn, with the rise 2 %; one backend turning 10 times slower is left as fast.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "common/clock.h"
#include "lb/policy/latency_average.h"

namespace dlb::lb {

// A failure counts as an answer that took so many times the pool's normal latency.
inline constexpr double kFailureLatencies = 10;

// In microseconds; 0: no sample yet.
inline double read_peak(const std::atomic<double>& peak_us, const std::atomic<std::int64_t>& at_ns,
                        TimePoint now) {
  return read_latency(peak_us, at_ns, now);
}

inline constexpr Duration kPeakRise = std::chrono::milliseconds(500);

// `rise` 0: at once. Behind a pause, the first sample counts by the pause's length.
inline void add_peak(std::atomic<double>& peak_us, std::atomic<std::int64_t>& at_ns, double sample_us,
                     TimePoint now, Duration rise) {
  const std::int64_t now_ns = now.time_since_epoch().count();
  std::int64_t last_ns = at_ns.load(std::memory_order_relaxed);
  const double before = peak_us.load(std::memory_order_relaxed);
  const double decayed = last_ns == 0 ? 0.0 : before * latency_decay(now_ns - last_ns);
  double next = sample_us;
  if (sample_us < decayed || (rise.count() > 0 && last_ns != 0)) {
    if (now_ns <= last_ns) return;
    const auto age = static_cast<double>(now_ns - last_ns);
    if (sample_us < decayed) {
      next = decayed + (sample_us - decayed) * (1 - latency_decay(now_ns - last_ns));
    } else {
      const double kept = std::exp2(-age / static_cast<double>(rise.count()));
      next = std::max(decayed, before * kept + sample_us * (1 - kept));
    }
  }
  if (!at_ns.compare_exchange_strong(last_ns, std::max(now_ns, last_ns), std::memory_order_relaxed)) return;
  peak_us.store(next, std::memory_order_relaxed);
}

// The share of its weight that a backend gets which has been up, or off probation, since `since_ns` (0:
// always): from a tenth to all of it over 10 s.
inline constexpr Duration kSlowStart = std::chrono::seconds(10);
inline double slow_start_share(std::int64_t since_ns, TimePoint now) {
  if (since_ns == 0) return 1;
  const std::int64_t age = now.time_since_epoch().count() - since_ns;
  return std::clamp(static_cast<double>(age) / static_cast<double>(kSlowStart.count()), 0.1, 1.0);
}

}  // namespace dlb::lb
