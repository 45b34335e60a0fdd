// Thresholds: what a run must have reached, as `-fail` says it, and whether it did. The grammar (blanks are
// free between words):
//
//   list       := threshold { ("," | ";") threshold }
//   threshold  := metric ("<" | "<=" | ">" | ">=" | "==") value
//   metric     := statistic "(" ("post" | "ack" | "feed" | "all") [ "," "intended" ] ")"
//                                                                     of ok operations; value: 50ms, 1.5s;
//                                                                     "intended": from the intended time
//               | statistic "(" "fanout" ")"                         deliveries, from the intended time
//               | "errors"                                            3 of them, or 0.1% of those done
//               | "ok" | "other_2xx" | "5xx" | "time_out" | …         a bucket: a number, or % of the plan
//               | "lost" | "duplicated" | "altered" | "reordered"     messages of the worst feed and of all
//               | "missed"                                            subscribers: a number
//               | "rate"                                              ok operations a second
//   statistic  := "p50" | "p90" | "p95" | "p99" | "p999" | "mean" | "max"
//
// What was not measured (no ok operation of that kind, no feed that could be read) holds no threshold. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/clock.h"
#include "common/result.h"
#include "loadgen/chat_result.h"
#include "loadgen/feed_checker.h"
#include "loadgen/recorder.h"

namespace dlb {
class JsonWriter;
}

namespace dlb::loadgen {

enum class Quantity : std::uint8_t {
  Latency,
  Errors,
  Bucket,
  Lost,
  Duplicated,
  Altered,
  Reordered,
  Missed,
  Rate
};
enum class Statistic : std::uint8_t { P50, P90, P95, P99, P999, Mean, Max };
enum class Comparison : std::uint8_t { Less, AtMost, Greater, AtLeast, Equal };

struct Threshold {
  std::string text;  // as given, without blanks around it
  Quantity quantity = Quantity::Errors;
  Statistic statistic = Statistic::P99;           // of Latency
  std::optional<OperationClass> operation_class;  // of Latency; both without
  bool intended = false;                          // of Latency: from the intended time (open model)
  bool fanout = false;                            // of Latency: of the deliveries to subscribers
  Bucket bucket = Bucket::Ok;                     // of Bucket
  Comparison comparison = Comparison::Less;
  double limit = 0;    // milliseconds, a number, or percent
  bool share = false;  // limit is percent
};

// The error says at which column of the list what was expected. Empty text is no threshold.
Result<std::vector<Threshold>> parse_thresholds(std::string_view text);

// Whether any of them needs the feed to be read.
// Subscribers alone tell of all but what is lost.
bool need_verification(const std::vector<Threshold>& thresholds, bool subscribers = false);

// What a run has measured. `faults` are the worst of all feeds, null when one of them could not be read.
struct Measured {
  const Recorder& recorder;
  Duration elapsed{};
  const FeedFaults* faults = nullptr;
  const ChatResult* chat = nullptr;  // null without subscribers
};

struct ThresholdVerdict {
  std::string text;
  std::optional<double> value;  // in the limit's unit; nothing when it was not measured
  std::string_view unit;        // "ms", "percent", "count", "per_second"
  bool held = false;
};

std::vector<ThresholdVerdict> judge(const std::vector<Threshold>& thresholds, const Measured& measured);

// `12.300 ms`, `0.53%`, `3`, `not measured`.
std::string value_text(const ThresholdVerdict& verdict);
// The table for people, a line each; empty without thresholds.
std::string thresholds_text(const std::vector<ThresholdVerdict>& verdicts);
// Writes the array that stands in the report.
void thresholds_json(JsonWriter& json, const std::vector<ThresholdVerdict>& verdicts);

}  // namespace dlb::loadgen
