// The small grammar of HTTP/1.x that several parts need: character classes, decimal lengths, comma-separated
// lists, authorities. Pure functions over views; strict where RFC 9110 and 9112 leave a choice.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

namespace dlb::http {

inline constexpr std::uint8_t kTokenChar = 1;  // tchar of RFC 9110 section 5.6.2
inline constexpr std::uint8_t kControl = 2;    // C0 without HTAB, and DEL
// May stand in a request target: visible, not `#`; bytes over 0x7f too.
inline constexpr std::uint8_t kTargetChar = 4;
inline constexpr std::uint8_t kHostChar = 8;  // reg-name or IPv4 address, without `%` and `,`
extern const std::array<std::uint8_t, 256> kCharClass;

inline bool has_class(char c, std::uint8_t mask) {
  return (kCharClass[static_cast<unsigned char>(c)] & mask) != 0;
}
constexpr char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; }

// One tchar at least.
inline bool is_token(std::string_view text) {
  for (const char c : text) {
    if (!has_class(c, kTokenChar)) return false;
  }
  return !text.empty();
}

// Whether the bytes at `text`, known to be N - 1 long, are a lower-case literal of letters and `-` in any
// case. The length is a constant, so this becomes a few wide compares: a letter's case bit is masked out of
// the difference, a
// `-` must match exactly. Two bytes, or four and more.
template <std::size_t N>
bool same_letters(const char* text, const char (&literal)[N]) {
  constexpr std::size_t kLength = N - 1;
  const auto differs = [&]<class Word>(std::size_t at, Word) {
    Word got = 0;
    Word wanted = 0;
    std::memcpy(&got, text + at, sizeof got);
    std::memcpy(&wanted, literal + at, sizeof wanted);
    // Letters have 0x40 set, `-` (0x2d) has not: move that bit down to the case bit.
    const Word case_bits = static_cast<Word>((wanted >> 1) & static_cast<Word>(0x2020202020202020ULL));
    return static_cast<Word>((got ^ wanted) & static_cast<Word>(~case_bits)) != 0;
  };
  if constexpr (kLength >= 8) {
    for (std::size_t at = 0; at + 8 <= kLength; at += 8) {
      if (differs(at, std::uint64_t{})) return false;
    }
    return kLength % 8 == 0 || !differs(kLength - 8, std::uint64_t{});
  } else if constexpr (kLength >= 4) {
    return !differs(0, std::uint32_t{}) && !differs(kLength - 4, std::uint32_t{});
  } else {
    static_assert(kLength == 2);
    return !differs(0, std::uint16_t{});
  }
}
template <std::size_t N>
bool equals_letters(std::string_view text, const char (&literal)[N]) {
  return text.size() == N - 1 && same_letters(text.data(), literal);
}

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
