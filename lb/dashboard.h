// The page at /lb/dashboard (L22): common/page/ and lb/dashboard/*.{html,css,js}, put together as one
// self-contained document that lives from /lb/events. What it does is said in lb/dashboard/app.js.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dlb::lb {

// What the page may offer; it believes what it is told here, and guesses nothing.
enum class DashboardActions : std::uint8_t {
  None,   // served by the public listener
  Open,   // by the admin listener
  Token,  // likewise, and it asks for a token: the page asks its reader for it
};

std::string_view dashboard_page(DashboardActions actions);

// Header lines for it, each with CRLF: the policy, and no storing.
std::string_view dashboard_header_lines();

}  // namespace dlb::lb
