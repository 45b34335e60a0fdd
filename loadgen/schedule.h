// Schedule: the intended send times of the open model, as distances from its start. They are fixed by rate,
// pattern and seed alone: no answer, slow or quick, moves one. Even ones are computed from their number and
// so never drift; Poisson gaps are exponential, as arrivals of many independent people are. Pure.
#pragma once

#include <cstdint>

#include "common/clock.h"
#include "common/rng.h"

namespace dlb::loadgen {

enum class Arrival : std::uint8_t { Even, Poisson };

class Schedule {
 public:
  // Requires rate > 0, operations a second.
  Schedule(double rate, Arrival arrival, std::uint64_t seed);

  // Of the next operation; never less than the one before. An even schedule begins at 0.
  Duration next();

 private:
  double gap_ns_;
  Arrival arrival_;
  Rng rng_;
  std::uint64_t number_ = 0;
  double at_ns_ = 0;
};

}  // namespace dlb::loadgen
