// What a chat message must look like before it may go near a store: UTF-8, lengths in code points or bytes,
// control characters. Pure: bytes in, verdict with the field's name out; used for JSON, forms, queries,
// headers and WSS alike, so that one rule holds on every way in. Nothing is trimmed, cut or
// normalised here or anywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "backend/message.h"

namespace dlb::backend {

inline constexpr std::size_t kMessageIdMaxCharacters = 128;  // code points
inline constexpr std::size_t kClientNameMaxCharacters = 64;  // code points
inline constexpr std::size_t kMessageMaxBytes = 64 * 1024;

inline constexpr std::string_view kFieldMessageId = "message-id";
inline constexpr std::string_view kFieldClientName = "client-name";
inline constexpr std::string_view kFieldMessage = "msg";

// Why an input is refused, ready for the HTTP answer: `{"error": code, "detail": detail}` with `status`.
// `detail` names the field and never repeats the value.
struct InputError {
  int status = 400;
  std::string_view code = "bad_request";  // static
  std::string detail;
};

// A 400 that names the field: "<field> <what is wrong>".
InputError field_error(std::string_view field, std::string_view what);

// The shape of a piece of text, found in one pass.
struct TextShape {
  bool valid_utf8 = false;     // RFC 3629: no surrogates, no overlong forms, at most U+10FFFF
  std::size_t characters = 0;  // code points; counted up to the first fault
  bool has_nul = false;        // U+0000
  bool has_control = false;    // C0 (U+0000 too), DEL or C1
};
TextShape shape_of(std::string_view text);

// Null when the value may be used; else why not.
std::optional<InputError> check_message_id(std::string_view id, std::string_view field = kFieldMessageId);
std::optional<InputError> check_client_name(std::string_view name, std::string_view field = kFieldClientName);
std::optional<InputError> check_message_text(std::string_view text);

// The id of a message that came without one: an RFC 9562 version 4 UUID in lower case, from 16 random bytes.
std::string uuid_v4(std::uint64_t high, std::uint64_t low);

}  // namespace dlb::backend
