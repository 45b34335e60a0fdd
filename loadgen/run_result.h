// RunResult: what a run has found, as its reports are made from: each counted stage with its recorder, and
// all of them together. Plain values, filled by Run.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/clock.h"
#include "loadgen/chat_result.h"
#include "loadgen/held.h"
#include "loadgen/options.h"
#include "loadgen/plan.h"
#include "loadgen/recorder.h"
#include "loadgen/series.h"
#include "loadgen/soundness.h"
#include "loadgen/system_record.h"
#include "loadgen/verifier.h"

namespace dlb::loadgen {

// The exit codes of loadgen.
enum class ExitCode : int {
  Passed = 0,
  Failed = 1,       // at run time: files that can't be written
  Usage = 2,        // or the target can't be reached at the start
  NotVerified = 3,  // a threshold or the verification failed, or more operations than allowed
  Invalid = 4,      // the generator was the bottleneck: the figures are its own
  Interrupted = 130,
};

struct StageResult {
  StagePlan plan;
  Recorder recorder;                 // closed
  bool ran = false;                  // false: behind a stop, all of its plan is not_issued
  bool hit_window = false;           // its issue window ended before all was issued
  std::int64_t started_wall_us = 0;  // all below only when it ran
  Duration started_after{};          // behind the start of the first counted stage
  Duration elapsed{};                // to the end of its last operation
  double cpu_seconds = 0;            // the generator's own
  CoreWaits waits;                   // of the generator
  std::uint64_t connections_opened = 0;

  GeneratorUse generator() const { return GeneratorUse{cpu_seconds, elapsed, waits}; }
};

struct RunResult {
  Options options;
  std::uint64_t seed = 0;  // in force
  bool leaderboard = false;
  bool altered = false;              // of a profile: not as it is defined
  std::vector<StageResult> stages;   // the counted ones, in order
  Recorder total;                    // of all of them
  std::int64_t started_wall_us = 0;  // of the first counted stage, or when it would have begun
  Duration elapsed{};                // from there to the end of the last operation
  bool interrupted = false;
  double cpu_seconds = 0;     // the generator's own, in the counted stages
  CoreWaits waits;            // of the generator, likewise
  Duration longest_turn{};    // of its loop: how late it may have been
  bool files_failed = false;  // what grows during the run could not be written
  std::uint64_t stray_bytes = 0;
  std::uint64_t connections_opened = 0;
  std::optional<Verification> verification;
  Series series;                            // of the counted stages
  std::vector<SystemRecord> systems;        // what they said of themselves; the balancer first
  std::optional<HeldTotals> held;           // with held connections
  std::vector<CountedReason> tls_failures;  // why handshakes failed
  std::unique_ptr<ChatResult> chat;         // null without chat users

  GeneratorUse generator() const { return GeneratorUse{cpu_seconds, elapsed, waits}; }
};

}  // namespace dlb::loadgen
