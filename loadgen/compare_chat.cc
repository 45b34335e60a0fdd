#include "loadgen/compare_chat.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "loadgen/compare_parts.h"

namespace dlb::loadgen {
namespace {

using Runs = std::span<const ComparedRun>;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr std::string_view kNoSeconds =
    "one run a side, and `series` has no seconds of the chat; repeat both to have it judged";
constexpr std::string_view kWrong = "of a side that is not right, figures can only tell against it";
constexpr std::string_view kOtherStart =
    "with publishers it is from the intended time, beside an HTTP load from the request's first byte";
constexpr std::string_view kNeverRight = "a side that is not right is never the same or better";

struct Fault {
  std::string_view name;
  std::uint64_t RunChat::*rows;
};
constexpr std::array kFaults = {
    Fault{"missed", &RunChat::missed},       Fault{"duplicated", &RunChat::duplicated},
    Fault{"reordered", &RunChat::reordered}, Fault{"altered", &RunChat::altered},
    Fault{"phantom", &RunChat::phantom},     Fault{"contradicted", &RunChat::contradicted},
    Fault{"reset", &RunChat::resets},        Fault{"away or behind at the end", &RunChat::unsettled}};
constexpr std::size_t kShownFaults = 5;  // of them; the others are seldom, and stand in the note

bool has_chat(const ComparedRun& run) { return run.chat.has_value(); }
bool is_wrong(const ComparedRun& run) { return run.chat && !run.chat->passed; }

// Of the runs with a chat; NaN where there are none.
double failed_share(Runs runs) {
  const auto with = std::ranges::count_if(runs, has_chat);
  return with == 0 ? kNone
                   : static_cast<double>(std::ranges::count_if(runs, is_wrong)) / static_cast<double>(with);
}

std::string faults_text(const RunChat& chat) {
  std::string text;
  for (const Fault& fault : kFaults) {
    if (chat.*fault.rows > 0)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", fault.name, chat.*fault.rows);
  }
  return text.empty() ? "its report doesn't say why" : text;
}

class ChatComparer {
 public:
  ChatComparer(Runs a, Runs b, const CompareSettings& settings)
      : a_(a), b_(b), settings_(settings), failed_a_(failed_share(a)), failed_b_(failed_share(b)) {}

  ChatComparison run() {
    name_wrong("A", a_);
    name_wrong("B", b_);
    if (std::ranges::all_of(a_, has_chat) && std::ranges::all_of(b_, has_chat)) {
      result_.sides = ChatSides::Both;
      add_figures();
      add_faults();
    } else if (std::ranges::any_of(a_, has_chat) || std::ranges::any_of(b_, has_chat)) {
      result_.sides = ChatSides::Some;
      result_.reason = fmt::format("the chat is not compared: {} had no users of it", without());
      result_.warnings.push_back(result_.reason);
    }
    if (wrong_a() || wrong_b()) result_.wrong = fact("chat not right", "of runs", failed_a_, failed_b_);
    return std::move(result_);
  }

 private:
  bool one_run() const { return a_.size() == 1 && b_.size() == 1; }
  bool wrong_a() const { return failed_a_ > 0; }
  bool wrong_b() const { return failed_b_ > 0; }

  // The runs without a chat, of which the first one is named.
  std::string without() const {
    std::string first;
    std::size_t more = 0;
    for (const Runs side : {a_, b_}) {
      for (const ComparedRun& run : side) {
        if (run.chat) continue;
        if (first.empty()) {
          first = run.name;
        } else {
          ++more;
        }
      }
    }
    return more == 0 ? first : fmt::format("{} and {} more", first, more);
  }

  void name_wrong(std::string_view side, Runs runs) {
    const auto first = std::ranges::find_if(runs, is_wrong);
    if (first == runs.end()) return;
    result_.warnings.push_back(fmt::format("the chat of {} is not right in {} of {} runs; {}: {}", side,
                                           std::ranges::count_if(runs, is_wrong), runs.size(), first->name,
                                           faults_text(*first->chat)));
  }

