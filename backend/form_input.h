// application/x-www-form-urlencoded, as bodies and as query strings, decoded strictly: a `%` without two hex
// digits or bytes that are not UTF-8 refuse the whole input. `+` is a space. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "backend/message_rules.h"

namespace dlb::backend {

// Walks the pairs of `encoded` one after another. Empty segments (`a=1&&b=2`) are skipped; a segment without
// `=` is a name with an empty value.
class FormReader {
 public:
  explicit FormReader(std::string_view encoded) : rest_(encoded) {}

  // Decodes the next pair into name() and value(). False at the end or at a fault: then look at fault().
  bool next();

  const std::string& name() const { return name_; }
  const std::string& value() const { return value_; }
  std::string&& take_value() { return std::move(value_); }
  const std::optional<InputError>& fault() const { return fault_; }

 private:
  std::string_view rest_;
  std::string name_;
  std::string value_;
  std::optional<InputError> fault_;
};

// Appends the decoded bytes; false at a bad `%`.
bool decode_form_text(std::string_view encoded, std::string& out);

// A plain unsigned decimal: digits only, at least one. Values over INT64_MAX come out as INT64_MAX, since
// they mean "larger than anything there is". Null for all else (signs, spaces, points, empty).
std::optional<std::int64_t> plain_decimal(std::string_view text);

}  // namespace dlb::backend
