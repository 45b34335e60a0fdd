#include "loadgen/verify_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "common/json_writer.h"
#include "loadgen/chat_text.h"

namespace dlb::loadgen {
namespace {

std::string_view outcome_name(CheckOutcome outcome) {
  switch (outcome) {
    case CheckOutcome::Pass:
      return "pass";
    case CheckOutcome::Skip:
      return "skip";
    case CheckOutcome::Unreachable:
      return "unreachable";
    case CheckOutcome::Fail:
      break;
  }
  return "fail";
}

bool bad(CheckOutcome outcome) {
  return outcome == CheckOutcome::Fail || outcome == CheckOutcome::Unreachable;
}

double milliseconds(Duration took) { return seconds(took) * 1000; }

}  // namespace

std::size_t VerifyReport::count(CheckOutcome outcome) const {
  return static_cast<std::size_t>(
      std::count_if(rows.begin(), rows.end(), [&](const CheckRow& row) { return row.outcome == outcome; }));
}

int exit_code(const VerifyReport& report) {
  if (report.interrupted) return 130;
  if (report.count(CheckOutcome::Unreachable) > 0) return 2;
  return report.count(CheckOutcome::Fail) > 0 ? 3 : 0;
}

std::string verify_text(const VerifyReport& report) {
  std::size_t width = 0;
  for (const CheckRow& row : report.rows) width = std::max(width, row.name.size());
  std::string text;
  const auto out = std::back_inserter(text);
  for (const CheckRow& row : report.rows) {
    const std::string_view mark = bad(row.outcome) ? "FAIL" : outcome_name(row.outcome);
    fmt::format_to(out, "{:<4}  {:<{}}  {:>7.1f} ms  {}\n", mark, row.name, width, milliseconds(row.took),
                   escape_for_terminal(row.found));
    if (bad(row.outcome) && !row.hint.empty()) fmt::format_to(out, "      look at: {}\n", row.hint);
  }
  fmt::format_to(out, "{}: {} passed, {} failed, {} skipped{}\n", report.url,
                 report.count(CheckOutcome::Pass),
                 report.count(CheckOutcome::Fail) + report.count(CheckOutcome::Unreachable),
                 report.count(CheckOutcome::Skip), report.interrupted ? "; interrupted" : "");
  return text;
}

std::string verify_json(const VerifyReport& report) {
  std::string text;
  JsonWriter json(text);
  json.begin_object().field("schema", 1).field("url", report.url);
  json.field("passed", exit_code(report) == 0).field("exit_code", exit_code(report));
  json.field("interrupted", report.interrupted).key("checks").begin_array();
  for (const CheckRow& row : report.rows) {
    json.begin_object().field("name", row.name).field("outcome", outcome_name(row.outcome));
    json.field("ms", milliseconds(row.took), 3).field("found", row.found);
    if (bad(row.outcome)) json.field("hint", row.hint);
    json.end_object();
  }
  json.end_array().end_object();
  text += '\n';
  return text;
}

}  // namespace dlb::loadgen
