#include "lb/dashboard.h"

#include <array>

#include "common/check.h"
#include "common/embedded_page.h"

// The sources of common/page/ and lb/dashboard/, as they are: see the rule for this file in the Makefile.
#define DLB_FILE(path) DLB_EMBEDDED_FILE("lb/dashboard/" path)

DLB_EMBED(dlb_dashboard_html, DLB_FILE("dashboard.html"))
DLB_EMBED(dlb_dashboard_css, DLB_EMBEDDED_FILE("common/page/palette.css") DLB_FILE("dashboard.css"))
DLB_EMBED(dlb_dashboard_js,
          DLB_EMBEDDED_FILE("common/page/dom.js") DLB_FILE("stream.js") DLB_FILE("words.js")
              DLB_FILE("history.js") DLB_FILE("charts.js") DLB_FILE("backends.js") DLB_FILE("app.js"))

namespace dlb::lb {
namespace {

constexpr std::string_view kMark = "data-actions=\"none\"";

std::string text_with(const HttpBody& body, std::string_view actions) {
  std::string text;
  text.reserve(body.size + actions.size());
  for (const BodyPart& part : *body.parts) text += part.bytes;
  const std::size_t at = text.find(kMark);
  DLB_CHECK(at != std::string::npos);
  return text.replace(at, kMark.size(), "data-actions=\"" + std::string(actions) + "\"");
}

struct Dashboard {
  std::array<std::string, 3> texts;  // by DashboardActions
  std::string header_lines;
};

const Dashboard& dashboard() {
  static const Dashboard made = [] {
    const EmbeddedPage page = make_embedded_page(dlb_dashboard_html(), dlb_dashboard_css(),
                                                 dlb_dashboard_js(), "connect-src 'self'; img-src data:");
    return Dashboard{
        {text_with(page.body, "none"), text_with(page.body, "open"), text_with(page.body, "token")},
        "Content-Security-Policy: " + page.policy + "\r\nReferrer-Policy: no-referrer\r\n"};
  }();
  return made;
}

}  // namespace

std::string_view dashboard_page(DashboardActions actions) {
  return dashboard().texts[static_cast<std::size_t>(actions)];
}

std::string_view dashboard_header_lines() { return dashboard().header_lines; }

}  // namespace dlb::lb
