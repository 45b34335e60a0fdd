#include "backend/chat_output.h"

#include "common/base64.h"
#include "common/clock.h"
#include "common/json_writer.h"

namespace dlb::backend {

std::string chat_error(const ChatError& error, std::string_view message_id) {
  std::string out;
  JsonWriter json(out);
  json.begin_object().field("type", "error").field("code", error.code).field("detail", error.detail);
  if (!message_id.empty()) json.field("message-id", message_id);
  json.end_object();
  return out;
}

std::string chat_registered(std::string_view username) {
  std::string out;
  JsonWriter(out).begin_object().field("type", "registered").field("username", username).end_object();
  return out;
}

std::string chat_ack(std::string_view message_id, const PutOutcome& outcome) {
  std::string out;
  JsonWriter(out)
      .begin_object()
      .field("type", "ack")
      .field("message-id", message_id)
      .field("sequence", outcome.sequence)
      .field("timestamp", iso8601_utc(outcome.timestamp_us))
      .field("duplicate", outcome.status == PutStatus::Duplicate)
      .end_object();
  return out;
}

std::string chat_live(std::string_view element) {
  constexpr std::string_view kHead = R"({"type":"message","message":)";
  std::string out;
  out.reserve(kHead.size() + element.size() + 1);
  out.append(kHead).append(element).append("}");
  return out;
}

std::string chat_history(const RowsAnswer& page) {
  std::string out;
  out.reserve(page.json.size() + 128);
  out.append(R"({"type":"history","messages":[)").append(page.json).append("]");
  out.append(page.has_more ? R"(,"has_more":true,"next_before_sequence":)"
                           : R"(,"has_more":false,"next_before_sequence":)");
  if (page.has_more && !page.marks.empty()) {
    append_json_integer(out, page.marks.front().sequence);
  } else {
    out += "null";
  }
  out += '}';
  return out;
}

std::string chat_resumed(std::int64_t count, std::int64_t through_sequence) {
  std::string out;
  JsonWriter(out)
      .begin_object()
      .field("type", "resumed")
      .field("count", count)
      .field("through_sequence", through_sequence)
      .end_object();
  return out;
}

std::string chat_users(const std::vector<std::string>& names) {
  std::string out;
  JsonWriter json(out);
  json.begin_object().field("type", "users").key("online").begin_array();
  for (const std::string& name : names) json.value(name);
  json.end_array().end_object();
  return out;
}

std::string chat_key(std::string_view username, std::string_view public_key_der) {
  std::string out;
  JsonWriter json(out);
  json.begin_object().field("type", "key").field("username", username).key("public_key");
  if (public_key_der.empty()) {
    json.null();
  } else {
    json.value(base64_encode(public_key_der));
  }
  json.end_object();
  return out;
}

}  // namespace dlb::backend
