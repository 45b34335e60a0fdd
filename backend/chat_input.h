// From one text message of a WSS client to what it asks for, or to the error that answers it. Read strictly
// like a posted body (JsonFields), the same limits of names and texts (message_rules.h). In two steps, since
// what a session may ask depends on its state: read() tells the kind, take() checks the fields of that kind.
//
//   read() ─▶ not JSON: bad_json ─▶ kind() ─▶ take() ─▶ Register | Message | LoadHistory | Resume | Users |
//   Key | Ping
//                                               └─▶ ChatError: bad_request, too_large, unknown_type
//
// Pure besides scratch memory: no clock, no keys, no state of a session.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "backend/json_fields.h"

namespace dlb::backend {

// `{"type":"error","code","detail","message-id"?}`; `detail` never repeats a value.
struct ChatError {
  std::string_view code;  // static
  std::string detail;
};

struct ChatRegister {
  std::string username;
  std::string public_key;  // SubjectPublicKeyInfo: DER, or PEM as it came
  std::string timestamp;   // as it came: it is signed
  std::int64_t timestamp_us = 0;
  std::string signature;                       // raw
  std::optional<std::int64_t> after_sequence;  // begin with a replay
};
struct ChatMessage {
  std::string id;
  std::string text;
  std::string signature;         // raw
  std::string signature_base64;  // as it came; stored
};
struct ChatLoadHistory {
  std::int64_t limit = 25;
  std::int64_t before = 0;  // 0: not given
};
struct ChatResume {
  std::int64_t after = 0;
};
struct ChatUsers {};
struct ChatKey {
  std::string username;
};
struct ChatPing {};

using ChatRequest = std::variant<ChatError, ChatRegister, ChatMessage, ChatLoadHistory, ChatResume, ChatUsers,
                                 ChatKey, ChatPing>;

enum class ChatKind : std::uint8_t { Register, Message, LoadHistory, Resume, Users, Key, Ping, Unknown };

class ChatInput {
 public:
  // Nothing, or why the text is no message at all.
  std::optional<ChatError> read(std::string_view text);
  // Of what was read last.
  ChatKind kind() const { return kind_; }
  ChatRequest take();
  // What was given as message-id, for the error's; empty when there is none that could be told back.
  std::string message_id() const;

 private:
  enum Place : std::size_t {
    kType,
    kUsername,
    kPublicKey,
    kTimestamp,
    kSignature,
    kAfterSequence,
    kMessageId,
    kMsg,
    kLimit,
    kBeforeSequence,
    kPlaces
  };
  static const std::array<std::string_view, kPlaces> kNames;

  std::optional<ChatError> check_text(Place place) const;
  std::optional<ChatError> check_sequence(Place place, bool required, std::int64_t least) const;
  std::optional<std::string> signature() const;
  ChatRequest take_register();
  ChatRequest take_message();
  ChatRequest take_history();
  ChatRequest take_resume();
  ChatRequest take_key();

  JsonFields json_;
  std::array<JsonField, kPlaces> fields_;
  std::optional<std::size_t> repeated_;
  ChatKind kind_ = ChatKind::Unknown;
};

// The texts that are signed.
std::string register_text(std::string_view username, std::string_view timestamp,
                          std::string_view fingerprint);
std::string message_text(std::string_view username, std::string_view id, std::string_view text);

}  // namespace dlb::backend
