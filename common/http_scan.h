// scan_head: finds the end of a head as its bytes come in, and refuses at once what must not stand in one: a
// bare CR or LF, NUL and every other control byte but HTAB. Looks at each byte once. Internal to the head
// parser; pure.
#pragma once

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "common/http_parser.h"

namespace dlb::http {

struct Scan {
  ParseStatus status = ParseStatus::NeedMore;
  std::size_t end = 0;  // Complete: behind the empty line; else how far the bytes are known to be sound
  std::string_view reason{};
};

inline bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

// The first byte at or behind `i` that is a control byte (HTAB and DEL too), or `size`; many bytes at a time.
inline std::size_t next_control(const char* bytes, std::size_t i, std::size_t size) {
#ifdef __SSE2__
  for (; i + 16 <= size; i += 16) {
    const __m128i block = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes + i));
    const __m128i low = _mm_cmpeq_epi8(_mm_min_epu8(block, _mm_set1_epi8(0x1f)), block);
    const __m128i del = _mm_cmpeq_epi8(block, _mm_set1_epi8(0x7f));
    const auto controls = static_cast<unsigned>(_mm_movemask_epi8(_mm_or_si128(low, del)));
    if (controls != 0) return i + static_cast<std::size_t>(std::countr_zero(controls));
  }
#else
  for (; i + 8 <= size; i += 8) {
    constexpr std::uint64_t kLow = 0x7f7f7f7f7f7f7f7fULL;
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + i, sizeof word);
    const std::uint64_t at_least_space = ((word & kLow) + 0x6060606060606060ULL) | word;
    const std::uint64_t not_delete = (((word ^ kLow) & kLow) + kLow) | word;
    if ((~(at_least_space & not_delete) & ~kLow) != 0) break;  // which one is found below
  }
#endif
  while (i < size && !is_control(bytes[i])) ++i;
  return i;
}

// Looks at the bytes from `scanned` on and moves it over what is sound. `first` is where the first line
// starts. Needs no memory but the cursor: the byte before it tells whether a line starts there.
inline Scan scan_head(std::string_view bytes, std::size_t first, std::size_t& scanned) {
  const char* const p = bytes.data();
  const std::size_t size = bytes.size();
  std::size_t i = std::max(scanned, first);
  while (true) {
    i = next_control(p, i, size);
    if (i == size) break;
    if (p[i] == '\t') {
      ++i;
      continue;
    }
    if (p[i] != '\r') {
      return {ParseStatus::Bad, i,
              p[i] == '\n' ? "a line ends with a bare LF" : "a control byte in the head"};
    }
    if (i + 1 == size) break;  // its LF may come
    if (p[i + 1] != '\n') return {ParseStatus::Bad, i, "a bare CR in the head"};
    if (i == first || p[i - 1] == '\n') {
      scanned = i + 2;
      return {ParseStatus::Complete, i + 2, {}};
    }
    i += 2;
  }
  scanned = i;
  return {ParseStatus::NeedMore, i, {}};
}

}  // namespace dlb::http
