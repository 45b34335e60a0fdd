#include "loadgen/chat_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <iterator>

#include "common/json_writer.h"

namespace dlb::loadgen {
namespace {

// One code point of valid UTF-8 at the front of `text`; 0 bytes when what stands there is none.
struct CodePoint {
  char32_t value = 0;
  std::size_t bytes = 0;
};

CodePoint front_of(std::string_view text) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned char first = byte(0);
  const std::size_t bytes = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if (bytes > text.size() || valid_utf8_prefix(text.substr(0, bytes)) != bytes) return {};
  char32_t value = bytes == 1 ? first : first & (0xffU >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) value = (value << 6U) | (byte(i) & 0x3fU);
  return {value, bytes};
}

// Invisible, and it changes how others are shown.
bool moves_things(char32_t c) {
  return c == 0x61c || (c >= 0x200e && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
         (c >= 0x2066 && c <= 0x2069) || (c >= 0xfff9 && c <= 0xfffb) || c == 0xfeff ||
         (c >= 0xe0000 && c <= 0xe007f);
}

bool is_control(char32_t c) { return c < 0x20 || (c >= 0x7f && c < 0xa0); }

// `2026-09-10T14:00:00…+00:00` in local time; false when it isn't of that shape.
bool local_time(std::string_view timestamp, std::string& out) {
  if (timestamp.size() < 25 || !timestamp.ends_with("+00:00")) return false;
  std::tm utc{};
  const std::string head(timestamp.substr(0, 19));
  int end = 0;
  if (std::sscanf(head.c_str(), "%4d-%2d-%2dT%2d:%2d:%2d%n", &utc.tm_year, &utc.tm_mon, &utc.tm_mday,
                  &utc.tm_hour, &utc.tm_min, &utc.tm_sec, &end) != 6 ||
      end != 19) {
    return false;
  }
  utc.tm_year -= 1900;
  utc.tm_mon -= 1;
  const std::time_t when = ::timegm(&utc);
  std::tm local{};
  if (::localtime_r(&when, &local) == nullptr) return false;
  char text[32];
  out.append(text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local));
  return true;
}

std::string_view mark_of(SignatureVerdict verdict) {
  switch (verdict) {
    case SignatureVerdict::Good:
      return "✓";
    case SignatureVerdict::Bad:
      return "✗";
    case SignatureVerdict::Unchecked:
      return "?";
    case SignatureVerdict::Unsigned:
      break;
  }
  return "-";
}

}  // namespace

std::string escape_for_terminal(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const CodePoint c = front_of(text);
    if (c.bytes == 0) {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<unsigned char>(text.front()));
      text.remove_prefix(1);
      continue;
    }
    if (c.value == '\n') {
      out += "\\n";
    } else if (c.value == '\t') {
      out += "\\t";
    } else if (c.value == '\r') {
      out += "\\r";
    } else if (is_control(c.value)) {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<std::uint32_t>(c.value));
    } else if (moves_things(c.value)) {
      fmt::format_to(std::back_inserter(out), "\\u{{{:x}}}", static_cast<std::uint32_t>(c.value));
    } else {
      out += text.substr(0, c.bytes);
    }
    text.remove_prefix(c.bytes);
  }
  return out;
}

std::string message_line(const ChatMessage& message, SignatureVerdict verdict) {
  std::string out;
  if (!local_time(message.timestamp, out)) out += escape_for_terminal(message.timestamp);
  out += ' ';
  out += mark_of(verdict);
  out += ' ';
  out += escape_for_terminal(message.name);
  out += ": ";
  out += message.has_text ? escape_for_terminal(message.text) : "(can't be decrypted)";
  return out;
}

std::string message_json(const ChatMessage& message, SignatureVerdict verdict) {
  std::string out;
  JsonWriter json(out);
  json.begin_object().field("message-id", message.id).field("client-name", message.name).key("msg");
  if (message.has_text) {
    json.value(message.text);
  } else {
    json.null();
  }
  json.field("timestamp", message.timestamp)
      .field("sequence", message.sequence)
      .field("source", message.source);
  if (!message.signature.empty()) json.field("signature", message.signature);
  json.key("verified");
  if (verdict == SignatureVerdict::Good || verdict == SignatureVerdict::Bad) {
    json.value(verdict == SignatureVerdict::Good);
  } else {
    json.null();
  }
  json.end_object();
  return out;
}

}  // namespace dlb::loadgen
