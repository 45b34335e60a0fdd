// How messages look on a terminal and as JSON lines. What others have written can't do anything to a
// terminal: control characters, and what turns the direction of writing, are shown as escapes. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dlb::loadgen {

enum class SignatureVerdict : std::uint8_t {
  Unsigned,   // it came by HTTP
  Good,       // checked here with the key of its name
  Bad,        // it does not fit
  Unchecked,  // signed, but the key isn't to be had
};

struct ChatMessage {
  std::int64_t sequence = 0;
  std::string id;
  std::string name;
  std::string text;
  bool has_text = true;   // false: the server can't decrypt it
  std::string timestamp;  // as the server gave it
  std::string source;     // "wss" or "http"
  std::string signature;  // base64; empty when there is none
};

// `text` with \n, \t, \r, \xHH and \u{HHHH} for C0, DEL, C1, line and paragraph separators, and marks and
// overrides of direction; bytes that are not UTF-8 become \xHH.
std::string escape_for_terminal(std::string_view text);

// `2026-09-10 14:00:00 ✓ Alice: hello`, without a newline: ✓ good, ✗ bad, ? unchecked, - unsigned. The time
// is local; a timestamp that is none of ours is shown as it is, escaped.
std::string message_line(const ChatMessage& message, SignatureVerdict verdict);

// One JSON object: the fields of the server's, and `"verified": true|false|null` (null: not checked, or
// unsigned).
std::string message_json(const ChatMessage& message, SignatureVerdict verdict);

}  // namespace dlb::loadgen
