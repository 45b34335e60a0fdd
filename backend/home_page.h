// The page at `/`: posts messages and shows the feed by plain HTTP, self-contained. Static bytes, shared by
// all readers.
#pragma once

#include <string_view>

#include "common/http_body.h"

namespace dlb::backend {

HttpBody home_page();

// The page's Content-Security-Policy: nothing from elsewhere, scripts and styles of the page itself only.
inline constexpr std::string_view kHomePagePolicy =
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

}  // namespace dlb::backend
