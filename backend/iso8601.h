// Reading points in time as clients send them: ISO 8601 / RFC 3339, a calendar date with time and zone. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace dlb::backend {

// Microseconds since 1970 of `2026-09-10T14:00:00.123456+00:00`: `T` or a space between, any digits of a
// fraction or none (cut behind the sixth), a zone `Z`, `+hh:mm` or `+hhmm`. Nothing for all else, a missing
// zone and days that don't exist included. A 60th second is the next minute's first.
std::optional<std::int64_t> parse_iso8601(std::string_view text);

}  // namespace dlb::backend
