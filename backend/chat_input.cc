#include "backend/chat_input.h"

#include <algorithm>
#include <utility>

#include "backend/iso8601.h"
#include "backend/message_rules.h"
#include "common/base64.h"

namespace dlb::backend {
namespace {

// Longer than any key or signature that can be one: refused without decoding.
constexpr std::size_t kMaxKeyText = 4096;
constexpr std::size_t kMaxSignatureText = 1024;
constexpr std::size_t kMaxIdToldBack = 512;

constexpr std::array<std::pair<std::string_view, ChatKind>, 7> kKinds{
    {{"register", ChatKind::Register},
     {"message", ChatKind::Message},
     {"load_history", ChatKind::LoadHistory},
     {"resume", ChatKind::Resume},
     {"users", ChatKind::Users},
     {"key", ChatKind::Key},
     {"ping", ChatKind::Ping}}};

ChatError bad_request(std::string_view field, std::string_view what) {
  return {"bad_request", field_error(field, what).detail};
}

ChatError of(InputError error) { return {error.code, std::move(error.detail)}; }

}  // namespace

const std::array<std::string_view, ChatInput::kPlaces> ChatInput::kNames{
    "type",           "username",   "public_key", "timestamp", "signature",
    "after_sequence", "message-id", "msg",        "limit",     "before_sequence"};

std::optional<ChatError> ChatInput::read(std::string_view text) {
  fields_ = {};
  repeated_.reset();
  kind_ = ChatKind::Unknown;
  if (const char* fault = json_.read(text, kNames, fields_, repeated_)) {
    return ChatError{"bad_json", field_error("the message", fault).detail};
  }
  const JsonField& type = fields_[kType];
  for (const auto& [name, kind] : kKinds) {
    if (type.kind == JsonField::Kind::Text && type.text == name) kind_ = kind;
  }
  return std::nullopt;
}

std::string ChatInput::message_id() const {
  const JsonField& id = fields_[kMessageId];
  const bool usable = id.kind == JsonField::Kind::Text && id.text.size() <= kMaxIdToldBack;
  return usable ? id.text : std::string();
}

ChatRequest ChatInput::take() {
  if (repeated_) return bad_request(kNames[*repeated_], "is given more than once");
  switch (kind_) {
    case ChatKind::Register:
      return take_register();
    case ChatKind::Message:
      return take_message();
    case ChatKind::LoadHistory:
      return take_history();
    case ChatKind::Resume:
      return take_resume();
    case ChatKind::Users:
      return ChatUsers{};
    case ChatKind::Key:
      return take_key();
    case ChatKind::Ping:
      return ChatPing{};
    case ChatKind::Unknown:
      break;
  }
  if (auto error = check_text(kType)) return *std::move(error);
  return ChatError{"unknown_type", "type must be one of those that the protocol has"};
}

std::optional<ChatError> ChatInput::check_text(Place place) const {
  if (fields_[place].kind == JsonField::Kind::Absent) return bad_request(kNames[place], "is missing");
  if (fields_[place].kind != JsonField::Kind::Text) return bad_request(kNames[place], "must be a string");
  return std::nullopt;
}

std::optional<ChatError> ChatInput::check_sequence(Place place, bool required, std::int64_t least) const {
  const JsonField& field = fields_[place];
  if (!required && field.kind == JsonField::Kind::Null) return std::nullopt;  // as good as absent
  if (field.kind == JsonField::Kind::Absent) {
    if (!required) return std::nullopt;
    return bad_request(kNames[place], "is missing");
  }
  if (field.kind != JsonField::Kind::Integer) return bad_request(kNames[place], "must be a whole number");
  if (field.integer < least) return bad_request(kNames[place], "must be at least " + std::to_string(least));
  return std::nullopt;
}

std::optional<std::string> ChatInput::signature() const {
  const std::string& text = fields_[kSignature].text;
  if (text.empty() || text.size() > kMaxSignatureText) return std::nullopt;
  return base64_decode(text);
}

ChatRequest ChatInput::take_register() {
  for (const Place place : {kUsername, kPublicKey, kTimestamp, kSignature}) {
    if (auto error = check_text(place)) return *std::move(error);
  }
  if (auto error = check_client_name(fields_[kUsername].text, kNames[kUsername]))
    return of(*std::move(error));
  if (auto error = check_sequence(kAfterSequence, false, 0)) return *std::move(error);
  ChatRegister out;
  const auto time = parse_iso8601(fields_[kTimestamp].text);
  if (!time) return bad_request(kNames[kTimestamp], "must be an ISO 8601 time with a zone");
  out.timestamp_us = *time;
  std::string& key = fields_[kPublicKey].text;
  if (key.size() > kMaxKeyText) return ChatError{"bad_key", "public_key is too long"};
  if (key.starts_with("-----BEGIN ")) {
    out.public_key = std::move(key);
  } else {
    auto der = base64_decode(key);
    if (!der || der->empty()) return ChatError{"bad_key", "public_key must be padded base64, or PEM"};
    out.public_key = *std::move(der);
  }
  auto raw = signature();
  if (!raw) return ChatError{"bad_signature", "signature must be padded base64"};
  out.signature = *std::move(raw);
  out.username = std::move(fields_[kUsername].text);
  out.timestamp = std::move(fields_[kTimestamp].text);
  if (fields_[kAfterSequence].kind == JsonField::Kind::Integer) {
    out.after_sequence = fields_[kAfterSequence].integer;
  }
  return out;
}

ChatRequest ChatInput::take_message() {
  for (const Place place : {kMessageId, kMsg, kSignature}) {
    if (auto error = check_text(place)) return *std::move(error);
  }
  if (auto error = check_message_id(fields_[kMessageId].text)) return of(*std::move(error));
  if (auto error = check_message_text(fields_[kMsg].text)) return of(*std::move(error));
  auto raw = signature();
  if (!raw) return ChatError{"bad_signature", "signature must be padded base64"};
  ChatMessage out;
  out.id = fields_[kMessageId].text;  // stays: an error may name it
  out.text = std::move(fields_[kMsg].text);
  out.signature = *std::move(raw);
  out.signature_base64 = std::move(fields_[kSignature].text);
  return out;
}

ChatRequest ChatInput::take_history() {
  if (auto error = check_sequence(kLimit, false, 1)) return *std::move(error);
  if (auto error = check_sequence(kBeforeSequence, false, 1)) return *std::move(error);
  ChatLoadHistory out;
  if (fields_[kLimit].kind == JsonField::Kind::Integer) out.limit = fields_[kLimit].integer;
  out.before = fields_[kBeforeSequence].integer;
  return out;
}

ChatRequest ChatInput::take_resume() {
  if (auto error = check_sequence(kAfterSequence, true, 0)) return *std::move(error);
  return ChatResume{fields_[kAfterSequence].integer};
}

ChatRequest ChatInput::take_key() {
  if (auto error = check_text(kUsername)) return *std::move(error);
  if (auto error = check_client_name(fields_[kUsername].text, kNames[kUsername]))
    return of(*std::move(error));
  return ChatKey{std::move(fields_[kUsername].text)};
}

std::string register_text(std::string_view username, std::string_view timestamp,
                          std::string_view fingerprint) {
  std::string out = "dlb-register-v1\n";
  out.append(username).append("\n").append(timestamp).append("\n").append(fingerprint);
  return out;
}

std::string message_text(std::string_view username, std::string_view id, std::string_view text) {
  std::string out = "dlb-message-v1\n";
  out.reserve(out.size() + username.size() + id.size() + text.size() + 2);
  out.append(username).append("\n").append(id).append("\n").append(text);
  return out;
}

}  // namespace dlb::backend
