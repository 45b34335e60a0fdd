// The figures that two sides have in common and their verdicts; texts are compare_text.cc's.
#include "loadgen/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>

#include "loadgen/compare_chat.h"
#include "loadgen/compare_parts.h"

namespace dlb::loadgen {
namespace {

using Runs = std::span<const ComparedRun>;

constexpr std::size_t kPercentileCount = kComparedPercentiles.size();
constexpr double kGapShare = 0.05;  // of the seconds
constexpr std::string_view kStoodStill = "a side stood still, and the figures can't tell how much that is";
constexpr std::string_view kChatApart =
    "what could be judged is the same, and the chat's figures, which could not, are apart";
constexpr std::string_view kBothWrong = "a side that is not right is never the same or better";

std::vector<ErrorCount> error_counts(Runs runs) {
  std::vector<ErrorCount> counts;
  for (const ComparedRun& run : runs)
    counts.push_back({static_cast<double>(run.failed), static_cast<double>(run.done)});
  return counts;
}

double error_percent(const std::vector<ErrorCount>& counts) {
  double sum = 0;
  for (const ErrorCount& count : counts) sum += count.done > 0 ? count.failed / count.done : 1;
  return 100 * sum / static_cast<double>(counts.size());
}

// The last second is a part of one; seconds in which nothing was done have no latency.
struct WholeSeconds {
  std::vector<double> values;
  std::size_t without = 0;

  std::size_t size() const { return values.size() + without; }
  double gap_share() const {
    return size() == 0 ? 0 : static_cast<double>(without) / static_cast<double>(size());
  }
};

WholeSeconds whole_seconds(std::vector<double> values) {
  if (values.size() > 2) values.pop_back();
  WholeSeconds seconds;
  seconds.without = std::erase_if(values, [](double value) { return !std::isfinite(value); });
  seconds.values = std::move(values);
  return seconds;
}

// Whether `side` stood still in seconds in which the other did not; rare operations miss seconds on both.
bool stood_still(const WholeSeconds& side, const WholeSeconds& other) {
  return side.gap_share() > kGapShare && side.gap_share() > kGapShare + 2 * other.gap_share();
}

std::vector<ErrorCount> error_seconds(const RunSeries& series) {
  std::vector<ErrorCount> counts;
  const std::size_t size = std::min(series.done.size(), series.failed.size());
  for (std::size_t i = 0; i + 1 < size; ++i) {
    if (std::isfinite(series.done[i]) && std::isfinite(series.failed[i]))
      counts.push_back({series.failed[i], series.done[i]});
  }
  return counts;
}

class Comparer {
 public:
  Comparer(Runs a, Runs b, const CompareSettings& settings) : a_(a), b_(b), settings_(settings) {
    result_.by_seconds = a.size() == 1 && b.size() == 1;
  }

  CompareResult run() {
    add_throughput();
    add_errors();
    if (result_.by_seconds) {
      add_latency_seconds("message", &RunSeries::message);
      add_latency_seconds("feed", &RunSeries::feed);
      add_latency_seconds("message intended", &RunSeries::message_intended);
    }
    add_latency("message", &ComparedRun::message);
    add_latency("feed", &ComparedRun::feed);
    add_latency("message intended", &ComparedRun::message_intended);
    add_latency("feed intended", &ComparedRun::feed_intended);
    ChatComparison chat = compare_chats(a_, b_, settings_);
    for (FigureVerdict& figure : chat.figures) add(std::move(figure));
    judge();
    add_verification();
    add_chat(std::move(chat));
    conclude();
    warn();
    return std::move(result_);
  }

 private:
  SeriesSettings series_settings() const {
    return {settings_.confidence, settings_.seed, settings_.resamples};
  }
  Estimate by_seconds(const std::vector<double>& a, const std::vector<double>& b, bool logs) const {
    return compare_series(whole_seconds(a).values, whole_seconds(b).values, logs, series_settings());
  }

  void add_throughput() {
    const auto of = [](const ComparedRun& run) { return run.throughput; };
    const auto a = values_of(a_, of);
    const auto b = values_of(b_, of);
    const Estimate estimate = result_.by_seconds
                                  ? by_seconds(a_[0].series.ok, b_[0].series.ok, false)
                                  : compare_runs(a, b, settings_.confidence, settings_.run_spread);
    for (const Runs side : {a_, b_}) {
      for (const ComparedRun& run : side) {
        if (run.throughput <= 0) hide(run.name + ": no operation was answered as it should be");
      }
    }
    add({"throughput", "/s", true, false, geometric_mean(a), geometric_mean(b), estimate});
  }

