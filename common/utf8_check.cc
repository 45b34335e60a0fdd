#include "common/utf8_check.h"

#include <cstddef>
#include <cstring>

namespace dlb {
namespace {

constexpr std::uint64_t kHighs = 0x8080808080808080U;

std::uint64_t word_at(const char* at) {
  std::uint64_t word = 0;
  std::memcpy(&word, at, sizeof word);
  return word;
}

// The end of the ASCII that begins at `at`, to the step of a word; `begin` is where the bytes begin.
const char* skip_ascii(const char* begin, const char* at, const char* end) {
  while (end - at >= 16 && ((word_at(at) | word_at(at + 8)) & kHighs) == 0) at += 16;
  if (end - at >= 8 && (word_at(at) & kHighs) == 0) at += 8;
  // The last bytes once more with some before them, which are ASCII, or the answer is no.
  if (end - at < 8 && end - begin >= 8 && (word_at(end - 8) & kHighs) == 0) return end;
  return at;
}

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// The length of a whole code point of two bytes, or of three where the second one has the common bounds; 0:
// look closer.
int common_length(const char* at, const char* end) {
  const auto byte = static_cast<std::uint8_t>(*at);
  if (byte >= 0xC2 && byte < 0xE0) return end - at >= 2 && is_continuation(at[1]) ? 2 : 0;
  if (byte <= 0xE0 || byte >= 0xF0 || byte == 0xED || end - at < 3) return 0;
  return is_continuation(at[1]) && is_continuation(at[2]) ? 3 : 0;
}

}  // namespace

// The bounds of the second byte per first byte are table 3-7 of the Unicode standard.
bool Utf8Check::feed(std::string_view bytes) {
  if (needed_ == kBroken) return false;
  const char* at = bytes.data();
  const char* const end = at + bytes.size();
  std::uint8_t needed = needed_;
  std::uint8_t low = low_;
  std::uint8_t high = high_;
  while (at < end) {
    const auto byte = static_cast<std::uint8_t>(*at);
    if (needed > 0) {
      if (byte < low || byte > high) break;
      low = 0x80;
      high = 0xBF;
      --needed;
      ++at;
      continue;
    }
    if (byte < 0x80) {
      const char* const next = skip_ascii(bytes.data(), at, end);
      at = next == at ? at + 1 : next;
      continue;
    }
    if (const int length = common_length(at, end); length > 0) {
      at += length;
      continue;
    }
    low = 0x80;
    high = 0xBF;
    if (byte < 0xC2 || byte > 0xF4) break;
    if (byte < 0xE0) {
      needed = 1;
    } else if (byte < 0xF0) {
      needed = 2;
      if (byte == 0xE0) low = 0xA0;   // overlong
      if (byte == 0xED) high = 0x9F;  // surrogates
    } else {
      needed = 3;
      if (byte == 0xF0) low = 0x90;   // overlong
      if (byte == 0xF4) high = 0x8F;  // over U+10FFFF
    }
    ++at;
  }
  needed_ = at == end ? needed : kBroken;
  low_ = low;
  high_ = high;
  return at == end;
}

bool is_valid_utf8(std::string_view bytes) {
  Utf8Check check;
  return check.feed(bytes) && check.complete();
}

}  // namespace dlb
