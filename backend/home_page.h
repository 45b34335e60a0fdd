// The page at `/`, for people to chat with: backend/page/*.{html,css,js}, put together as one self-contained
// document of static bytes that all readers share. What it does is said in backend/page/app.js.
#pragma once

#include <string_view>

#include "common/http_body.h"

namespace dlb::backend {

HttpBody home_page();

// The page's Content-Security-Policy: this style and this script, by their hashes, and nothing else; to be
// talked to are the page's own origin and WebSockets over TLS, which may be anywhere (public-wss-url).
std::string_view home_page_policy();

}  // namespace dlb::backend
