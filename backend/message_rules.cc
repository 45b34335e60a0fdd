#include "backend/message_rules.h"

#include <cstring>

namespace dlb::backend {
namespace {

// Decodes the code point at text[at] into `code`; returns its length in bytes, 0 when it is not valid UTF-8.
// The bounds of the second byte per first byte are table 3-7 of the Unicode standard.
std::size_t decode(std::string_view text, std::size_t at, std::uint32_t& code) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[at + i]); };
  const std::uint8_t first = byte(0);
  if (first < 0x80) {
    code = first;
    return 1;
  }
  std::size_t length = 0;
  std::uint8_t low = 0x80;
  std::uint8_t high = 0xBF;
  if (first >= 0xC2 && first <= 0xDF) {
    length = 2;
    code = first & 0x1FU;
  } else if (first >= 0xE0 && first <= 0xEF) {
    length = 3;
    code = first & 0x0FU;
    if (first == 0xE0) low = 0xA0;   // overlong
    if (first == 0xED) high = 0x9F;  // surrogates
  } else if (first >= 0xF0 && first <= 0xF4) {
    length = 4;
    code = first & 0x07U;
    if (first == 0xF0) low = 0x90;   // overlong
    if (first == 0xF4) high = 0x8F;  // over U+10FFFF
  } else {
    return 0;
  }
  if (at + length > text.size()) return 0;
  if (byte(1) < low || byte(1) > high) return 0;
  code = (code << 6) | (byte(1) & 0x3FU);
  for (std::size_t i = 2; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80) return 0;
    code = (code << 6) | (byte(i) & 0x3FU);
  }
  return length;
}

// Whether the eight bytes at `text` are printable ASCII: the common case, eight code points and nothing to
// note.
bool is_plain_ascii_word(const char* text) {
  std::uint64_t word = 0;
  std::memcpy(&word, text, sizeof word);
  constexpr std::uint64_t kOnes = 0x0101010101010101U;
  constexpr std::uint64_t kHighs = 0x8080808080808080U;
  const std::uint64_t below_space = (word - kOnes * 0x20) & ~word;
  const std::uint64_t not_del = word ^ (kOnes * 0x7F);
  const std::uint64_t is_del = (not_del - kOnes) & ~not_del;
  return ((word | below_space | is_del) & kHighs) == 0;
}

std::optional<InputError> check_short_text(std::string_view text, std::string_view field,
                                           std::size_t max_characters) {
  if (text.empty()) return field_error(field, "must not be empty");
  // No code point is longer than 4 bytes: what is longer than that for sure is not worth decoding.
  const TextShape shape = shape_of(text.substr(0, max_characters * 4 + 4));
  const bool too_long = text.size() > max_characters * 4 || shape.characters > max_characters;
  if (too_long) {
    return field_error(field, "must be at most " + std::to_string(max_characters) + " characters long");
  }
  if (!shape.valid_utf8) return field_error(field, "is not valid UTF-8");
  if (shape.has_control) return field_error(field, "must not contain control characters");
  return std::nullopt;
}

}  // namespace

InputError field_error(std::string_view field, std::string_view what) {
  InputError error;
  error.detail.reserve(field.size() + what.size() + 2);
  error.detail.append(field).append(" ").append(what);
  return error;
}

TextShape shape_of(std::string_view text) {
  TextShape shape;
  std::size_t at = 0;
  while (at < text.size()) {
    if (text.size() - at >= 8 && is_plain_ascii_word(text.data() + at)) {
      at += 8;
      shape.characters += 8;
      continue;
    }
    std::uint32_t code = 0;
    const std::size_t length = decode(text, at, code);
    if (length == 0) return shape;
    at += length;
    ++shape.characters;
    if (code < 0x20 || (code >= 0x7F && code <= 0x9F)) {
      shape.has_control = true;
      if (code == 0) shape.has_nul = true;
    }
  }
  shape.valid_utf8 = true;
  return shape;
}

std::optional<InputError> check_message_id(std::string_view id, std::string_view field) {
  return check_short_text(id, field, kMessageIdMaxCharacters);
}

std::optional<InputError> check_client_name(std::string_view name, std::string_view field) {
  return check_short_text(name, field, kClientNameMaxCharacters);
}

std::optional<InputError> check_message_text(std::string_view text) {
  if (text.empty()) return field_error(kFieldMessage, "must not be empty");
  if (text.size() > kMessageMaxBytes) {
    InputError error =
        field_error(kFieldMessage, "must be at most " + std::to_string(kMessageMaxBytes) + " bytes long");
    error.status = 413;
    error.code = "too_large";
    return error;
  }
  const TextShape shape = shape_of(text);
  if (!shape.valid_utf8) return field_error(kFieldMessage, "is not valid UTF-8");
  if (shape.has_nul) return field_error(kFieldMessage, "must not contain U+0000");
  return std::nullopt;
}

std::string uuid_v4(std::uint64_t high, std::uint64_t low) {
  high = (high & ~0xF000ULL) | 0x4000ULL;                        // version 4
  low = (low & ~0xC000000000000000ULL) | 0x8000000000000000ULL;  // variant 10
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(36);
  for (int nibble = 0; nibble < 32; ++nibble) {
    if (nibble == 8 || nibble == 12 || nibble == 16 || nibble == 20) text.push_back('-');
    const std::uint64_t word = nibble < 16 ? high : low;
    text.push_back(kDigits[(word >> (60 - 4 * (nibble % 16))) & 0xF]);
  }
  return text;
}

}  // namespace dlb::backend
