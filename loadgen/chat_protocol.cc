#include "loadgen/chat_protocol.h"

#include <simdjson.h>

#include "common/base64.h"
#include "common/json_writer.h"

namespace dlb::loadgen {
namespace {

using simdjson::dom::element;
using simdjson::dom::object;

std::string joined(std::initializer_list<std::string_view> parts) {
  std::string out;
  for (const std::string_view part : parts) {
    if (!out.empty()) out += '\n';
    out += part;
  }
  return out;
}

// False when the member is missing or of another type.
bool text_of(const object& from, std::string_view name, std::string& out) {
  std::string_view value;
  if (from[name].get(value) != simdjson::SUCCESS) return false;
  out = value;
  return true;
}

bool number_of(const object& from, std::string_view name, std::int64_t& out) {
  return from[name].get(out) == simdjson::SUCCESS;
}

bool read_message(const object& from, ChatMessage& out) {
  element text;
  if (from["msg"].get(text) != simdjson::SUCCESS) return false;
  std::string_view value;
  out.has_text = text.get(value) == simdjson::SUCCESS;
  if (out.has_text) out.text = value;
  text_of(from, "signature", out.signature);
  return (out.has_text || text.is_null()) && text_of(from, "message-id", out.id) &&
         text_of(from, "client-name", out.name) && text_of(from, "timestamp", out.timestamp) &&
         text_of(from, "source", out.source) && number_of(from, "sequence", out.sequence);
}

bool read_history(const object& from, ServerSaid& out) {
  simdjson::dom::array rows;
  if (from["messages"].get(rows) != simdjson::SUCCESS) return false;
  for (const element row : rows) {
    object fields;
    ChatMessage message;
    if (row.get(fields) != simdjson::SUCCESS || !read_message(fields, message)) return false;
    out.messages.push_back(std::move(message));
  }
  bool has_more = false;
  if (from["has_more"].get(has_more) != simdjson::SUCCESS) return false;
  return !has_more || number_of(from, "next_before_sequence", out.next_before);
}

ServerSaid::Kind read_kind(std::string_view type, const object& from, ServerSaid& out) {
  using Kind = ServerSaid::Kind;
  const auto unless = [](bool good, Kind kind) { return good ? kind : Kind::Broken; };
  if (type == "registered") return Kind::Registered;
  if (type == "reset") return Kind::Reset;
  if (type == "message") {
    object row;
    out.messages.emplace_back();
    return unless(from["message"].get(row) == simdjson::SUCCESS && read_message(row, out.messages[0]),
                  Kind::Message);
  }
  if (type == "pong") return Kind::Pong;
  if (type == "ack") {
    text_of(from, "timestamp", out.timestamp);
    if (from["duplicate"].get(out.duplicate) != simdjson::SUCCESS) out.duplicate = false;
    return unless(text_of(from, "message-id", out.id) && number_of(from, "sequence", out.sequence),
                  Kind::Ack);
  }
  if (type == "history") return unless(read_history(from, out), Kind::History);
  if (type == "resumed") return unless(number_of(from, "through_sequence", out.sequence), Kind::Resumed);
  if (type == "key") {
    text_of(from, "public_key", out.public_key);
    return unless(text_of(from, "username", out.name), Kind::Key);
  }
  if (type == "error") {
    text_of(from, "message-id", out.id);
    text_of(from, "detail", out.detail);
    const bool good = text_of(from, "code", out.code);
    // Both are for people's eyes, in reports and notes.
    out.detail = escape_for_terminal(out.detail);
    out.code = escape_for_terminal(out.code);
    return unless(good, Kind::Error);
  }
  return Kind::Unknown;
}

}  // namespace

std::string register_text(std::string_view name, std::string_view timestamp,
                          std::string_view key_fingerprint) {
  return joined({"dlb-register-v1", name, timestamp, key_fingerprint});
}

std::string message_text(std::string_view name, std::string_view id, std::string_view text) {
  return joined({"dlb-message-v1", name, id, text});
}

SignedRegistration sign_registration(const RsaPrivateKey& key, std::string_view name,
                                     std::string_view timestamp) {
  const auto public_key = RsaPublicKey::parse(key.public_der());
  const std::string fingerprint = public_key ? public_key->fingerprint() : std::string();
  return {std::string(timestamp), base64_encode(key.sign(register_text(name, timestamp, fingerprint)))};
}

std::string register_request(const SignedRegistration& signed_one, std::string_view public_key,
                             std::string_view name, std::int64_t after) {
  std::string out;
  JsonWriter json(out);
  json.begin_object()
      .field("type", "register")
      .field("username", name)
      .field("public_key", public_key)
      .field("timestamp", signed_one.timestamp)
      .field("signature", signed_one.signature);
  if (after >= 0) json.field("after_sequence", after);
  json.end_object();
  return out;
}

std::string register_request(const RsaPrivateKey& key, std::string_view name, std::string_view timestamp,
                             std::int64_t after) {
  return register_request(sign_registration(key, name, timestamp), base64_encode(key.public_der()), name,
                          after);
}

std::string message_request(std::string_view id, std::string_view text, std::string_view signature) {
  std::string out;
  JsonWriter json(out);
  json.begin_object()
      .field("type", "message")
      .field("message-id", id)
      .field("msg", text)
      .field("signature", base64_encode(signature))
      .end_object();
  return out;
}

std::string message_request(const RsaPrivateKey& key, std::string_view name, std::string_view id,
                            std::string_view text) {
  return message_request(id, text, key.sign(message_text(name, id, text)));
}

std::string history_request(std::int64_t limit, std::int64_t before) {
  std::string out;
  JsonWriter json(out);
  json.begin_object().field("type", "load_history").field("limit", limit);
  if (before > 0) json.field("before_sequence", before);
  json.end_object();
  return out;
}

std::string key_request(std::string_view name) {
  std::string out;
  JsonWriter(out).begin_object().field("type", "key").field("username", name).end_object();
  return out;
}

std::string ping_request() { return R"({"type":"ping"})"; }

struct ServerReader::Parser {
  simdjson::dom::parser json;
};

ServerReader::ServerReader() : parser_(std::make_unique<Parser>()) {}
ServerReader::~ServerReader() = default;

ServerSaid ServerReader::read(std::string_view text) {
  ServerSaid out;
  element root;
  object fields;
  std::string_view type;
  if (parser_->json.parse(text.data(), text.size()).get(root) != simdjson::SUCCESS ||
      root.get(fields) != simdjson::SUCCESS || fields["type"].get(type) != simdjson::SUCCESS) {
    return out;
  }
  out.kind = read_kind(type, fields, out);
  return out;
}

bool error_passes(std::string_view code) {
  return code == "rate_limited" || code == "unavailable" || code == "outcome_unknown" ||
         code == "not_registered";
}

}  // namespace dlb::loadgen
