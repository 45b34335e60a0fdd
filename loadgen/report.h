// Report: what a run has found, as JSON, as a row of summary.csv and as text for people. All three are made
// from one RunResult. Rendering is pure; write_files() does the I/O.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/result.h"
#include "loadgen/options.h"
#include "loadgen/recorder.h"
#include "loadgen/soundness.h"
#include "loadgen/verifier.h"

namespace dlb::loadgen {

inline constexpr int kReportSchema = 1;

// The exit codes of loadgen.
enum class ExitCode : int {
  Passed = 0,
  Failed = 1,       // at run time: files that can't be written
  Usage = 2,        // or the target can't be reached at the start
  NotVerified = 3,  // a threshold or the verification failed, or more operations than allowed
  Invalid = 4,      // the generator was the bottleneck: the figures are its own
  Interrupted = 130,
};

struct RunResult {
  Options options;
  std::uint64_t seed = 0;            // in force
  std::int64_t started_wall_us = 0;  // the measured stage's
  Duration elapsed{};                // to the end of its last operation
  bool interrupted = false;
  double cpu_seconds = 0;   // the generator's own, in the measured stage
  Duration longest_turn{};  // of its loop: how late it may have been
  std::uint64_t stray_bytes = 0;
  std::uint64_t connections_opened = 0;
  std::optional<Verification> verification;

  GeneratorUse generator() const { return GeneratorUse{cpu_seconds, elapsed}; }
};

// The thresholds of the options, judged.
std::vector<ThresholdVerdict> judge_thresholds(const RunResult& result, const Recorder& recorder);

// Why the run failed, one sentence each; empty when it passed (or was interrupted).
std::vector<std::string> failures(const RunResult& result, const Recorder& recorder);
// A wrong answer or feed (3) is a fact whatever the generator did; figures (3) are judged only of a run that
// is no INVALID (4).
ExitCode exit_code(const RunResult& result, const Recorder& recorder);

std::string report_json(const RunResult& result, const Recorder& recorder);
std::string report_text(const RunResult& result, const Recorder& recorder);
std::string summary_header();
std::string summary_row(const RunResult& result, const Recorder& recorder);

// Writes EXPERIMENT-TIME.json, never over an existing file, and appends to summary.csv in options.out_dir,
// which is made if missing. Gives the JSON file's path.
Result<std::string> write_files(const RunResult& result, const Recorder& recorder);

}  // namespace dlb::loadgen