  void add_errors() {
    const auto a = error_counts(a_);
    const auto b = error_counts(b_);
    Estimate estimate = result_.by_seconds
                            ? compare_error_series(error_seconds(a_[0].series), error_seconds(b_[0].series),
                                                   series_settings())
                            : compare_error_runs(a, b, settings_.confidence);
    for (double* part : {&estimate.value, &estimate.low, &estimate.high}) *part *= 100;
    if (!estimate.judged) estimate.value = error_percent(b) - error_percent(a);
    add({"errors", "%", false, true, error_percent(a), error_percent(b), estimate});
  }

  void add_latency_seconds(std::string_view name, RunSeries::Percentiles RunSeries::*percentiles) {
    for (std::size_t i = 0; i < kPercentileCount; ++i) {
      const auto a = whole_seconds((a_[0].series.*percentiles)[i]);
      const auto b = whole_seconds((b_[0].series.*percentiles)[i]);
      if (a.values.empty() || b.values.empty()) continue;
      const bool a_still = stood_still(a, b);
      const bool b_still = stood_still(b, a);
      if (i == 0 && a_still) hide_seconds(name, "A", a);
      if (i == 0 && b_still) hide_seconds(name, "B", b);
      add({fmt::format("{} {} a second", name, kComparedPercentiles[i]),
           "ms",
           false,
           false,
           geometric_mean(a.values),
           geometric_mean(b.values),
           compare_series(a.values, b.values, true, series_settings()),
           1,
           Verdict::NotJudged,
           a_still   ? Verdict::Better
           : b_still ? Verdict::Worse
                     : Verdict::NotJudged,
           {}});
    }
  }

  // Something that the figures do not show: they may say that a side is worse, not that both are the same.
  void hide(std::string warning) {
    hidden_ = kStoodStill;
    result_.warnings.push_back(std::move(warning));
  }
  void hide_seconds(std::string_view name, std::string_view side, const WholeSeconds& seconds) {
    hide(fmt::format("{}: no answer in {} of {} seconds of {}: its latencies are those of the others", name,
                     seconds.without, seconds.size(), side));
  }

  void add_latency(std::string_view name, RunLatency ComparedRun::*latency) {
    const auto measured = [latency](const ComparedRun& run) { return (run.*latency).count > 0; };
    if (!std::ranges::all_of(a_, measured) || !std::ranges::all_of(b_, measured)) return;
    std::uint64_t fewest = UINT64_MAX;
    for (const Runs side : {a_, b_}) {
      for (const ComparedRun& run : side) fewest = std::min(fewest, (run.*latency).count);
    }
    for (std::size_t i = 0; i < kPercentileCount; ++i) {
      const bool enough = static_cast<double>(fewest) * kBeyondShare[i] >= kLeastBeyond;
      const auto of = [latency, i](const ComparedRun& run) { return (run.*latency).ms[i]; };
      const auto a = values_of(a_, of);
      const auto b = values_of(b_, of);
      add({fmt::format("{} {}", name, kComparedPercentiles[i]), "ms", false, false, geometric_mean(a),
           geometric_mean(b),
           enough ? compare_runs(a, b, settings_.confidence, settings_.run_spread) : Estimate{}});
    }
  }

  void add(FigureVerdict figure) {
    if (!figure.estimate.judged && !figure.difference) figure.estimate.value = figure.b / figure.a;
    result_.figures.push_back(std::move(figure));
  }

  void judge() {
    std::vector<double> p;
    for (const FigureVerdict& figure : result_.figures) {
      if (figure.estimate.judged) p.push_back(figure.estimate.p);
    }
    result_.judged = p.size();
    const std::vector<double> adjusted = holm(p, settings_.comparisons);
    std::size_t next = 0;
    for (FigureVerdict& figure : result_.figures) {
      if (!figure.estimate.judged) continue;
      figure.adjusted_p = adjusted[next++];
      const double value = figure.estimate.value;
      const bool large =
          figure.difference ? value != 0 : std::abs(std::log(value)) > std::log1p(settings_.min_change);
      if (!large || figure.adjusted_p >= 1 - settings_.confidence) {
        figure.verdict = Verdict::Same;
      } else {
        const bool higher = value > (figure.difference ? 0 : 1);
        figure.verdict = higher == figure.higher_is_better ? Verdict::Better : Verdict::Worse;
      }
      if (figure.only != Verdict::NotJudged && figure.verdict != figure.only)
        figure.verdict = Verdict::NotJudged;
    }
  }

  // Runs whose feed was verified; one that was not is wrong, not slow.
  void add_verification() {
    const auto failed = [](Runs runs) {
      return static_cast<double>(
          std::ranges::count_if(runs, [](const ComparedRun& run) { return run.verified == false; }));
    };
    const double a = failed(a_) / static_cast<double>(a_.size());
    const double b = failed(b_) / static_cast<double>(b_.size());
    if (a == 0 && b == 0) return;
    FigureVerdict figure{"not verified", "of runs", false, true, a, b, {}};
    figure.estimate.value = b - a;
    figure.verdict = verdict_on_wrong(a, b);
    add_wrong(std::move(figure));
  }

