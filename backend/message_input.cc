#include "backend/message_input.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "backend/form_input.h"
#include "common/http_message.h"

namespace dlb::backend {
namespace {

// The three known fields.
struct Fields {
  enum Place : std::size_t { kClientName, kMessage, kMessageId, kCount };
  static constexpr std::array<std::string_view, kCount> kNames{kFieldClientName, kFieldMessage,
                                                               kFieldMessageId};
  std::array<JsonField, kCount> all;
  std::optional<std::size_t> repeated;

  // The field of a form to fill, or null for an unknown name; notes a repetition.
  JsonField* enter(std::string_view name) {
    const auto place =
        static_cast<std::size_t>(std::find(kNames.begin(), kNames.end(), name) - kNames.begin());
    if (place == kCount) return nullptr;
    if (all[place].kind != JsonField::Kind::Absent) repeated = place;
    all[place].kind = JsonField::Kind::Text;
    return &all[place];
  }
};

MessageOrError assemble(Fields& fields, std::optional<std::string_view> idempotency_key) {
  if (fields.repeated) return field_error(Fields::kNames[*fields.repeated], "is given more than once");
  for (std::size_t i = 0; i < Fields::kCount; ++i) {
    if (fields.all[i].kind != JsonField::Kind::Absent && fields.all[i].kind != JsonField::Kind::Text) {
      return field_error(Fields::kNames[i], "must be a string");
    }
  }
  for (const std::size_t i : {Fields::kClientName, Fields::kMessage}) {
    if (fields.all[i].kind == JsonField::Kind::Absent) return field_error(Fields::kNames[i], "is missing");
  }
  auto& name = fields.all[Fields::kClientName];
  auto& text = fields.all[Fields::kMessage];
  auto& id = fields.all[Fields::kMessageId];
  const bool has_id = id.kind != JsonField::Kind::Absent;
  if (auto error = check_client_name(name.text)) return *std::move(error);
  if (has_id) {
    if (auto error = check_message_id(id.text)) return *std::move(error);
  }
  if (idempotency_key) {
    if (auto error = check_message_id(*idempotency_key, "Idempotency-Key")) return *std::move(error);
    if (has_id && id.text != *idempotency_key) {
      return field_error("Idempotency-Key", "differs from message-id");
    }
    if (!has_id) id.text = *idempotency_key;
  }
  if (auto error = check_message_text(text.text)) return *std::move(error);
  NewMessage message;
  message.id = std::move(id.text);
  message.client_name = std::move(name.text);
  message.text = std::move(text.text);
  return message;
}

std::string_view trim_space(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

bool utf8_charset(std::string_view value) {
  if (value.size() >= 2 && value.front() == '"' && value.back() == '"') {
    value = value.substr(1, value.size() - 2);
  }
  for (const std::string_view name : {"utf-8", "utf8", "us-ascii"}) {
    if (equals_ignoring_case(value, name)) return true;
  }
  return false;
}

}  // namespace

BodyKind body_kind(std::string_view content_type) {
  const std::size_t end = content_type.find(';');
  const std::string_view media_type = trim_space(content_type.substr(0, end));
  std::string_view rest = end == std::string_view::npos ? std::string_view{} : content_type.substr(end + 1);
  while (!rest.empty()) {
    const std::size_t next = rest.find(';');
    const std::string_view parameter = trim_space(rest.substr(0, next));
    rest = next == std::string_view::npos ? std::string_view{} : rest.substr(next + 1);
    const std::size_t equals = parameter.find('=');
    if (equals == std::string_view::npos) continue;
    if (equals_ignoring_case(parameter.substr(0, equals), "charset") &&
        !utf8_charset(parameter.substr(equals + 1))) {
      return BodyKind::Unsupported;
    }
  }
  if (media_type.empty() && end == std::string_view::npos) return BodyKind::Json;
  if (equals_ignoring_case(media_type, "application/json")) return BodyKind::Json;
  if (equals_ignoring_case(media_type, "application/x-www-form-urlencoded")) return BodyKind::Form;
  return BodyKind::Unsupported;
}

MessageOrError MessageInput::from_json(std::string_view body,
                                       std::optional<std::string_view> idempotency_key) {
  Fields fields;
  const char* fault = json_.read(body, Fields::kNames, fields.all, fields.repeated);
  if (fault != nullptr) {
    InputError error = field_error("the body", fault);
    error.code = "bad_json";
    return error;
  }
  return assemble(fields, idempotency_key);
}

MessageOrError MessageInput::from_form(std::string_view encoded,
                                       std::optional<std::string_view> idempotency_key) {
  Fields fields;
  FormReader reader(encoded);
  while (reader.next()) {
    JsonField* known = fields.enter(reader.name());
    if (known == nullptr) continue;
    known->text = reader.take_value();
  }
  if (reader.fault()) return *reader.fault();
  return assemble(fields, idempotency_key);
}

std::variant<FeedQuery, InputError> parse_feed_query(std::string_view query) {
  FeedQuery feed;
  bool has_after = false;
  bool has_limit = false;
  FormReader reader(query);
  while (reader.next()) {
    const bool is_after = reader.name() == "after";
    if (!is_after && reader.name() != "limit") continue;
    const std::string_view name = is_after ? "after" : "limit";
    bool& seen = is_after ? has_after : has_limit;
    if (seen) return field_error(name, "is given more than once");
    seen = true;
    const auto value = plain_decimal(reader.value());
    if (!value) return field_error(name, "must be a plain unsigned decimal number");
    if (is_after) {
      feed.after = *value;
    } else if (*value == 0) {
      return field_error(name, "must be at least 1");
    } else {
      feed.limit = std::min<std::int64_t>(*value, 1000);
    }
  }
  if (reader.fault()) return *reader.fault();
  feed.paged = has_after || has_limit;
  return feed;
}

}  // namespace dlb::backend
