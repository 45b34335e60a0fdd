// The score of a backend (L1): 0.25·cpu + 0.45·in-flight + 0.30·latency, each part 0-100, plus a penalty when
// its statistics are stale. Smaller is less loaded. Pure; the inputs come from the router.
//
// Known limits, for whoever tunes it: cpu and latency together reach 55 points, so a threshold above that
// never excludes a slow backend with few requests in flight; and a CPU figure averaged over a second arrives
// late.
#pragma once

#include <algorithm>
#include <cstdint>

namespace dlb::lb {

inline constexpr double kCpuShare = 0.25;
inline constexpr double kInFlightShare = 0.45;
inline constexpr double kLatencyShare = 0.30;
inline constexpr double kStalePenalty = 15;
inline constexpr int kStaleIntervals = 3;  // statistics older than this many polling intervals are stale

struct ScoreInputs {
  double cpu_percent = -1;      // of the backend's CPU quota; below 0: not reported, counts as 0
  std::uint32_t in_flight = 0;  // outstanding requests, reserved ones included
  std::uint32_t max_inflight = 100;
  double latency_us = 0;  // decayed to now
  double latency_target_us = 100'000;
  bool stale = false;
};

struct Score {
  double cpu = 0, in_flight = 0, latency = 0;  // each 0-100, before its share is taken
  double penalty = 0;
  double total = 0;
};

constexpr double clamp_part(double value) {
  // Written so that a NaN comes out as 0.
  return value > 0 ? std::min(value, 100.0) : 0.0;
}

constexpr Score compute_score(const ScoreInputs& in) {
  Score out;
  out.cpu = clamp_part(in.cpu_percent);
  out.in_flight = clamp_part(100.0 * in.in_flight / std::max<std::uint32_t>(in.max_inflight, 1));
  out.latency = in.latency_target_us > 0 ? clamp_part(100.0 * in.latency_us / in.latency_target_us) : 0;
  out.penalty = in.stale ? kStalePenalty : 0;
  out.total =
      kCpuShare * out.cpu + kInFlightShare * out.in_flight + kLatencyShare * out.latency + out.penalty;
  return out;
}

}  // namespace dlb::lb
