// Durations and byte sizes as people write them: `500ms`, `1s`, `2m`; `32KiB`, `160MiB`. Values and pure
// functions; nothing here allocates but texts, nothing throws.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/clock.h"
#include "common/result.h"

namespace dlb {

// A number of bytes; its text is `32KiB`, `160MiB`, `2GiB` or a plain number of bytes.
struct ByteSize {
  std::uint64_t bytes = 0;
  auto operator<=>(const ByteSize&) const = default;
};
constexpr ByteSize kib(std::uint64_t n) { return {n << 10}; }
constexpr ByteSize mib(std::uint64_t n) { return {n << 20}; }

// `500ms`, `1s`, `2m`, `1h30m`, `250us`, `10ns`, `1.5s`, or a bare `0`. Never negative. The formatters give
// the shortest text that parses back to the same value.
Result<Duration> parse_duration(std::string_view text);
std::string format_duration(Duration value);
Result<ByteSize> parse_byte_size(std::string_view text);
std::string format_byte_size(ByteSize value);

}  // namespace dlb
