// What `loadgen compare` takes from a report (EXPERIMENT-TIME.json, report.cc): the figures of one run, its
// seconds, and whether it may be compared at all. Pure: JSON text in, values out; unknown members are passed
// over.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"

namespace dlb::loadgen {

// p50, p95, p99 in ms, of `count` operations.
struct RunLatency {
  std::uint64_t count = 0;
  std::array<double, 3> ms{};
};

// One element a second of the counted stages, in order; NaN where nothing was done. Rows between two stages
// are left out.
struct RunSeries {
  using Percentiles = std::array<std::vector<double>, 3>;  // p50, p95, p99 in ms
  std::vector<double> ok, done, failed;
  Percentiles message, feed, message_intended;
};

// Of the users of the chat; rows are summed over them.
struct RunChat {
  bool passed = false;         // nothing below is wrong, and everybody was there at the end
  bool published = false;      // its users were the load; else they listened beside an HTTP load
  std::uint64_t accepted = 0;  // messages of the run
  double deliveries = 0;       // of them, a second
  RunLatency fanout;           // `count` receipts
  std::uint64_t missed = 0, duplicated = 0, reordered = 0, altered = 0, phantom = 0;
  std::uint64_t contradicted = 0, resets = 0, unsettled = 0;
};

struct ComparedRun {
  std::string name;  // as the user gave it
  std::int64_t schema = 0;
  std::string experiment;
  std::vector<std::string> invalid;  // reasons
  bool interrupted = false;
  std::map<std::string, std::string> config;  // each member as JSON text
  double throughput = 0;                      // ok operations a second
  std::uint64_t done = 0;
  std::uint64_t failed = 0;
  RunLatency message, feed, message_intended, feed_intended;
  RunSeries series;              // empty where the report has none
  std::optional<bool> verified;  // nothing: not asked for
  std::optional<RunChat> chat;   // nothing: it had no users of the chat
};

// The error says what is missing, or is no figure: such a report is damaged. The schema is not judged.
Result<ComparedRun> read_compared_run(std::string_view json, std::string name);

}  // namespace dlb::loadgen
