// The small grammar of HTTP/1.x that several parts need: character classes, decimal lengths, comma-separated
// lists, authorities. Pure functions over views; strict where RFC 9110 and 9112 leave a choice.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace dlb::http {

inline constexpr std::uint8_t kTokenChar = 1;  // tchar of RFC 9110 section 5.6.2
inline constexpr std::uint8_t kControl = 2;    // C0 without HTAB, and DEL
inline constexpr std::uint8_t kTargetChar =
    4;  // may stand in a request target: visible, not `#`; bytes over 0x7f too
inline constexpr std::uint8_t kHostChar = 8;  // reg-name or IPv4 address, without `%` and `,`
extern const std::array<std::uint8_t, 256> kCharClass;

inline bool has_class(char c, std::uint8_t mask) {
  return (kCharClass[static_cast<unsigned char>(c)] & mask) != 0;
}
constexpr char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; }

bool is_token(std::string_view text);  // one tchar at least

// Without spaces and tabs at both ends.
std::string_view trim(std::string_view text);

// `name: value` without its CRLF: where the colon is, or npos when the line is no field line by RFC 9112
// section 5: empty name, a name with other than tchars (white space before the colon, a folded line), control
// bytes in the value.
std::size_t field_line_colon(std::string_view line);

// 1*DIGIT up to 2^63-1, nothing else.
std::optional<std::uint64_t> parse_content_length(std::string_view text);

// uri-host [ ":" port ], not empty, no user information.
bool is_authority(std::string_view text);

// Calls f(element) for each element of a comma-separated list, trimmed, empty ones skipped, until f answers
// false.
template <class F>
void for_each_element(std::string_view list, F&& f) {
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    const std::string_view element = trim(list.substr(0, comma));
    list = comma == std::string_view::npos ? std::string_view() : list.substr(comma + 1);
    if (!element.empty() && !f(element)) return;
  }
}

}  // namespace dlb::http
