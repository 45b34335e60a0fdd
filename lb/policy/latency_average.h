// An average of latencies with a half-life of 5 s in time, not in samples: the moment between two samples
// counts by its length, and while no sample comes the average decays towards 0, so that one old slow request
// cannot hold a recovered backend down.
//
//   read at t:     average · 2^-((t - last)/5s)
//   sample x at t: average · 2^-((t - last)/5s) + x · (1 - 2^-((t - last)/5s)), last = t
//
// The state is two words in atomics that several workers update without a lock. A worker first claims the
// update by moving `last` on with compare-and-swap; one that loses drops its sample (so does a second sample
// of the same instant, whose weight would be 0). The words are not read together, and need not be: an average
// read with the other's time is between 0 and an average that stood a moment ago, since decay only shrinks
// and a sample only mixes in its own value. No interleaving yields a value above the largest sample, a
// negative one or a NaN.
#pragma once

#include <atomic>
#include <cmath>
#include <cstdint>

#include "common/clock.h"

namespace dlb::lb {

inline constexpr Duration kLatencyHalfLife = std::chrono::seconds(5);

// What is left of a value after `age_ns`; 1 for no age or one before 0 (another worker's turn may be a little
// ahead).
inline double latency_decay(std::int64_t age_ns) {
  if (age_ns <= 0) return 1;
  return std::exp2(-static_cast<double>(age_ns) / static_cast<double>(kLatencyHalfLife.count()));
}

// The average at `now`, in microseconds. `at_ns` 0: no sample yet.
inline double read_latency(const std::atomic<double>& average_us, const std::atomic<std::int64_t>& at_ns,
                           TimePoint now) {
  const double average = average_us.load(std::memory_order_relaxed);
  if (average <= 0) return 0;
  return average * latency_decay(now.time_since_epoch().count() - at_ns.load(std::memory_order_relaxed));
}

inline void add_latency(std::atomic<double>& average_us, std::atomic<std::int64_t>& at_ns, Duration sample,
                        TimePoint now) {
  const std::int64_t now_ns = now.time_since_epoch().count();
  std::int64_t last_ns = at_ns.load(std::memory_order_relaxed);
  if (now_ns <= last_ns) return;
  const double average = average_us.load(std::memory_order_relaxed);
  if (!at_ns.compare_exchange_strong(last_ns, now_ns, std::memory_order_relaxed)) return;
  const double sample_us = sample.count() > 0 ? static_cast<double>(sample.count()) / 1000.0 : 0.0;
  // The first sample has no past to be mixed with.
  const double kept = last_ns == 0 ? 0.0 : latency_decay(now_ns - last_ns);
  average_us.store(average * kept + sample_us * (1 - kept), std::memory_order_relaxed);
}

}  // namespace dlb::lb
