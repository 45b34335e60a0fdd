// What `loadgen compare` says of two sides, A and B, each one run or several repetitions of one: every figure
// with its verdict, and one for all of them. Pure: runs in, verdicts out; statistics are compare_stats.h's.
//
//   several runs a side   throughput, errors, and p50, p95, p99 of messages and of feeds, service latency and
//                         from the intended time
//                         (those with at least kLeastBeyond operations beyond them in each run); of the
//                         chat: deliveries, fan-out, what subscribers got wrong (compare_chat.h)
//   one run a side        the same by the seconds of `series`: p50 and so on of each second; the whole run's
//                         percentiles and the chat's figures are shown without a verdict
//
// Seconds without an answer have no latency: where one side has many more of them than the other, its
// latencies are those of its good seconds, and can only be called worse.
//
// A figure is better or worse when its p, corrected for all figures that are judged (Holm), is under
// 1 - confidence and the ratio is further from 1 than `min_change`. A run that is not verified, in its feed
// or its chat, is a fact and needs no statistics: B is worse, however fast, and never the same or better.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "loadgen/compare_input.h"
#include "loadgen/compare_stats.h"

namespace dlb::loadgen {

enum class Verdict : std::uint8_t { Same, Better, Worse, NotJudged, Mixed };
std::string_view verdict_name(Verdict verdict);  // `same`; of Mixed `mixed`

// Whose reports have figures of the chat: no run's, each run's, or only some of them, so that it is not
// compared.
enum class ChatSides : std::uint8_t { None, Both, Some };

struct FigureVerdict {
  std::string name;       // `throughput`, `message p99`, `errors`
  std::string_view unit;  // "/s", "ms", "%", "of runs"
  bool higher_is_better = false;
  bool difference = false;  // the estimate is B - A in `unit`, else the factor B/A
  double a = 0, b = 0;      // geometric means of the runs (errors: shares in percent)
  Estimate estimate;
  double adjusted_p = 1;
  Verdict verdict = Verdict::NotJudged;
  Verdict only = Verdict::NotJudged;  // where a side stood still or is wrong: all that its figures can say
  std::string reason{};               // of NotJudged; may be empty
};

// Of how many operations a percentile of a run must tell: the p99 of 200 is its second largest value.
inline constexpr double kLeastBeyond = 10;

struct CompareSettings {
  double confidence = 0.95;
  double min_change = 0.02;
  double run_spread = 0.05;     // of logarithms: repetitions differ by this much, whatever a few of them say
  std::size_t comparisons = 1;  // as many such comparisons are judged together
  std::uint64_t seed = 1;
  int resamples = 1000;
};

struct CompareResult {
  std::vector<FigureVerdict> figures;
  // NotJudged: nothing could be judged, or what could can't be the last word, as `undecided` says.
  Verdict overall = Verdict::NotJudged;
  std::string_view undecided;
  std::size_t judged = 0;
  bool by_seconds = false;  // one run a side
  ChatSides chat = ChatSides::None;
  std::string chat_reason;            // with Some
  std::vector<std::string> warnings;  // what differs besides what is compared, and what was let pass
};

// Why these runs may not be compared, one sentence each; empty: they may. `schema` is the one that is known.
// With `force` INVALID and interrupted runs are let pass; another schema never is.
std::vector<std::string> refusals(std::span<const ComparedRun> runs, std::int64_t schema, bool force);

// Both sides need at least one run.
CompareResult compare(std::span<const ComparedRun> a, std::span<const ComparedRun> b,
                      const CompareSettings& settings);

std::string compare_text(const CompareResult& result, std::span<const ComparedRun> a,
                         std::span<const ComparedRun> b, const CompareSettings& settings);
std::string compare_json(const CompareResult& result, std::span<const ComparedRun> a,
                         std::span<const ComparedRun> b, const CompareSettings& settings);

}  // namespace dlb::loadgen
