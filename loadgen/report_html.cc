// The report as a page: common/page/ and loadgen/page/*.{html,css,js} put together as one self-contained
// document, with the JSON report and the percentile curves in it as data. It asks nobody for anything: its
// policy lets the browser run this style and this script and load nothing.
#include <algorithm>

#include "common/check.h"
#include "common/embedded_page.h"
#include "common/json_writer.h"
#include "loadgen/report.h"
#include "loadgen/report_parts.h"

// The sources of common/page/ and loadgen/page/, as they are: see the rule for this file in the Makefile.
#define DLB_FILE(path) DLB_EMBEDDED_FILE("loadgen/page/" path)

DLB_EMBED(dlb_report_html, DLB_FILE("report.html"))
DLB_EMBED(dlb_report_css, DLB_EMBEDDED_FILE("common/page/palette.css") DLB_FILE("report.css"))
DLB_EMBED(dlb_report_js,
          DLB_EMBEDDED_FILE("common/page/dom.js") DLB_FILE("words.js") DLB_FILE("timeline.js")
              DLB_FILE("curve.js") DLB_FILE("tables.js") DLB_FILE("chat.js") DLB_FILE("app.js"))

namespace dlb::loadgen {
namespace {

constexpr std::string_view kPolicyMark = "http-equiv=\"Content-Security-Policy\" content=\"";
constexpr std::string_view kDataMark = "id=\"data\">";
// A policy in a document has no say in who frames it, and browsers complain of one that tries.
constexpr std::string_view kNotInDocuments = "frame-ancestors 'none'; ";
constexpr int kStepsPerHalving = 4;

void insert_behind(std::string& page, std::string_view mark, std::string_view text) {
  const std::size_t at = page.find(mark);
  DLB_CHECK(at != std::string::npos);
  page.insert(at + mark.size(), text);
}

// The page with its policy, and without data.
const std::string& page_without_data() {
  static const std::string made = [] {
    const EmbeddedPage page =
        make_embedded_page(dlb_report_html(), dlb_report_css(), dlb_report_js(), "img-src data:");
    std::string text;
    for (const BodyPart& part : *page.body.parts) text += part.bytes;
    std::string policy = page.policy;
    const std::size_t at = policy.find(kNotInDocuments);
    DLB_CHECK(at != std::string::npos);
    policy.erase(at, kNotInDocuments.size());
    insert_behind(text, kPolicyMark, policy);
    return text;
  }();
  return made;
}

// [[percent, ms], …]: each halving of what is left has the same number of points, down to one operation.
void curve_json(JsonWriter& json, std::string_view name, const Histogram& histogram_us) {
  json.key(name).begin_array();
  const auto point = [&](double percent) {
    json.begin_array().value(percent, 6).value(as_ms(histogram_us.percentile(percent)), 3).end_array();
  };
  const auto count = static_cast<double>(histogram_us.count());
  for (double left = 1; count > 0 && left * count >= 1; left /= 2) {
    for (int step = 0; step < kStepsPerHalving; ++step) {
      const double rest = left * (1 - 0.5 * step / kStepsPerHalving);
      if (rest * count >= 1) point(100 * (1 - rest));
    }
  }
  if (count > 0) point(100);
  json.end_array();
}

// As it may stand in a <script>: nothing in it can end that.
std::string inside_script(std::string_view json) {
  std::string text;
  text.reserve(json.size() + json.size() / 16);
  for (const char c : json) {
    if (c == '<') {
      text += "\\u003c";
    } else if (c == '>') {
      text += "\\u003e";
    } else {
      text += c;
    }
  }
  return text;
}

}  // namespace

std::string report_html(const RunResult& result, std::string_view report_json) {
  std::string data;
  JsonWriter json(data);
  json.begin_object().key("report").raw(report_json).key("curves").begin_object();
  const ClassTotals& message = result.total.of(OperationClass::Message);
  curve_json(json, "message", message.latency_us);
  if (message.intended_us.count() > 0) curve_json(json, "message_intended", message.intended_us);
  curve_json(json, "feed", result.total.of(OperationClass::Feed).latency_us);
  if (result.chat) {
    curve_json(json, "fanout", result.chat->fanout_us);
    curve_json(json, "after_ack", result.chat->delivery_us);
    curve_json(json, "catch_up", result.chat->catch_up_us);
    curve_json(json, "join", result.chat->join_us);
  }
  json.end_object().end_object();
  std::string page = page_without_data();
  insert_behind(page, kDataMark, inside_script(data));
  return page;
}

}  // namespace dlb::loadgen