  void add_figures() {
    const auto deliveries = [](const ComparedRun& run) { return run.chat->deliveries; };
    add("deliveries", "/s", true, deliveries, "");
    std::uint64_t fewest = UINT64_MAX;
    for (const Runs side : {a_, b_}) {
      for (const ComparedRun& run : side) {
        fewest = std::min({fewest, run.chat->accepted, run.chat->fanout.count});
        if (run.chat->deliveries > 0) continue;
        result_.open = true;
        result_.warnings.push_back(run.name + ": no subscriber got a message of the run");
      }
    }
    const bool alike = same_start();
    for (std::size_t i = 0; fewest > 0 && i < kComparedPercentiles.size(); ++i) {
      // Those who get the same message share what delays it: it counts once.
      const bool enough = static_cast<double>(fewest) * kBeyondShare[i] >= kLeastBeyond;
      add(
          fmt::format("fan-out {}", kComparedPercentiles[i]), "ms", false,
          [i](const ComparedRun& run) { return run.chat->fanout.ms[i]; },
          !alike   ? std::string(kOtherStart)
          : enough ? ""
                   : fmt::format("under {:.0f} messages beyond it in a run", kLeastBeyond));
    }
    if (!one_run()) return;
    for (const FigureVerdict& figure : result_.figures) {
      if (apart(figure.b / figure.a)) result_.open = true;
    }
  }

  // Whether all runs measure the fan-out from the same moment.
  bool same_start() const {
    const bool published = a_.front().chat->published;
    const auto same = [&](const ComparedRun& run) { return run.chat->published == published; };
    return std::ranges::all_of(a_, same) && std::ranges::all_of(b_, same);
  }

  // Further than two runs lie from each other by luck, if repetitions differ by --run-spread. NaN is.
  bool apart(double ratio) const {
    const double luck = 2 * std::numbers::sqrt2 * settings_.run_spread;
    return !(std::abs(std::log(ratio)) <= std::max(std::log1p(settings_.min_change), luck));
  }

  template <class Of>
  void add(std::string name, std::string_view unit, bool higher_is_better, Of&& of, std::string reason) {
    const auto a = values_of(a_, of);
    const auto b = values_of(b_, of);
    FigureVerdict figure{std::move(name),   unit, higher_is_better, false, geometric_mean(a),
                         geometric_mean(b), {}};
    if (one_run() && reason != kOtherStart) reason = kNoSeconds;
    if (wrong_a() || wrong_b()) {
      // The side that is right may be called the better one, and nothing else.
      figure.only = wrong_b() ? Verdict::Worse : Verdict::Better;
      if (wrong_a() && wrong_b()) reason = kWrong;
    }
    if (reason.empty()) {
      figure.estimate = compare_runs(a, b, settings_.confidence, settings_.run_spread);
      reason = wrong_a() || wrong_b() ? std::string(kWrong) : figure.estimate.judged ? "" : "a run has none";
    }
    figure.reason = std::move(reason);
    result_.figures.push_back(std::move(figure));
  }

  void add_faults() {
    for (const Fault& fault : std::span(kFaults).first(kShownFaults)) {
      const auto mean = [&](Runs runs) {
        double sum = 0;
        for (const ComparedRun& run : runs) sum += static_cast<double>((*run.chat).*fault.rows);
        return sum / static_cast<double>(runs.size());
      };
      result_.faults.push_back(fact(fmt::format("chat {}", fault.name), "a run", mean(a_), mean(b_)));
    }
  }

  static FigureVerdict fact(std::string name, std::string_view unit, double a, double b) {
    FigureVerdict figure{std::move(name), unit, false, true, a, b, {}};
    figure.estimate.value = b - (std::isnan(a) ? 0 : a);
    figure.verdict = verdict_on_wrong(a, b);
    if (figure.verdict == Verdict::NotJudged) figure.reason = kNeverRight;
    return figure;
  }

  Runs a_, b_;
  const CompareSettings& settings_;
  const double failed_a_, failed_b_;
  ChatComparison result_;
};

}  // namespace

ChatComparison compare_chats(Runs a, Runs b, const CompareSettings& settings) {
  return ChatComparer(a, b, settings).run();
}

}  // namespace dlb::loadgen
