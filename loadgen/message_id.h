// MessageId: a UUID as 16 bytes, in the one text form that the generator sends (lower case, with hyphens).
// Pure.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace dlb::loadgen {

struct MessageId {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  bool operator==(const MessageId&) const = default;
};

inline constexpr std::size_t kMessageIdChars = 36;

// Makes random bits a version 4 UUID (RFC 9562 section 5.4).
constexpr MessageId make_message_id(std::uint64_t high, std::uint64_t low) {
  return MessageId{(high & ~std::uint64_t{0xf000}) | 0x4000U,
                   (low & 0x3fffffffffffffffU) | 0x8000000000000000U};
}

// Writes exactly kMessageIdChars characters.
inline void write_message_id(const MessageId& id, char* out) {
  static constexpr char kHex[] = "0123456789abcdef";
  for (int digit = 0; digit < 32; ++digit) {
    if (digit == 8 || digit == 12 || digit == 16 || digit == 20) *out++ = '-';
    const std::uint64_t word = digit < 16 ? id.high : id.low;
    *out++ = kHex[(word >> (60 - 4 * (digit % 16))) & 0xf];
  }
}

// False when `text` isn't what write_message_id writes: then it is nobody's id of ours.
inline bool parse_message_id(std::string_view text, MessageId& out) {
  if (text.size() != kMessageIdChars) return false;
  std::array<std::uint64_t, 2> words{};
  int digit = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (i == 8 || i == 13 || i == 18 || i == 23) {
      if (c != '-') return false;
      continue;
    }
    unsigned value = 0;
    if (c >= '0' && c <= '9') {
      value = static_cast<unsigned>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      value = static_cast<unsigned>(c - 'a') + 10;
    } else {
      return false;
    }
    auto& word = words[static_cast<std::size_t>(digit / 16)];
    word = (word << 4) | value;
    ++digit;
  }
  out = MessageId{words[0], words[1]};
  return true;
}

}  // namespace dlb::loadgen
