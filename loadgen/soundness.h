// Soundness: whether a run measured the system or itself. It is INVALID when the generator was the
// bottleneck:
//
//   schedule lag   the p99 of how late operations were taken up is over 10 ms and over a tenth of the p99
//                  latency (open model): they were not sent as planned
//   CPU            its thread used over 90 % of a core, in a run of at least a second: answers were read late
//   waits          each time it had something to do it waited for a core first: 2 ms or more in the mean, and
//   over a quarter
//                  of the mean latency, in a run of at least a second in which it ran 50 times: that is how
//                  much later than they came answers were read (closed model too)
//
// Pure.
#pragma once

#include <string>
#include <vector>

#include "common/clock.h"
#include "loadgen/recorder.h"

namespace dlb::loadgen {

// What the kernel counts of a thread that wants to run; all 0 where it doesn't.
struct CoreWaits {
  Duration waited{};  // for a core, though it could have run
  std::uint64_t times_run = 0;

  CoreWaits operator-(const CoreWaits& other) const {
    return {waited - other.waited, times_run - other.times_run};
  }
  CoreWaits& operator+=(const CoreWaits& other) {
    waited += other.waited;
    times_run += other.times_run;
    return *this;
  }
  double mean_ms() const {
    return times_run == 0 ? 0 : seconds(waited) * 1000 / static_cast<double>(times_run);
  }
};

struct GeneratorUse {
  double cpu_seconds = 0;  // of its thread
  Duration elapsed{};
  CoreWaits waits{};

  // Of the time; 0 without time.
  double wait_share() const {
    return elapsed > Duration::zero() ? seconds(waits.waited) / seconds(elapsed) : 0;
  }
  // Of one core; 0 without time.
  double cpu_share() const { return elapsed > Duration::zero() ? cpu_seconds / seconds(elapsed) : 0; }
};

// Why the run's figures are the generator's, one sentence each; empty when they are the system's.
std::vector<std::string> invalid_reasons(const Recorder& recorder, const GeneratorUse& use);
// The same of CPU and waits alone: for stages together, each of which may be too short to be judged.
std::vector<std::string> busy_reasons(const Recorder& recorder, const GeneratorUse& use);

}  // namespace dlb::loadgen
