#include "backend/json_fields.h"

#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "common/check.h"

namespace dlb::backend {
namespace {

namespace od = simdjson::ondemand;

// A parser that has grown past this for one large text is given back after it.
constexpr std::size_t kKeptCapacityBytes = 128 * 1024;

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

void take_number(std::string_view token, JsonField& field) {
  const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), field.integer);
  if (error == std::errc() && end == token.data() + token.size()) field.kind = JsonField::Kind::Integer;
}

// A known field's value. Null, or what is wrong.
const char* take(od::value value, od::json_type type, JsonField& field) {
  field.kind = JsonField::Kind::Other;
  if (type == od::json_type::string) {
    std::string_view text;
    if (value.get_string().get(text) != simdjson::SUCCESS) return "has a malformed string";
    field.kind = JsonField::Kind::Text;
    field.text = text;
    return nullptr;
  }
  if (type == od::json_type::null) field.kind = JsonField::Kind::Null;
  if (type == od::json_type::number) take_number(trim_json_space(value.raw_json_token()), field);
  return walk(value, 1);
}

const char* read_object(od::document& document, std::span<const std::string_view> names,
                        std::span<JsonField> fields, std::optional<std::size_t>& repeated) {
  od::object object;
  if (document.get_object().get(object) != simdjson::SUCCESS) return "must be a JSON object";
  for (auto entry : object) {
    od::field field;
    if (std::move(entry).get(field) != simdjson::SUCCESS) return "is not valid JSON";
    std::string_view key;
    if (field.unescaped_key().get(key) != simdjson::SUCCESS) return "has a malformed field name";
    const auto place = static_cast<std::size_t>(std::find(names.begin(), names.end(), key) - names.begin());
    od::value value = field.value();
    od::json_type type{};
    if (value.type().get(type) != simdjson::SUCCESS) return "is not valid JSON";
    if (place == names.size()) {
      if (const char* fault = walk(value, 1)) return fault;
      continue;
    }
    if (fields[place].kind != JsonField::Kind::Absent) repeated = place;
    if (const char* fault = take(value, type, fields[place])) return fault;
  }
  // This version has no at_end(): a location exists only while tokens are left.
  const bool at_end = document.current_location().error() == simdjson::OUT_OF_BOUNDS;
  return at_end ? nullptr : "has bytes behind the JSON object";
}

}  // namespace

struct JsonFields::Parser {
  std::unique_ptr<od::parser> parser = std::make_unique<od::parser>();
  std::string padded;
};

JsonFields::JsonFields() : parser_(std::make_unique<Parser>()) {}
JsonFields::~JsonFields() = default;

const char* JsonFields::read(std::string_view json, std::span<const std::string_view> names,
                             std::span<JsonField> fields, std::optional<std::size_t>& repeated) {
  DLB_CHECK(names.size() == fields.size());
  parser_->padded.reserve(json.size() + simdjson::SIMDJSON_PADDING);
  parser_->padded.assign(json);
  parser_->padded.append(simdjson::SIMDJSON_PADDING, ' ');
  const char* fault = nullptr;
  {
    od::document document;
    const auto error = parser_->parser
                           ->iterate(simdjson::padded_string_view(parser_->padded.data(), json.size(),
                                                                  parser_->padded.capacity()))
                           .get(document);
    if (error == simdjson::UTF8_ERROR) {
      fault = "is not valid UTF-8";
    } else if (error == simdjson::EMPTY) {
      fault = "is empty";
    } else if (error != simdjson::SUCCESS) {
      fault = "is not valid JSON";
    } else {
      fault = read_object(document, names, fields, repeated);
    }
  }
  if (parser_->padded.capacity() > kKeptCapacityBytes) *parser_ = Parser{};
  return fault;
}

}  // namespace dlb::backend
