#include "loadgen/compare_input.h"

#include <simdjson.h>

#include <cmath>
#include <limits>

#include "common/json_writer.h"

namespace dlb::loadgen {
namespace {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::object;

constexpr std::array<std::string_view, 3> kPercentileNames = {"p50", "p95", "p99"};

double number_of(element value) {
  double number = 0;
  return value.get(number) == simdjson::SUCCESS ? number : std::numeric_limits<double>::quiet_NaN();
}

double number_at(const object& parent, std::string_view key) {
  element value;
  return parent[key].get(value) == simdjson::SUCCESS ? number_of(value)
                                                     : std::numeric_limits<double>::quiet_NaN();
}

std::uint64_t count_at(const object& parent, std::string_view key) {
  std::uint64_t count = 0;
  return parent[key].get(count) == simdjson::SUCCESS ? count : 0;
}

RunLatency latency_at(const object& parent, std::string_view key) {
  RunLatency latency;
  object found;
  if (parent[key].get(found) != simdjson::SUCCESS) return latency;
  latency.count = count_at(found, "count");
  for (std::size_t i = 0; i < kPercentileNames.size(); ++i)
    latency.ms[i] = number_at(found, kPercentileNames[i]);
  return latency;
}

std::vector<double> numbers_at(const object& parent, std::string_view key) {
  std::vector<double> numbers;
  array found;
  if (parent[key].get(found) != simdjson::SUCCESS) return numbers;
  for (const element value : found) numbers.push_back(number_of(value));
  return numbers;
}

RunSeries series_of(const object& root) {
  RunSeries series;
  object found;
  if (root["series"].get(found) != simdjson::SUCCESS) return series;
  series.ok = numbers_at(found, "ok");
  series.done = numbers_at(found, "done");
  series.failed = numbers_at(found, "failed");
  series.ms = {numbers_at(found, "p50_ms"), numbers_at(found, "p95_ms"), numbers_at(found, "p99_ms")};
  return series;
}

void read_operations(const object& operations, ComparedRun& run) {
  run.throughput = number_at(operations, "throughput_per_second");
  run.done = count_at(operations, "done");
  run.failed = count_at(operations, "failed");
  object part;
  if (operations["message"].get(part) == simdjson::SUCCESS) {
    run.message = latency_at(part, "latency_ms");
    run.message_intended = latency_at(part, "intended_latency_ms");
  }
  if (operations["feed"].get(part) == simdjson::SUCCESS) {
    run.feed = latency_at(part, "latency_ms");
    run.feed_intended = latency_at(part, "intended_latency_ms");
  }
}

}  // namespace

Result<ComparedRun> read_compared_run(std::string_view json, std::string name) {
  simdjson::dom::parser parser;
  object root;
  const std::string padded_from(json);
  if (const auto error = parser.parse(padded_from).get(root); error != simdjson::SUCCESS) {
    return Error{name + ": no JSON object: " + simdjson::error_message(error)};
  }
  ComparedRun run;
  run.name = std::move(name);
  object operations;
  if (root["schema"].get(run.schema) != simdjson::SUCCESS ||
      root["operations"].get(operations) != simdjson::SUCCESS) {
    return Error{run.name + ": no report of loadgen: it has no \"schema\" or no \"operations\""};
  }
  std::string_view text;
  if (root["experiment"].get(text) == simdjson::SUCCESS) run.experiment = text;
  if (root["interrupted"].get(run.interrupted) != simdjson::SUCCESS) run.interrupted = false;
  array reasons;
  if (root["invalid"].get(reasons) == simdjson::SUCCESS) {
    for (const element reason : reasons) {
      if (reason.get(text) == simdjson::SUCCESS) run.invalid.emplace_back(text);
    }
  }
  object part;
  if (root["config"].get(part) == simdjson::SUCCESS) {
    for (const auto& member : part)
      run.config.emplace(std::string(member.key), simdjson::minify(member.value));
  }
  if (root["verification"].get(part) == simdjson::SUCCESS) {
    bool passed = false;
    if (part["passed"].get(passed) == simdjson::SUCCESS) run.verified = passed;
  }
  read_operations(operations, run);
  run.series = series_of(root);
  return run;
}

}  // namespace dlb::loadgen
