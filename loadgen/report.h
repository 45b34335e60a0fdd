// Report: what a run has found, as JSON, as a row of summary.csv and as text for people. All three are made
// from one RunResult. Rendering is pure; write_files() does the I/O.
#pragma once

#include <string>
#include <vector>

#include "common/result.h"
#include "loadgen/run_result.h"
#include "loadgen/thresholds.h"

namespace dlb::loadgen {

inline constexpr int kReportSchema = 2;

// The thresholds of the options, judged on all stages together.
std::vector<ThresholdVerdict> judge_thresholds(const RunResult& result);

// Why the run failed, one sentence each; empty when it passed (or was interrupted).
std::vector<std::string> failures(const RunResult& result);
// Why its figures are the generator's: of each stage, or of the run when it has only one.
std::vector<std::string> invalid_reasons(const RunResult& result);
// A wrong answer or feed (3) is a fact whatever the generator did; figures (3) are judged only of a run that
// is no INVALID (4).
ExitCode exit_code(const RunResult& result);

std::string report_json(const RunResult& result);
std::string report_text(const RunResult& result);
std::string summary_header();
std::string summary_row(const RunResult& result);

// Writes EXPERIMENT-TIME.json, never over an existing file, and appends to summary.csv in options.out_dir,
// which is made if missing. Gives the JSON file's path.
Result<std::string> write_files(const RunResult& result);

}  // namespace dlb::loadgen
