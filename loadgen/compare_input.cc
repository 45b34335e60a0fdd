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

// The first member that is there and is no figure: such a report is refused, not read as zeros.
struct Damage {
  std::string member;

  void note(std::string_view key) {
    if (member.empty()) member = key;
  }
};

// NaN where nothing was measured.
double number_of(element value, std::string_view key, Damage& damage) {
  double number = std::numeric_limits<double>::quiet_NaN();
  if (value.is_null()) return number;
  if (value.get(number) != simdjson::SUCCESS || number < 0) damage.note(key);
  return number;
}

double number_at(const object& parent, std::string_view key, Damage& damage) {
  element value;
  return parent[key].get(value) == simdjson::SUCCESS ? number_of(value, key, damage)
                                                     : std::numeric_limits<double>::quiet_NaN();
}

std::uint64_t count_at(const object& parent, std::string_view key, Damage& damage) {
  element value;
  std::uint64_t count = 0;
  if (parent[key].get(value) == simdjson::SUCCESS && value.get(count) != simdjson::SUCCESS) damage.note(key);
  return count;
}

RunLatency latency_at(const object& parent, std::string_view key, Damage& damage) {
  RunLatency latency;
  object found;
  if (parent[key].get(found) != simdjson::SUCCESS) return latency;
  latency.count = count_at(found, "count", damage);
  for (std::size_t i = 0; i < kPercentileNames.size(); ++i)
    latency.ms[i] = number_at(found, kPercentileNames[i], damage);
  return latency;
}

// Which rows belong to a stage; those between two have null for one.
std::vector<bool> rows_in_stages(const object& series) {
  std::vector<bool> rows;
  array found;
  if (series["stage"].get(found) != simdjson::SUCCESS) return rows;
  for (const element value : found) rows.push_back(!value.is_null());
  return rows;
}

std::vector<double> numbers_at(const object& parent, const std::string& key, const std::vector<bool>& rows,
                               Damage& damage) {
  std::vector<double> numbers;
  array found;
  if (parent[key].get(found) != simdjson::SUCCESS) return numbers;
  std::size_t row = 0;
  for (const element value : found) {
    if (row >= rows.size() || rows[row]) numbers.push_back(number_of(value, key, damage));
    ++row;
  }
  return numbers;
}

RunSeries series_of(const object& root, Damage& damage) {
  RunSeries series;
  object found;
  if (root["series"].get(found) != simdjson::SUCCESS) return series;
  const std::vector<bool> rows = rows_in_stages(found);
  series.ok = numbers_at(found, "ok", rows, damage);
  series.done = numbers_at(found, "done", rows, damage);
  series.failed = numbers_at(found, "failed", rows, damage);
  const double step = number_at(found, "step_seconds", damage);  // a long run's rows cover more than a second
  if (std::isfinite(step) && step > 1) {
    for (double& count : series.ok) count /= step;
  }
  const auto percentiles = [&](const std::string& prefix) {
    RunSeries::Percentiles all;
    for (std::size_t i = 0; i < kPercentileNames.size(); ++i)
      all[i] = numbers_at(found, prefix + std::string(kPercentileNames[i]) + "_ms", rows, damage);
    return all;
  };
  series.message = percentiles("");
  series.feed = percentiles("feed_");
  series.message_intended = percentiles("intended_");
  return series;
}

RunChat chat_of(const object& found, Damage& damage) {
  RunChat chat;
  if (found["passed"].get(chat.passed) != simdjson::SUCCESS) chat.passed = false;
  chat.published = count_at(found, "publishers", damage) > 0;
  chat.accepted = count_at(found, "accepted", damage);
  chat.deliveries = number_at(found, "deliveries_per_second", damage);
  chat.fanout = latency_at(found, "fanout_ms", damage);
  chat.missed = count_at(found, "missed", damage);
  chat.duplicated = count_at(found, "duplicated", damage);
  chat.reordered = count_at(found, "reordered", damage);
  chat.altered = count_at(found, "altered", damage);
  chat.phantom = count_at(found, "phantom", damage);
  chat.contradicted = count_at(found, "contradicted", damage);
  chat.resets = count_at(found, "resets", damage);
  chat.unsettled = count_at(found, "unsettled", damage);
  return chat;
}

void read_operations(const object& operations, ComparedRun& run, Damage& damage) {
  run.throughput = number_at(operations, "throughput_per_second", damage);
  run.done = count_at(operations, "done", damage);
  run.failed = count_at(operations, "failed", damage);
  object part;
  if (operations["message"].get(part) == simdjson::SUCCESS) {
    run.message = latency_at(part, "latency_ms", damage);
    run.message_intended = latency_at(part, "intended_latency_ms", damage);
  }
  if (operations["feed"].get(part) == simdjson::SUCCESS) {
    run.feed = latency_at(part, "latency_ms", damage);
    run.feed_intended = latency_at(part, "intended_latency_ms", damage);
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
    run.verified = part["passed"].get(passed) == simdjson::SUCCESS && passed;
  }
  Damage damage;
  if (root["chat"].get(part) == simdjson::SUCCESS) run.chat = chat_of(part, damage);
  read_operations(operations, run, damage);
  run.series = series_of(root, damage);
  if (!damage.member.empty()) {
    return Error{run.name + ": damaged: a \"" + damage.member + "\" in it is no figure of loadgen"};
  }
  return run;
}

}  // namespace dlb::loadgen