  void add_chat(ChatComparison chat) {
    result_.chat = chat.sides;
    result_.chat_reason = std::move(chat.reason);
    for (FigureVerdict& fact : chat.faults) result_.figures.push_back(std::move(fact));
    if (chat.wrong) add_wrong(std::move(*chat.wrong));
    std::ranges::move(chat.warnings, std::back_inserter(result_.warnings));
    if (chat.open && hidden_.empty()) hidden_ = kChatApart;
  }

  // Of whole runs that are not right.
  void add_wrong(FigureVerdict fact) {
    wrong_.push_back(fact.verdict);
    result_.figures.push_back(std::move(fact));
  }

  void conclude() {
    const auto any = [&](Verdict verdict) {
      return std::ranges::any_of(result_.figures,
                                 [&](const FigureVerdict& figure) { return figure.verdict == verdict; });
    };
    const bool better = any(Verdict::Better);
    const bool worse = any(Verdict::Worse);
    result_.overall = better && worse                           ? Verdict::Mixed
                      : worse                                   ? Verdict::Worse
                      : better                                  ? Verdict::Better
                      : result_.judged == 0 || !hidden_.empty() ? Verdict::NotJudged
                                                                : Verdict::Same;
    result_.undecided = hidden_;
    const auto any_wrong = [&](Verdict verdict) {
      return std::ranges::find(wrong_, verdict) != wrong_.end();
    };
    if (any_wrong(Verdict::Worse) && !any_wrong(Verdict::Better)) {
      result_.overall = Verdict::Worse;
    } else if (any_wrong(Verdict::NotJudged) && (better || !worse)) {
      result_.overall = Verdict::NotJudged;
      result_.undecided = kBothWrong;
    }
  }

  void warn() {
    // Which values of each member of the configuration stand on which side.
    std::map<std::string, std::pair<std::set<std::string>, std::set<std::string>>> members;
    for (const ComparedRun& run : a_) {
      for (const auto& [key, value] : run.config) members[key].first.insert(value);
    }
    for (const ComparedRun& run : b_) {
      for (const auto& [key, value] : run.config) members[key].second.insert(value);
    }
    for (const auto& [key, sides] : members) {
      if (key.ends_with("url") || key.ends_with("urls") ||
          (sides.first == sides.second && sides.first.size() <= 1))
        continue;
      if (key == "seed" && sides.first == sides.second) continue;
      result_.warnings.push_back(fmt::format("configurations differ: {} is {} in A and {} in B", key,
                                             listed(sides.first), listed(sides.second)));
    }
    for (const Runs side : {a_, b_}) {
      for (const ComparedRun& run : side) {
        if (!run.invalid.empty())
          result_.warnings.push_back(fmt::format("{} is INVALID: {}", run.name, run.invalid.front()));
        if (run.interrupted) result_.warnings.push_back(run.name + " was interrupted");
      }
    }
    if (result_.judged == 0) {
      result_.warnings.push_back(
          fmt::format("nothing could be judged: one run a side needs a `series` of {} whole seconds, else "
                      "two runs a side",
                      kLeastSeconds));
    }
  }

  static std::string listed(const std::set<std::string>& values) {
    return values.empty() ? "not there" : fmt::format("{}", fmt::join(values, " or "));
  }

  Runs a_, b_;
  const CompareSettings& settings_;
  CompareResult result_;
  std::string_view hidden_;     // why "the same" can't be said
  std::vector<Verdict> wrong_;  // of feed and chat, where a run of either side is not right
};

}  // namespace

std::string_view verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::Same:
      return "same";
    case Verdict::Better:
      return "better";
    case Verdict::Worse:
      return "worse";
    case Verdict::Mixed:
      return "mixed";
    case Verdict::NotJudged:
      break;
  }
  return "not judged";
}

std::vector<std::string> refusals(std::span<const ComparedRun> runs, std::int64_t schema, bool force) {
  std::vector<std::string> reasons;
  for (const ComparedRun& run : runs) {
    if (run.schema != schema) {
      reasons.push_back(fmt::format("{} has schema {}, this program knows {}", run.name, run.schema, schema));
    } else if (run.done == 0) {
      reasons.push_back(run.name + ": nothing was done in it");
    } else if (!force && !run.invalid.empty()) {
      reasons.push_back(
          fmt::format("{} is INVALID: {} (--force compares it all the same)", run.name, run.invalid.front()));
    } else if (!force && run.interrupted) {
      reasons.push_back(run.name + " was interrupted (--force compares it all the same)");
    }
  }
  return reasons;
}

CompareResult compare(std::span<const ComparedRun> a, std::span<const ComparedRun> b,
                      const CompareSettings& settings) {
  return Comparer(a, b, settings).run();
}

}  // namespace dlb::loadgen
