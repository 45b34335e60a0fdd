#include "backend/form_input.h"

#include <cstddef>
#include <limits>

namespace dlb::backend {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

InputError encoding_error(std::string_view what) {
  InputError error;
  error.detail = what;
  return error;
}

}  // namespace

bool decode_form_text(std::string_view encoded, std::string& out) {
  for (std::size_t i = 0; i < encoded.size(); ++i) {
    const char c = encoded[i];
    if (c == '+') {
      out.push_back(' ');
    } else if (c == '%') {
      if (encoded.size() - i < 3) return false;
      const int high = hex_digit(encoded[i + 1]);
      const int low = hex_digit(encoded[i + 2]);
      if (high < 0 || low < 0) return false;
      out.push_back(static_cast<char>(high * 16 + low));
      i += 2;
    } else {
      out.push_back(c);
    }
  }
  return true;
}

bool FormReader::next() {
  while (!rest_.empty() && !fault_) {
    const std::size_t end = rest_.find('&');
    const std::string_view segment = rest_.substr(0, end);
    rest_ = end == std::string_view::npos ? std::string_view{} : rest_.substr(end + 1);
    if (segment.empty()) continue;
    const std::size_t equals = segment.find('=');
    name_.clear();
    value_.clear();
    const std::string_view encoded_value =
        equals == std::string_view::npos ? std::string_view{} : segment.substr(equals + 1);
    if (!decode_form_text(segment.substr(0, equals), name_) || !decode_form_text(encoded_value, value_)) {
      fault_ = encoding_error("a percent sign must be followed by two hex digits");
    } else if (!shape_of(name_).valid_utf8) {
      fault_ = encoding_error("a field name is not valid UTF-8");
    } else if (!shape_of(value_).valid_utf8) {
      // A name that a peer chose goes into the answer only when it is short and harmless.
      const bool showable = name_.size() <= 64 && !shape_of(name_).has_control;
      fault_ = field_error(showable ? name_ : "a field", "is not valid UTF-8");
    } else {
      return true;
    }
  }
  return false;
}

std::optional<std::int64_t> plain_decimal(std::string_view text) {
  if (text.empty()) return std::nullopt;
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  std::int64_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    const int digit = c - '0';
    value = value > (kMax - digit) / 10 ? kMax : value * 10 + digit;
  }
  return value;
}

}  // namespace dlb::backend
