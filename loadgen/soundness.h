// Soundness: whether a run measured the system or itself. It is INVALID when the generator was the
// bottleneck:
//
//   schedule lag   the p99 of how late operations were taken up is over 10 ms and over a tenth of the p99
//                  latency (open model): they were not sent as planned
//   CPU            its thread used over 90 % of a core, in a run of at least a second: answers were read late
//
// Pure.
#pragma once

#include <string>
#include <vector>

#include "common/clock.h"
#include "loadgen/recorder.h"

namespace dlb::loadgen {

struct GeneratorUse {
  double cpu_seconds = 0;  // of its thread
  Duration elapsed{};
  Duration waited{};  // for a core, though it could have run

  // Of the time; 0 without time.
  double wait_share() const { return elapsed > Duration::zero() ? seconds(waited) / seconds(elapsed) : 0; }
  // Of one core; 0 without time.
  double cpu_share() const { return elapsed > Duration::zero() ? cpu_seconds / seconds(elapsed) : 0; }
};

// Why the run's figures are the generator's, one sentence each; empty when they are the system's.
std::vector<std::string> invalid_reasons(const Recorder& recorder, const GeneratorUse& use);

}  // namespace dlb::loadgen
