// Utf8Check: whether bytes that come in pieces are valid UTF-8 (RFC 3629: shortest forms, no surrogates, up
// to U+10FFFF). It fails at the first byte that can't be right, also in the middle of a code point, and its
// state goes over the cuts: three bytes. ASCII is passed over 16 bytes a step. Pure.
#pragma once

#include <cstdint>
#include <string_view>

namespace dlb {

class Utf8Check {
 public:
  // Goes on with `bytes`; false at the first wrong one (and then for good, until reset()).
  bool feed(std::string_view bytes);
  // No code point is unfinished: the text may end here.
  bool complete() const { return needed_ == 0; }
  void reset() { needed_ = 0; }

 private:
  static constexpr std::uint8_t kBroken = 255;

  std::uint8_t needed_ = 0;  // continuation bytes of the code point still to come
  std::uint8_t low_ = 0;     // bounds of the next of them
  std::uint8_t high_ = 0;
};

// All of `bytes` at once.
bool is_valid_utf8(std::string_view bytes);

}  // namespace dlb
