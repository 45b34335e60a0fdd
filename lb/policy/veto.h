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

inline constexpr double kVetoGap = 10;         // points
inline constexpr double kVetoStandsOut = 2.5;  // times the mean of the others: begins
inline constexpr double kVetoFitsIn = 1.8;     // likewise: ends

// The terms of all backends in service, from which each one's others follow.
class ScoreSum {
 public:
  constexpr void add(const Score& score) {
    cpu_ += score.cpu;
    in_flight_ += score.in_flight;
    latency_ += score.latency;
    count_ += 1;
  }
  constexpr ScoreSum without(const Score& score) const {
    ScoreSum rest = *this;
    rest.cpu_ -= score.cpu;
    rest.in_flight_ -= score.in_flight;
    rest.latency_ -= score.latency;
    rest.count_ -= 1;
    return rest;
  }
  constexpr bool empty() const { return count_ <= 0; }
  // Only when not empty.
  constexpr Score mean() const {
    return {.cpu = cpu_ / count_, .in_flight = in_flight_ / count_, .latency = latency_ / count_};
  }

 private:
  double cpu_ = 0, in_flight_ = 0, latency_ = 0, count_ = 0;
};

enum VetoBit : std::uint8_t { kVetoCpu = 1, kVetoInFlight = 2, kVetoLatency = 4 };

// `others`: the mean of each term over the other backends in service. (With its own in it, one of two
// backends could not reach twice the mean.)
constexpr std::uint8_t next_veto(std::uint8_t bits, const Score& score, const Score& others,
                                 double threshold) {
  const auto term = [&](std::uint8_t bit, double points, double mean) {
    if (points >= threshold && points >= kVetoStandsOut * mean) {
      bits = static_cast<std::uint8_t>(bits | bit);
    } else if (points <= threshold - kVetoGap || points <= kVetoFitsIn * mean) {
      bits = static_cast<std::uint8_t>(bits & ~bit);
    }
  };
  term(kVetoCpu, score.cpu, others.cpu);
  term(kVetoInFlight, score.in_flight, others.in_flight);
  term(kVetoLatency, score.latency, others.latency);
  return bits;
}

}  // namespace dlb::lb
