#include "bench/simulate/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "common/json_writer.h"

namespace dlb::bench {
namespace {

double ms(double us) { return us / 1000; }

// 1234.5, 12.34, 0.123: four digits are enough for any of them.
std::string number(double value) {
  if (value >= 1000) return fmt::format("{:.0f}", value);
  if (value >= 100) return fmt::format("{:.1f}", value);
  return fmt::format("{:.2f}", value);
}

// Of the requests given out, by server; of many servers the smallest and the largest share.
std::string shares(const Outcome& outcome) {
  double sum = 0;
  for (const ServerOutcome& one : outcome.servers) sum += static_cast<double>(one.requests);
  std::vector<double> percent;
  for (const ServerOutcome& one : outcome.servers) {
    percent.push_back(sum == 0 ? 0 : 100 * static_cast<double>(one.requests) / sum);
  }
  std::string out;
  if (percent.size() > 6) {
    const auto [low, high] = std::ranges::minmax(percent);
    return fmt::format("{} servers: {:.1f} to {:.1f}", percent.size(), low, high);
  }
  for (const double one : percent) out += fmt::format("{}{:.1f}", out.empty() ? "" : " ", one);
  return out;
}

std::string clock_text(Duration at) {
  const auto ms = at.count() / 1'000'000;
  return fmt::format("{}{}:{:02}.{}", ms < 0 ? "-" : "", std::abs(ms) / 60'000, std::abs(ms) / 1000 % 60,
                     std::abs(ms) % 1000 / 100);
}

// Every decision of the autoscaler, a line each.
std::string scaling_lines(const Outcome& outcome) {
  std::string out;
  for (const ScaleEvent& one : outcome.scaling) {
    out += fmt::format("    {:>9}  {:<8}{:<10}{:>4} run  {}\n", clock_text(one.at), one.action, one.server,
                       one.processes, one.reason);
  }
  return out;
}

// The same as numbers, and what it cost beside servers that all run all the time.
void write_scaling(JsonWriter& json, const Outcome& outcome) {
  if (outcome.scale_turns.empty()) return;
  double turns = 0;
  for (const ScaleTurn& turn : outcome.scale_turns) turns += turn.processes;
  json.field("mean_processes", turns / static_cast<double>(outcome.scale_turns.size()), 2);
  json.key("scaling").begin_array();
  for (const ScaleEvent& one : outcome.scaling) {
    json.begin_object().field("at_seconds", seconds(one.at), 1).field("action", one.action);
    json.field("server", one.server)
        .field("processes", one.processes)
        .field("reason", one.reason)
        .end_object();
  }
  json.end_array();
}

void write_failures(JsonWriter& json, const Outcome& outcome) {
  json.key("failures").begin_object();
  for (std::size_t i = 1; i < kFailureKinds; ++i) {
    json.field(failure_name(static_cast<Failure>(i)), outcome.failures[i]);
  }
  json.end_object();
}

}  // namespace

std::string outcome_table(std::span<const Outcome> outcomes) {
  std::string out;
  std::string_view last;
  for (const Outcome& one : outcomes) {
    if (one.scenario != last) {
      out += fmt::format("{}{}  ({} requests)\n", last.empty() ? "" : "\n", one.scenario, one.requests);
      out += fmt::format("  {:<21}{:>9}{:>10}{:>10}{:>10}{:>10}{:>8}{:>8}{:>8}  {}\n", "policy", "success %",
                         "mean ms", "p50 ms", "p99 ms", "p99.9 ms", "retries", "queued", "ejected",
                         "share % by server");
      last = one.scenario;
    }
    out += fmt::format("  {:<21}{:>9.3f}{:>10}{:>10}{:>10}{:>10}{:>8}{:>8}{:>8}  {}\n", one.policy,
                       one.success_percent(), number(ms(one.mean_us)), number(ms(one.p50_us)),
                       number(ms(one.p99_us)), number(ms(one.p999_us)), one.retries, one.queued,
                       one.ejections, shares(one));
    out += scaling_lines(one);
  }
  return out;
}

std::string outcome_json(std::span<const Outcome> outcomes) {
  std::string out;
  JsonWriter json(out);
  json.begin_array();
  for (const Outcome& one : outcomes) {
    json.begin_object().field("scenario", one.scenario).field("about", one.about).field("policy", one.policy);
    json.field("duration_seconds", seconds(one.duration)).field("requests", one.requests);
    json.field("succeeded", one.succeeded).field("success_percent", one.success_percent());
    write_failures(json, one);
    json.field("retries", one.retries).field("queued", one.queued).field("fallbacks", one.fallbacks);
    json.field("panics", one.panics).field("ejections", one.ejections);
    json.field("mean_ms", ms(one.mean_us)).field("p50_ms", ms(one.p50_us)).field("p99_ms", ms(one.p99_us));
    json.field("p999_ms", ms(one.p999_us)).field("max_ms", ms(one.max_us));
    write_scaling(json, one);
    json.key("servers").begin_array();
    for (const ServerOutcome& server : one.servers) {
      json.begin_object().field("id", server.id).field("requests", server.requests);
      json.field("failed", server.failed).field("ejections", server.ejections).end_object();
    }
    json.end_array().key("buckets").begin_array();
    for (const OutcomeBucket& bucket : one.buckets) {
      json.begin_object().field("requests", bucket.requests).field("failed", bucket.failed);
      json.field("p50_ms", ms(bucket.p50_us)).field("p99_ms", ms(bucket.p99_us)).key("picks").begin_array();
      if (bucket.picks.size() <= 24) {
        for (const std::uint32_t picks : bucket.picks) json.value(picks);
      }
      json.end_array().end_object();
    }
    json.end_array().end_object();
  }
  json.end_array();
  out += '\n';
  return out;
}

}  // namespace dlb::bench
