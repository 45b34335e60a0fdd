// Veto: each term of the score by itself, for `adaptive`: a backend whose CPU, requests in flight or latency
// has reached the threshold, and stands out from the pool, is left out until that term is 10 points below it
// or no longer stands out. The weighted sum never says so: cpu and latency together reach 55 points. Pure;
// the bits live in the backend's atomics.
//
// Without the look at the pool a veto takes backends out because all are busy, which makes the rest busier:
// five equal servers at 60 % load answered in 95 ms in place of 20 (bench/simulate).
#pragma once

#include <cstdint>

#include "lb/policy/score.h"

namespace dlb::lb {

inline constexpr double kVetoGap = 10;       // points
inline constexpr double kVetoStandsOut = 2;  // times the pool's mean: begins
inline constexpr double kVetoFitsIn = 1.5;   // likewise: ends

enum VetoBit : std::uint8_t { kVetoCpu = 1, kVetoInFlight = 2, kVetoLatency = 4 };

// `pool`: the mean of each term over the backends in service, this one included.
constexpr std::uint8_t next_veto(std::uint8_t bits, const Score& score, const Score& pool, double threshold) {
  const auto term = [&](std::uint8_t bit, double points, double mean) {
    if (points >= threshold && points >= kVetoStandsOut * mean) {
      bits = static_cast<std::uint8_t>(bits | bit);
    } else if (points <= threshold - kVetoGap || points <= kVetoFitsIn * mean) {
      bits = static_cast<std::uint8_t>(bits & ~bit);
    }
  };
  term(kVetoCpu, score.cpu, pool.cpu);
  term(kVetoInFlight, score.in_flight, pool.in_flight);
  term(kVetoLatency, score.latency, pool.latency);
  return bits;
}

}  // namespace dlb::lb
