#include "loadgen/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "common/json_writer.h"

namespace dlb::loadgen {
namespace {

// The balancer and at least one backend.
constexpr std::size_t kLeastSystems = 2;

// Of a system's samples: over it, its figures are not those of the run.
constexpr std::uint64_t kMostMissedPercent = 20;

struct Counter {
  Figure figure;
  std::string_view what;
};
constexpr Counter kMustStay[] = {
    {Figure::GuardEventsTotal, "the balancer's memory guard went on {} times"},
    {Figure::RejectedMemoryTotal, "the balancer refused {} requests for want of memory"},
    {Figure::RejectedConnectionsTotal, "the balancer refused {} connections"},
};

void judge_stages(const RunFacts& facts, std::vector<std::string>& reasons) {
  if (facts.stages.empty()) reasons.emplace_back("no stage ran");
  for (const StageFacts& stage : facts.stages) {
    if (!stage.ran) {
      reasons.push_back(fmt::format("stage {} did not run", stage.name));
      continue;
    }
    if (stage.hit_window) reasons.push_back(fmt::format("stage {} hit its window", stage.name));
    if (stage.ok < stage.planned) {
      reasons.push_back(
          fmt::format("stage {}: {} of {} operations succeeded ({} failed, {} not issued)", stage.name,
                      stage.ok, stage.planned, stage.failed,
                      stage.planned - stage.ok - std::min(stage.failed, stage.planned - stage.ok)));
    }
  }
}

void judge_samples(const SystemRecord& system, std::vector<std::string>& reasons) {
  const std::uint64_t all = system.samples() + system.missed_samples();
  if (system.samples() == 0) {
    reasons.push_back(fmt::format("there are no metrics of {} ({})", system.name(), system.id()));
  } else if (100 * system.missed_samples() > kMostMissedPercent * all) {
    reasons.push_back(fmt::format("{} of {} samples of {} ({}) were missed", system.missed_samples(), all,
                                  system.name(), system.id()));
  }
}

void judge_balancer(const SystemRecord& balancer, double ended_seconds, std::vector<std::string>& reasons) {
  if (balancer.latest_at() < ended_seconds) {
    reasons.emplace_back("the balancer did not tell its counters after the load");
  }
  if (balancer.restarted()) reasons.emplace_back("the balancer was started anew during the run");
  for (const Counter& counter : kMustStay) {
    if (!std::isfinite(at(balancer.latest(), counter.figure))) {
      reasons.push_back(fmt::format("the balancer does not tell {}",
                                    system_columns()[static_cast<std::size_t>(counter.figure)].name));
      continue;
    }
    const double rise = balancer.rise(counter.figure);
    if (rise > 0)
      reasons.push_back(fmt::format(fmt::runtime(counter.what), static_cast<std::uint64_t>(rise)));
  }
}

void judge_metrics(const RunFacts& facts, std::vector<std::string>& reasons) {
  const bool there = facts.systems != nullptr && facts.systems->size() >= kLeastSystems &&
                     facts.systems->front().name() == "Sys1";
  if (!there) {
    reasons.emplace_back("there are no metrics of balancer and backends");
    return;
  }
  for (const SystemRecord& system : *facts.systems) judge_samples(system, reasons);
  const SystemRecord& balancer = facts.systems->front();
  if (balancer.samples() > 0) judge_balancer(balancer, facts.ended_seconds, reasons);
}

}  // namespace

RunVerdict judge_run(const RunFacts& facts) {
  RunVerdict verdict;
  if (facts.interrupted) verdict.reasons.emplace_back("the run was interrupted");
  if (facts.altered) verdict.reasons.emplace_back("options change what the profile is defined as");
  judge_stages(facts, verdict.reasons);
  if (!facts.valid) verdict.reasons.emplace_back("the generator was the bottleneck");
  if (facts.mismatched_answers > 0) {
    verdict.reasons.push_back(fmt::format("{} answers named another message's id", facts.mismatched_answers));
  }
  if (!facts.feed_read) {
    verdict.reasons.emplace_back("the feed was not read");
  } else if (!facts.feed_passed) {
    verdict.reasons.emplace_back("the feed is not verified");
  }
  judge_metrics(facts, verdict.reasons);
  return verdict;
}

std::string verdict_text(const RunVerdict& verdict) {
  if (verdict.promotable()) return "PROMOTABLE\n";
  std::string text;
  for (const std::string& reason : verdict.reasons) {
    fmt::format_to(std::back_inserter(text), "NOT PROMOTABLE: {}\n", reason);
  }
  return text;
}

void verdict_json(JsonWriter& json, const RunVerdict& verdict) {
  json.begin_object().field("promotable", verdict.promotable()).key("reasons").begin_array();
  for (const std::string& reason : verdict.reasons) json.value(reason);
  json.end_array().end_object();
}

}  // namespace dlb::loadgen
