// The score of a backend from the shared atomics, for the router and the status pages: which figures go into
// score.h, and when statistics count as stale. Any thread; a score may mix two samples, which it tolerates.
#pragma once

#include "lb/backend_set.h"
#include "lb/options.h"
#include "lb/policy/latency_average.h"
#include "lb/policy/score.h"

namespace dlb::lb {

// Older than three polling intervals, or never there. Backends without statistics (stats-path = "") are never
// stale.
inline bool statistics_stale(const Backend& backend, const Options& options, TimePoint now) {
  if (options.stats_path.empty()) return false;
  const std::int64_t received = backend.report.received_at_ns.load(std::memory_order_relaxed);
  return received == 0 ||
         now.time_since_epoch().count() - received > kStaleIntervals * options.stats_interval.count();
}

inline Score score_of(const Backend& backend, const Options& options, TimePoint now) {
  ScoreInputs in;
  in.cpu_percent = backend.report.cpu_percent.load(std::memory_order_relaxed);
  in.in_flight = backend.slots.taken();
  in.max_inflight = static_cast<std::uint32_t>(options.max_inflight);
  in.latency_us = read_latency(backend.latency_us, backend.latency_at_ns, now);
  in.latency_target_us = static_cast<double>(options.latency_target.count()) / 1000.0;
  in.stale = statistics_stale(backend, options, now);
  return compute_score(in);
}

}  // namespace dlb::lb
