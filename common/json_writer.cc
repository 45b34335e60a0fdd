#include "common/json_writer.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstring>

#include "common/check.h"

namespace dlb {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// True when none of the eight bytes is a control character, a quote, a backslash or outside ASCII. The
// zero-byte trick may name a wrong byte but never errs about whether there is one.
bool all_plain(std::uint64_t word) {
  constexpr std::uint64_t kOnes = 0x0101010101010101U;
  constexpr std::uint64_t kHighs = 0x8080808080808080U;
  const auto zero_bytes = [](std::uint64_t w) { return (w - kOnes) & ~w & kHighs; };
  const std::uint64_t below_space = (word - kOnes * 0x20) & ~word & kHighs;
  return ((word & kHighs) | below_space | zero_bytes(word ^ (kOnes * '"')) |
          zero_bytes(word ^ (kOnes * '\\'))) == 0;
}

// What stands for itself in a JSON string: printable ASCII but quote and backslash, DEL included.
constexpr std::array<bool, 256> kPlain = [] {
  std::array<bool, 256> out{};
  for (std::size_t c = 0x20; c < 0x80; ++c) out[c] = c != '"' && c != '\\';
  return out;
}();

// Length 2-4 of the multi-byte character at the start of `text`, 0 when it isn't a valid one (RFC 3629
// section 4).
std::size_t multibyte_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto continues = [&](std::size_t i, unsigned low = 0x80, unsigned high = 0xBF) {
    return i < text.size() && byte(i) >= low && byte(i) <= high;
  };
  const unsigned first = byte(0);
  if (first >= 0xC2 && first <= 0xDF) return continues(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const unsigned low = first == 0xE0 ? 0xA0 : 0x80;   // overlong forms
    const unsigned high = first == 0xED ? 0x9F : 0xBF;  // surrogates
    return continues(1, low, high) && continues(2) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const unsigned low = first == 0xF0 ? 0x90 : 0x80;   // overlong forms
    const unsigned high = first == 0xF4 ? 0x8F : 0xBF;  // over U+10FFFF
    return continues(1, low, high) && continues(2) && continues(3) ? 4 : 0;
  }
  return 0;
}

void append_escape(std::string& out, unsigned char c) {
  static constexpr char kHex[] = "0123456789abcdef";
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\b':
      out += "\\b";
      return;
    case '\f':
      out += "\\f";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      out += "\\u00";
      out += kHex[c >> 4];
      out += kHex[c & 0xF];
  }
}

template <class Number>
void append_integer(std::string& out, Number value) {
  std::array<char, 24> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  out.append(text.data(), static_cast<std::size_t>(end - text.data()));
}

}  // namespace

void append_json_escaped(std::string& out, std::string_view text) {
  std::size_t run = 0;  // start of what is copied as it is
  std::size_t at = 0;
  const auto copy_run = [&] { out.append(text.data() + run, at - run); };
  while (at < text.size()) {
    if (text.size() - at >= 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, text.data() + at, 8);
      if (all_plain(word)) {
        at += 8;
        continue;
      }
    }
    while (at < text.size() && kPlain[static_cast<unsigned char>(text[at])]) ++at;
    if (at == text.size()) break;
    const auto c = static_cast<unsigned char>(text[at]);
    if (c >= 0x80) {
      const std::size_t length = multibyte_length(text.substr(at));
      if (length != 0) {
        at += length;
        continue;
      }
      copy_run();
      out += kReplacement;
      run = ++at;
    } else {
      copy_run();
      append_escape(out, c);
      run = ++at;
    }
  }
  copy_run();
}

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  append_json_escaped(out, text);
  out += '"';
}

void append_json_integer(std::string& out, std::int64_t value) { append_integer(out, value); }
void append_json_unsigned(std::string& out, std::uint64_t value) { append_integer(out, value); }

void append_json_double(std::string& out, double value, int decimals) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  std::array<char, 352> text{};  // 309 digits, sign, point and 17 decimals fit
  const auto result = decimals < 0 ? std::to_chars(text.data(), text.data() + text.size(), value)
                                   : std::to_chars(text.data(), text.data() + text.size(), value,
                                                   std::chars_format::fixed, decimals);
  DLB_CHECK(result.ec == std::errc());
  out.append(text.data(), static_cast<std::size_t>(result.ptr - text.data()));
}

std::size_t valid_utf8_prefix(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    if (text.size() - at >= 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, text.data() + at, 8);
      if ((word & 0x8080808080808080U) == 0) {
        at += 8;
        continue;
      }
    }
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    const std::size_t length = multibyte_length(text.substr(at));
    if (length == 0) return at;
    at += length;
  }
  return at;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  DLB_CHECK(depth_ > 0);
  separate();
  append_json_string(out_, name);
  out_ += ':';
  need_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
  separate();
  append_json_string(out_, text);
  return *this;
}

JsonWriter& JsonWriter::value(bool flag) { return raw(flag ? "true" : "false"); }

JsonWriter& JsonWriter::value(double number, int decimals) {
  separate();
  append_json_double(out_, number, decimals);
  return *this;
}

JsonWriter& JsonWriter::null() { return raw("null"); }

JsonWriter& JsonWriter::raw(std::string_view json) {
  separate();
  out_ += json;
  return *this;
}

JsonWriter& JsonWriter::open(char bracket) {
  separate();
  out_ += bracket;
  need_comma_ = false;
  ++depth_;
  return *this;
}

JsonWriter& JsonWriter::close(char bracket) {
  DLB_CHECK(depth_ > 0);
  --depth_;
  out_ += bracket;
  need_comma_ = true;
  return *this;
}

}  // namespace dlb
