// What `loadgen compare` prints, for people and as JSON. Pure.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "common/json_writer.h"
#include "loadgen/compare.h"

namespace dlb::loadgen {
namespace {

// Three digits or so.
std::string short_number(double value) {
  if (!std::isfinite(value)) return "–";
  const double size = std::abs(value);
  const int digits = size >= 100 || value == 0 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
  return fmt::format("{:.{}f}", value, digits);
}

std::string value_text(const FigureVerdict& figure, double value) {
  if (figure.unit == "a run" && value == std::floor(value)) return fmt::format("{:.0f} a run", value);
  return short_number(value) + (figure.unit == "/s" ? "" : " ") + std::string(figure.unit);
}

std::string estimate_text(const FigureVerdict& figure, double value) {
  if (!std::isfinite(value)) return "–";
  return figure.difference ? fmt::format("{:+.3f}", value) : fmt::format("{:.3f}", value);
}

std::string interval_text(const FigureVerdict& figure) {
  if (!figure.estimate.judged) return "";
  return fmt::format("[{}, {}]", estimate_text(figure, figure.estimate.low),
                     estimate_text(figure, figure.estimate.high));
}

// The interval of a figure leaves no change out, and yet it counts as the same.
bool corrected_away(const FigureVerdict& figure) {
  const double none = figure.difference ? 0 : 1;
  return figure.verdict == Verdict::Same && figure.estimate.judged &&
         (figure.estimate.low > none || figure.estimate.high < none);
}

std::string conclusion(const CompareResult& result) {
  switch (result.overall) {
    case Verdict::Better:
      return "B is better";
    case Verdict::Worse:
      return "B is worse";
    case Verdict::Mixed:
      return "B is better in some figures and worse in others";
    default:
      return result.overall == Verdict::Same ? "no difference"
             : result.judged == 0            ? "nothing could be judged"
                                             : "no verdict: " + std::string(result.undecided);
  }
}

// Each reason with the figures that it keeps from a verdict.
std::string reasons_text(const CompareResult& result) {
  std::vector<std::pair<std::string_view, std::string>> reasons;
  for (const FigureVerdict& figure : result.figures) {
    if (figure.verdict != Verdict::NotJudged || figure.reason.empty()) continue;
    const auto known =
        std::ranges::find_if(reasons, [&](const auto& one) { return one.first == figure.reason; });
    if (known == reasons.end()) {
      reasons.emplace_back(figure.reason, figure.name);
    } else {
      known->second += ", " + figure.name;
    }
  }
  std::string text;
  for (const auto& [reason, names] : reasons)
    text += fmt::format("  note: {} not judged: {}\n", names, reason);
  return text;
}

std::string side_text(std::span<const ComparedRun> runs) {
  std::string text = runs.front().name;
  if (runs.size() > 1) text += fmt::format(" and {} more", runs.size() - 1);
  return text;
}

void side_json(JsonWriter& json, std::string_view key, std::span<const ComparedRun> runs) {
  json.key(key).begin_array();
  for (const ComparedRun& run : runs) json.value(run.name);
  json.end_array();
}

}  // namespace

std::string compare_text(const CompareResult& result, std::span<const ComparedRun> a,
                         std::span<const ComparedRun> b, const CompareSettings& settings) {
  std::string text = fmt::format("A: {}\nB: {}\n\n", side_text(a), side_text(b));
  const auto out = std::back_inserter(text);
  const auto row = [&out](std::string_view name, std::string_view left, std::string_view right,
                          std::string_view ratio, std::string_view interval, std::string_view verdict) {
    std::string line =
        fmt::format("  {:<22} {:>12} {:>12} {:>9}  {:<18} {}", name, left, right, ratio, interval, verdict);
    line.erase(line.find_last_not_of(' ') + 1);
    fmt::format_to(out, "{}\n", line);
  };
  row("figure", "A", "B", "B/A", fmt::format("{:g} % interval", settings.confidence * 100), "verdict");
  bool corrected = false;
  for (const FigureVerdict& figure : result.figures) {
    corrected = corrected || corrected_away(figure);
    const std::string verdict =
        std::string(verdict_name(figure.verdict)) + (corrected_away(figure) ? " *" : "");
    row(figure.name, value_text(figure, figure.a), value_text(figure, figure.b),
        estimate_text(figure, figure.estimate.value), interval_text(figure), verdict);
  }
  if (corrected) {
    fmt::format_to(
        out,
        "  * alone it would stand out; of {} figures{} judged at once one does so by chance, or it is "
        "under {:g} %\n",
        result.judged,
        settings.comparisons > 1 ? fmt::format(" in {} comparisons", settings.comparisons) : "",
        settings.min_change * 100);
  }
  text += reasons_text(result);
  for (const std::string& warning : result.warnings) fmt::format_to(out, "  note: {}\n", warning);
  if (result.by_seconds && result.judged > 0) {
    fmt::format_to(
        out,
        "  note: one run a side: the intervals know the seconds of these two runs, not what differs "
        "from run to run; repeat both to be sure\n");
  }
  fmt::format_to(out, "\n{}\n", conclusion(result));
  return text;
}

std::string compare_json(const CompareResult& result, std::span<const ComparedRun> a,
                         std::span<const ComparedRun> b, const CompareSettings& settings) {
  std::string text;
  JsonWriter json(text);
  json.begin_object().field("schema", 1).field("verdict", verdict_name(result.overall));
  json.field("summary", conclusion(result)).field("judged", result.judged);
  json.field("by", result.by_seconds ? "seconds" : "runs").field("confidence", settings.confidence);
  json.field("min_change", settings.min_change).field("comparisons", settings.comparisons);
  side_json(json, "a", a);
  side_json(json, "b", b);
  json.key("figures").begin_array();
  for (const FigureVerdict& figure : result.figures) {
    json.begin_object().field("name", figure.name).field("unit", figure.unit);
    json.field("higher_is_better", figure.higher_is_better).field("a", figure.a, 4).field("b", figure.b, 4);
    json.field(figure.difference ? "difference" : "ratio", figure.estimate.value, 4).key("interval");
    if (figure.estimate.judged) {
      json.begin_array().value(figure.estimate.low, 4).value(figure.estimate.high, 4).end_array();
      json.field("p", figure.estimate.p, 6).field("p_corrected", figure.adjusted_p, 6);
    } else {
      json.null();
    }
    json.field("verdict", verdict_name(figure.verdict));
    if (figure.verdict == Verdict::NotJudged && !figure.reason.empty()) json.field("reason", figure.reason);
    json.end_object();
  }
  json.end_array().key("chat");
  if (result.chat == ChatSides::None) {
    json.null();
  } else {
    json.begin_object().field("compared", result.chat == ChatSides::Both);
    if (!result.chat_reason.empty()) json.field("reason", result.chat_reason);
    json.end_object();
  }
  json.key("warnings").begin_array();
  for (const std::string& warning : result.warnings) json.value(warning);
  json.end_array().end_object();
  text += '\n';
  return text;
}

}  // namespace dlb::loadgen
