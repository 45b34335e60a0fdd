// scan_head: finds the end of a head as its bytes come in, and refuses at once what must not stand in one: a
// bare CR or LF, NUL and every other control byte but HTAB. Notes where lines end on the way. Internal to the
// head parser; pure.
#pragma once

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/http_parser.h"

namespace dlb::http {

// Offsets of the CR of each line but the empty one, as far as there is room: one place more than a head may
// have lines.
struct LineEnds {
  std::array<std::uint32_t, HeaderFields::kMaxFields + 2> at;
  std::size_t count = 0;
};

struct Scan {
  ParseStatus status = ParseStatus::NeedMore;
  std::size_t end = 0;  // Complete: behind the empty line; else how far the bytes are known to be sound
  std::string_view reason{};
};

#ifdef __SSE2__
// A bit for each of 16 bytes that is a control byte.
inline unsigned controls_of(const char* block) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(block));
  const __m128i low = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1f)), bytes);
  const __m128i del = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(0x7f));
  return static_cast<unsigned>(_mm_movemask_epi8(_mm_or_si128(low, del)));
}
#endif

// What a control byte at `i` means, when it is not the CR of a CRLF. NeedMore with `end` behind it: go on.
inline Scan judge_control(std::string_view bytes, std::size_t first, std::size_t i) {
  const char c = bytes[i];
  const bool ends_line = c == '\n' && i > first && bytes[i - 1] == '\r';
  if (ends_line || c == '\t') return {ParseStatus::NeedMore, i + 1, {}};
  if (c == '\n') return {ParseStatus::Bad, i, "a line ends with a bare LF"};
  if (c != '\r') return {ParseStatus::Bad, i, "a control byte in the head"};
  if (i + 1 == bytes.size()) return {ParseStatus::NeedMore, i, {}};  // its LF may come
  return {ParseStatus::Bad, i, "a bare CR in the head"};
}

// One pass from `from`, before which all is sound; the first line starts at `first`. Needs no memory of
// earlier passes: the byte before a line end tells whether the line is empty.
inline Scan scan_from(std::string_view bytes, std::size_t first, std::size_t from, LineEnds& lines) {
  const char* const p = bytes.data();
  const std::size_t size = bytes.size();
  std::size_t count = 0;
  lines.count = 0;
  for (std::size_t base = from; base < size;) {
    unsigned controls = 0;  // a bit for each control byte from `base` on
    std::size_t next = base + 1;
#ifdef __SSE2__
    if (base + 16 <= size) {
      controls = controls_of(p + base);
      next = base + 16;
    } else if (size >= 16) {  // the rest, by a block that overlaps what has been looked at
      controls = controls_of(p + size - 16) >> (16 - (size - base));
      next = size;
    } else
#endif
    {
      const auto c = static_cast<unsigned char>(p[base]);
      controls = c < 0x20 || c == 0x7f ? 1 : 0;
    }
    while (controls != 0) {
      const int bit = std::countr_zero(controls);
      const std::size_t i = base + static_cast<std::size_t>(bit);
      controls &= controls - 1;
      if (p[i] == '\r' && i + 1 < size && p[i + 1] == '\n') {
        if (i == first || p[i - 1] == '\n') {
          lines.count = count;
          return {ParseStatus::Complete, i + 2, {}};
        }
        if (count < lines.at.size()) lines.at[count++] = static_cast<std::uint32_t>(i);
        controls &= ~(2U << bit);  // its LF
      } else if (const Scan scan = judge_control(bytes, first, i);
                 scan.status == ParseStatus::Bad || scan.end == i) {
        return scan;
      }
    }
    base = next;
  }
  return {ParseStatus::NeedMore, size, {}};
}

// Looks at the bytes from `scanned` on and moves it over what is sound. `first` is where the first line
// starts. With Complete, `lines` holds the line ends of the whole head.
inline Scan scan_head(std::string_view bytes, std::size_t first, std::size_t& scanned, LineEnds& lines) {
  const std::size_t from = std::max(scanned, first);
  Scan scan = scan_from(bytes, first, from, lines);
  scanned = scan.end;
  // The earlier lines' ends are not kept between calls; one pass more over a head that came in pieces.
  if (scan.status == ParseStatus::Complete && from != first) scan = scan_from(bytes, first, first, lines);
  return scan;
}

}  // namespace dlb::http
