#include "backend/message_input.h"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "backend/form_input.h"
#include "common/http_message.h"

namespace dlb::backend {
namespace {

namespace od = simdjson::ondemand;

// A parser that has grown past this for one large body is given back after it.
constexpr std::size_t kKeptCapacityBytes = 128 * 1024;

// The three known fields, as found: absent, text, or something that is no text.
struct Fields {
  enum Place : std::size_t { kClientName, kMessage, kMessageId, kCount };
  static constexpr std::array<std::string_view, kCount> kNames{kFieldClientName, kFieldMessage,
                                                               kFieldMessageId};
  struct Field {
    bool present = false;
    bool is_text = false;
    std::string text;
  };
  std::array<Field, kCount> all;
  std::optional<std::size_t> repeated;

  // The place of a known name, or kCount.
  static std::size_t place_of(std::string_view name) {
    return static_cast<std::size_t>(std::find(kNames.begin(), kNames.end(), name) - kNames.begin());
  }
  // The field to fill, or null for an unknown name; notes a repetition.
  Field* enter(std::string_view name) {
    const std::size_t place = place_of(name);
    if (place == kCount) return nullptr;
    if (all[place].present) repeated = place;
    all[place].present = true;
    return &all[place];
  }
};

MessageOrError assemble(Fields& fields, std::optional<std::string_view> idempotency_key) {
  if (fields.repeated) return field_error(Fields::kNames[*fields.repeated], "is given more than once");
  for (std::size_t i = 0; i < Fields::kCount; ++i) {
    if (fields.all[i].present && !fields.all[i].is_text) {
      return field_error(Fields::kNames[i], "must be a string");
    }
  }
  for (const std::size_t i : {Fields::kClientName, Fields::kMessage}) {
    if (!fields.all[i].present) return field_error(Fields::kNames[i], "is missing");
  }
  auto& name = fields.all[Fields::kClientName];
  auto& text = fields.all[Fields::kMessage];
  auto& id = fields.all[Fields::kMessageId];
  if (auto error = check_client_name(name.text)) return *std::move(error);
  if (id.present) {
    if (auto error = check_message_id(id.text)) return *std::move(error);
  }
  if (idempotency_key) {
    if (auto error = check_message_id(*idempotency_key, "Idempotency-Key")) return *std::move(error);
    if (id.present && id.text != *idempotency_key) {
      return field_error("Idempotency-Key", "differs from message-id");
    }
    if (!id.present) id.text = *idempotency_key;
  }
  if (auto error = check_message_text(text.text)) return *std::move(error);
  NewMessage message;
  message.id = std::move(id.text);
  message.client_name = std::move(name.text);
  message.text = std::move(text.text);
  return message;
}

// RFC 8259 section 6, without converting: a number of any size in an ignored field is well-formed.
bool is_json_number(std::string_view text) {
  std::size_t at = 0;
  const auto digits = [&] {
    const std::size_t start = at;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
    return at - start;
  };
  if (at < text.size() && text[at] == '-') ++at;
  const bool leading_zero = at < text.size() && text[at] == '0';
  const std::size_t whole = digits();
  if (whole == 0 || (leading_zero && whole > 1)) return false;
  if (at < text.size() && text[at] == '.') {
    ++at;
    if (digits() == 0) return false;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    if (digits() == 0) return false;
  }
  return at == text.size();
}

std::string_view trim_json_space(std::string_view text) {
  const std::size_t end = text.find_last_not_of(" \t\r\n");
  return end == std::string_view::npos ? std::string_view{} : text.substr(0, end + 1);
}

// Walks a value that nobody reads, to see that it is well-formed. Null when it is, else what is wrong.
const char* walk(od::value value, int depth);

const char* walk_object(od::object object, int depth) {
  if (depth > kMaxJsonDepth) return "is nested too deeply";
  for (auto entry : object) {
    od::field field;
    if (std::move(entry).get(field) != simdjson::SUCCESS) return "is not valid JSON";
    std::string_view key;
    if (field.unescaped_key().get(key) != simdjson::SUCCESS) {
      return "has a malformed field name";
    }
    if (const char* fault = walk(field.value(), depth)) return fault;
  }
  return nullptr;
}

const char* walk(od::value value, int depth) {
  od::json_type type{};
  if (value.type().get(type) != simdjson::SUCCESS) return "is not valid JSON";
  switch (type) {
    case od::json_type::object: {
      od::object object;
      if (value.get_object().get(object) != simdjson::SUCCESS) return "is not valid JSON";
      return walk_object(object, depth + 1);
    }
    case od::json_type::array: {
      if (depth + 1 > kMaxJsonDepth) return "is nested too deeply";
      od::array array;
      if (value.get_array().get(array) != simdjson::SUCCESS) return "is not valid JSON";
      for (auto entry : array) {
        od::value element;
        if (std::move(entry).get(element) != simdjson::SUCCESS) return "is not valid JSON";
        if (const char* fault = walk(element, depth + 1)) return fault;
      }
      return nullptr;
    }
    case od::json_type::string: {
      std::string_view text;
      if (value.get_string().get(text) != simdjson::SUCCESS) {
        return "has a malformed string";
      }
      return nullptr;
    }
    case od::json_type::number:
      return is_json_number(trim_json_space(value.raw_json_token())) ? nullptr : "has a malformed number";
    case od::json_type::boolean:
    case od::json_type::null: {
      const std::string_view token = trim_json_space(value.raw_json_token());
      return token == "true" || token == "false" || token == "null" ? nullptr : "is not valid JSON";
    }
  }
  return "is not valid JSON";
}

// Reads the outer object, known fields into `fields`, all others walked.
const char* read_object(od::document& document, Fields& fields) {
  od::object object;
  if (document.get_object().get(object) != simdjson::SUCCESS) return "must be a JSON object";
  for (auto entry : object) {
    od::field field;
    if (std::move(entry).get(field) != simdjson::SUCCESS) return "is not valid JSON";
    std::string_view key;
    if (field.unescaped_key().get(key) != simdjson::SUCCESS) {
      return "has a malformed field name";
    }
    od::value value = field.value();
    od::json_type type{};
    if (value.type().get(type) != simdjson::SUCCESS) return "is not valid JSON";
    Fields::Field* known = fields.enter(key);
    if (known == nullptr || type != od::json_type::string) {
      if (const char* fault = walk(value, 1)) return fault;
      continue;
    }
    std::string_view text;
    if (value.get_string().get(text) != simdjson::SUCCESS) {
      return "has a malformed string";
    }
    known->is_text = true;
    known->text = text;
  }
  // This version has no at_end(): a location exists only while tokens are left.
  const bool at_end = document.current_location().error() == simdjson::OUT_OF_BOUNDS;
  return at_end ? nullptr : "has bytes behind the JSON object";
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

struct MessageInput::Json {
  std::unique_ptr<od::parser> parser = std::make_unique<od::parser>();
  std::string padded;
};

MessageInput::MessageInput() : json_(std::make_unique<Json>()) {}
MessageInput::~MessageInput() = default;

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
  json_->padded.reserve(body.size() + simdjson::SIMDJSON_PADDING);
  json_->padded.assign(body);
  json_->padded.append(simdjson::SIMDJSON_PADDING, ' ');
  Fields fields;
  const char* fault = nullptr;
  {
    od::document document;
    const auto error = json_->parser
                           ->iterate(simdjson::padded_string_view(json_->padded.data(), body.size(),
                                                                  json_->padded.capacity()))
                           .get(document);
    if (error == simdjson::UTF8_ERROR) {
      fault = "is not valid UTF-8";
    } else if (error == simdjson::EMPTY) {
      fault = "is empty";
    } else if (error != simdjson::SUCCESS) {
      fault = "is not valid JSON";
    } else {
      fault = read_object(document, fields);
    }
  }
  if (json_->padded.capacity() > kKeptCapacityBytes) *json_ = Json{};
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
    Fields::Field* known = fields.enter(reader.name());
    if (known == nullptr) continue;
    known->is_text = true;
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
