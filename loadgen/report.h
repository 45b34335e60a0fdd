// Report: what a run has found, as JSON, as rows of the files that runs share, and as text for people. All
// are made from one RunResult. Pure; result_files.h writes them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "loadgen/run_result.h"
#include "loadgen/thresholds.h"
#include "loadgen/verdict.h"

namespace dlb::loadgen {

inline constexpr int kReportSchema = 2;  // of the JSON
inline constexpr int kSummarySchema = 2;
inline constexpr int kOperationSummarySchema = 1;
inline constexpr int kHeaderAcceptanceSchema = 1;

// The thresholds of the options, judged on all stages together.
std::vector<ThresholdVerdict> judge_thresholds(const RunResult& result);

// Why the run failed, one sentence each; empty when it passed (or was interrupted).
std::vector<std::string> failures(const RunResult& result);
// Why its figures are the generator's: of each stage, or of the run when it has only one.
std::vector<std::string> invalid_reasons(const RunResult& result);
// Whether it may be handed in; asked of leaderboard runs.
RunVerdict verdict_of(const RunResult& result);
// A wrong answer or feed (3) is a fact whatever the generator did; figures (3), and whether a leaderboard run
// is promotable (3), are judged only of a run that is no INVALID (4).
ExitCode exit_code(const RunResult& result);

std::string report_json(const RunResult& result);
std::string report_text(const RunResult& result);
// A self-contained page of it: report_json() and the curves that it leaves out.
std::string report_html(const RunResult& result, std::string_view report_json);
std::string summary_header();
std::string summary_row(const RunResult& result);
std::string operation_summary_header();
std::string operation_summary_rows(const RunResult& result);
std::string header_acceptance_header();
std::string header_acceptance_rows(const RunResult& result);

}  // namespace dlb::loadgen
