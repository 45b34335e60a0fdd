#include "common/http_syntax.h"

#include <algorithm>

namespace dlb::http {
namespace {

constexpr std::string_view kTokenPunctuation = "!#$%&'*+-.^_`|~";
constexpr std::string_view kHostPunctuation = "-._~!$&'()*+;=";

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_hex(char c) { return is_digit(c) || (lower(c) >= 'a' && lower(c) <= 'f'); }
constexpr bool is_alphanumeric(char c) { return is_digit(c) || (lower(c) >= 'a' && lower(c) <= 'z'); }

constexpr std::array<std::uint8_t, 256> make_classes() {
  std::array<std::uint8_t, 256> classes{};
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const char c = static_cast<char>(i);
    std::uint8_t mask = 0;
    if (is_alphanumeric(c) || kTokenPunctuation.find(c) != std::string_view::npos) mask |= kTokenChar;
    if ((i < 0x20 && c != '\t') || i == 0x7f) mask |= kControl;
    if (i > 0x20 && i != 0x7f && c != '#') mask |= kTargetChar;
    if (is_alphanumeric(c) || kHostPunctuation.find(c) != std::string_view::npos) mask |= kHostChar;
    classes[i] = mask;
  }
  return classes;
}

bool is_port(std::string_view text) {  // empty is allowed by RFC 3986
  unsigned value = 0;
  for (const char c : text) {
    if (!is_digit(c)) return false;
    value = value * 10 + static_cast<unsigned>(c - '0');
    if (value > 65535) return false;
  }
  return true;
}

bool is_ip_literal(std::string_view inside) {
  return !inside.empty() &&
         std::all_of(inside.begin(), inside.end(), [](char c) { return is_hex(c) || c == ':' || c == '.'; });
}

bool is_reg_name(std::string_view name) {
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (has_class(name[i], kHostChar)) continue;
    if (name[i] != '%' || name.size() - i < 3 || !is_hex(name[i + 1]) || !is_hex(name[i + 2])) return false;
    i += 2;
  }
  return !name.empty();
}

}  // namespace

constinit const std::array<std::uint8_t, 256> kCharClass = make_classes();

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

std::size_t field_line_colon(std::string_view line) {
  std::size_t colon = 0;
  while (colon < line.size() && has_class(line[colon], kTokenChar)) ++colon;
  if (colon == 0 || colon == line.size() || line[colon] != ':') return std::string_view::npos;
  for (std::size_t i = colon + 1; i < line.size(); ++i) {
    if (has_class(line[i], kControl)) return std::string_view::npos;
  }
  return colon;
}

std::optional<std::uint64_t> parse_content_length(std::string_view text) {
  constexpr std::uint64_t kMax = INT64_MAX;
  if (text.empty()) return std::nullopt;
  std::uint64_t value = 0;
  for (const char c : text) {
    if (!is_digit(c)) return std::nullopt;
    const auto digit = static_cast<std::uint64_t>(c - '0');
    if (value > (kMax - digit) / 10) return std::nullopt;
    value = value * 10 + digit;
  }
  return value;
}

bool is_authority(std::string_view text) {
  if (!text.empty() && text.front() == '[') {
    const std::size_t close = text.find(']');
    if (close == std::string_view::npos || !is_ip_literal(text.substr(1, close - 1))) return false;
    const std::string_view rest = text.substr(close + 1);
    return rest.empty() || (rest.front() == ':' && is_port(rest.substr(1)));
  }
  std::size_t plain = 0;
  while (plain < text.size() && has_class(text[plain], kHostChar)) ++plain;
  if (plain == text.size()) return plain != 0;
  const std::size_t colon = text.find(':', plain);
  if (!is_reg_name(text.substr(0, colon))) return false;
  return colon == std::string_view::npos || is_port(text.substr(colon + 1));
}

}  // namespace dlb::http
