// The verdict on a run; report_json.cc, report_text.cc and report_csv.cc write it down.
#include "loadgen/report.h"

#include <fmt/format.h>

#include <algorithm>

#include "loadgen/chat_report.h"

namespace dlb::loadgen {

std::vector<ThresholdVerdict> judge_thresholds(const RunResult& result) {
  Measured measured{result.total, result.elapsed, nullptr, result.interrupted ? nullptr : result.chat.get()};
  FeedFaults worst;
  if (result.verification && !result.verification->interrupted) {
    const Verification& v = *result.verification;
    bool whole = v.feed.fetched;
    const auto take = [&](const FeedFaults& faults) {
      worst.lost = std::max(worst.lost, faults.lost);
      worst.duplicated = std::max(worst.duplicated, faults.duplicated);
      worst.altered = std::max(worst.altered, faults.altered);
      worst.out_of_order = std::max(worst.out_of_order, faults.out_of_order);
    };
    take(v.feed.summary.faults);
    for (const CheckedFeed& feed : v.backends) {
      whole = whole && feed.fetched;
      take(feed.summary.faults);
    }
    if (whole) measured.faults = &worst;
  }
  return judge(result.options.thresholds, measured);
}

std::vector<std::string> failures(const RunResult& result) {
  const Recorder& recorder = result.total;
  std::vector<std::string> reasons;
  if (!result.options.error_limit.allows(recorder.failed(), recorder.done())) {
    reasons.push_back(fmt::format("{} of {} operations failed (max-errors {})", recorder.failed(),
                                  recorder.done(), result.options.max_errors));
  }
  if (recorder.mismatched_answers() > 0) {
    reasons.push_back(fmt::format("{} answers named another message's id", recorder.mismatched_answers()));
  }
  if (result.verification && !result.verification->passed()) reasons.emplace_back("the feed is not verified");
  if (result.chat && !result.interrupted) {
    for (std::string& reason : chat_failures(*result.chat)) reasons.push_back(std::move(reason));
  }
  for (const ThresholdVerdict& verdict : judge_thresholds(result)) {
    if (!verdict.held) reasons.push_back(fmt::format("{}: {}", verdict.text, value_text(verdict)));
  }
  return reasons;
}

std::vector<std::string> invalid_reasons(const RunResult& result) {
  if (result.stages.size() <= 1) return invalid_reasons(result.total, result.generator());
  std::vector<std::string> reasons;
  for (const StageResult& stage : result.stages) {
    if (!stage.ran) continue;
    for (const std::string& reason : invalid_reasons(stage.recorder, stage.generator())) {
      reasons.push_back(stage.plan.name + ": " + reason);
    }
  }
  if (!reasons.empty()) return reasons;
  GeneratorUse use{result.cpu_seconds, {}, result.waits};
  for (const StageResult& stage : result.stages) use.elapsed += stage.elapsed;
  for (const std::string& reason : busy_reasons(result.total, use)) {
    reasons.push_back("all stages together: " + reason);
  }
  return reasons;
}

RunVerdict verdict_of(const RunResult& result) {
  RunFacts facts;
  facts.interrupted = result.interrupted;
  facts.altered = result.altered;
  facts.valid = invalid_reasons(result).empty();
  facts.mismatched_answers = result.total.mismatched_answers();
  facts.systems = &result.systems;
  facts.ended_seconds = seconds(result.elapsed);
  if (result.verification) {
    facts.feed_read = result.verification->feed.fetched;
    facts.feed_passed = result.verification->passed();
  }
  for (const StageResult& stage : result.stages) {
    facts.stages.push_back({stage.plan.name, stage.ran, stage.hit_window, stage.recorder.planned(),
                            stage.recorder.in(Bucket::Ok), stage.recorder.failed()});
  }
  return judge_run(facts);
}

ExitCode exit_code(const RunResult& result) {
  if (result.interrupted) return ExitCode::Interrupted;
  const bool wrong = result.total.mismatched_answers() > 0 ||
                     (result.verification && !result.verification->passed()) ||
                     (result.chat && !result.chat->passed());
  if (wrong) return ExitCode::NotVerified;
  if (!invalid_reasons(result).empty()) return ExitCode::Invalid;
  const bool refused = result.leaderboard && !verdict_of(result).promotable();
  if (refused || !failures(result).empty()) return ExitCode::NotVerified;
  return result.files_failed ? ExitCode::Failed : ExitCode::Passed;
}

}  // namespace dlb::loadgen
