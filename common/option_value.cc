#include "common/option_value.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>
#include <type_traits>

#include "common/json_writer.h"

namespace dlb {
namespace {

std::string_view trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

}  // namespace

namespace option_detail {
namespace {

template <class T>
T& member(const OptionRow& row, void* options) {
  return *static_cast<T*>(row.member(options));
}

std::string quote(const OptionRow& row, std::string_view text) {
  if (row.spec.secret) return "the value";
  return toml_string(shortened(text));
}

std::string bound_text(OptionType type, double bound) {
  if (type == OptionType::Time) return format_duration(Duration(static_cast<Duration::rep>(bound)));
  if (type == OptionType::Bytes) return format_byte_size({static_cast<std::uint64_t>(bound)});
  std::string text;
  append_json_double(text, bound, bound == std::floor(bound) ? 0 : -1);
  return text;
}

// Bounds are doubles; a whole number is compared with them exactly, as those over 2^53 have no double of
// their own.
template <class Number>
bool under(Number value, double bound) {
  if constexpr (std::is_floating_point_v<Number>) {
    return value < bound;
  } else {
    const double least = std::ceil(bound);
    if (least >= std::ldexp(1.0, std::numeric_limits<Number>::digits)) return true;
    if (least <= static_cast<double>(std::numeric_limits<Number>::min())) return false;
    return value < static_cast<Number>(least);
  }
}

template <class Number>
bool over(Number value, double bound) {
  if constexpr (std::is_floating_point_v<Number>) {
    return value > bound;
  } else {
    const double most = std::floor(bound);
    if (most >= std::ldexp(1.0, std::numeric_limits<Number>::digits)) return false;
    if (most < static_cast<double>(std::numeric_limits<Number>::min())) return true;
    return value > static_cast<Number>(most);
  }
}

template <class Number>
Result<void> check_range(const OptionRow& row, Number value, std::string_view shown) {
  if (!under(value, row.spec.min.value) && !over(value, row.spec.max.value)) return {};
  const std::string text = row.spec.secret ? "the value" : shortened(shown);
  return Error{text + " is out of range, use " + range_text(row)};
}

template <class T, class Number>
Result<void> store_number(const OptionRow& row, void* options, T value, Number number,
                          std::string_view shown) {
  if (auto in_range = check_range(row, number, shown); !in_range) return in_range;
  member<T>(row, options) = value;
  return {};
}

Result<void> store_string(const OptionRow& row, void* options, std::string_view text) {
  const auto choices = row.spec.choices;
  if (!choices.empty() && std::ranges::find(choices, text) == choices.end()) {
    return Error{quote(row, text) + " is not one of " + range_text(row) + "; did you mean \"" +
                 std::string(nearest(text, choices)) + "\"?"};
  }
  if (text.find('\0') != std::string_view::npos) return Error{"a NUL character is not allowed"};
  if (!is_valid_utf8(text)) return Error{"the value is not valid UTF-8"};
  member<std::string>(row, options) = text;
  return {};
}

Result<void> store_list(const OptionRow& row, void* options, std::vector<std::string> items) {
  if (auto in_range = check_range(row, items.size(), std::to_string(items.size()) + " items"); !in_range) {
    return in_range;
  }
  for (const std::string& item : items) {
    if (!is_valid_utf8(item)) return Error{"the value is not valid UTF-8"};
  }
  member<std::vector<std::string>>(row, options) = std::move(items);
  return {};
}

Result<void> store_time(const OptionRow& row, void* options, std::string_view text) {
  const auto value = parse_duration(text);
  if (!value) {
    return row.spec.secret ? Error{"the value is not a duration"} : parse_duration(shortened(text)).error();
  }
  return store_number(row, options, *value, value->count(), text);
}

Result<void> store_bytes(const OptionRow& row, void* options, std::string_view text) {
  const auto value = parse_byte_size(text);
  if (!value) {
    return row.spec.secret ? Error{"the value is not a size"} : parse_byte_size(shortened(text)).error();
  }
  return store_number(row, options, *value, value->bytes, text);
}

std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> items;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    const std::string_view item = trim(text.substr(0, comma));
    if (!item.empty()) items.emplace_back(item);
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  return items;
}

// Commas with nothing between them were meant to name something; a blank text is an empty list.
Result<void> store_list_text(const OptionRow& row, void* options, std::string_view text) {
  std::vector<std::string> items = split_list(text);
  if (items.empty() && !trim(text).empty()) return Error{quote(row, text) + " names nothing"};
  return store_list(row, options, std::move(items));
}

template <class Number>
bool parse_number(std::string_view text, Number& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

// `1 = "x"` style advice for a value of the wrong kind.
Error wrong_kind(const OptionRow& row, std::string_view expected, const ConfigValue& value) {
  std::string example;
  switch (row.type) {
    case OptionType::Bool:
      example = "true";
      break;
    case OptionType::Integer:
      example = std::to_string(static_cast<std::int64_t>(std::max(1.0, row.spec.min.value)));
      break;
    case OptionType::Real:
      example = "0.5";
      break;
    case OptionType::String:
      example = row.spec.choices.empty() ? "\"...\"" : toml_string(row.spec.choices[0]);
      break;
    case OptionType::Time:
      example = "\"1s\"";
      break;
    case OptionType::Bytes:
      example = "\"32KiB\"";
      break;
    default:
      example = "[\"...\", \"...\"]";
      break;
  }
  return Error{"expected " + std::string(expected) + ", found " + std::string(describe(value.kind)) +
               "; write " + std::string(row.name) + " = " + example};
}

}  // namespace

std::string shortened(std::string_view text) {
  constexpr std::size_t kMost = 200;
  if (text.size() <= kMost) return std::string(text);
  std::size_t end = kMost;
  while (end > kMost - 3 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80) --end;
  return std::string(text.substr(0, end)) + "…";
}

std::string shortened_middle(std::string_view text) {
  constexpr std::size_t kTail = 200;
  if (text.size() <= 2 * kTail) return std::string(text);
  std::size_t tail = text.size() - kTail;
  while (tail < text.size() && (static_cast<unsigned char>(text[tail]) & 0xc0U) == 0x80) ++tail;
  return shortened(text) + std::string(text.substr(tail));
}

Result<void> assign_text(const OptionRow& row, void* options, std::string_view text) {
  switch (row.type) {
    case OptionType::Bool: {
      const bool on = text == "true" || text == "yes" || text == "on" || text == "1";
      if (!on && text != "false" && text != "no" && text != "off" && text != "0") {
        return Error{quote(row, text) + " is not a switch, use true or false"};
      }
      member<bool>(row, options) = on;
      return {};
    }
    case OptionType::Integer: {
      std::int64_t value = 0;
      if (!parse_number(text, value)) return Error{quote(row, text) + " is not a whole number"};
      return store_number(row, options, value, value, text);
    }
    case OptionType::Real: {
      double value = 0;
      if (!parse_number(text, value) || !std::isfinite(value))
        return Error{quote(row, text) + " is not a number"};
      return store_number(row, options, value, value, text);
    }
    case OptionType::String:
      return store_string(row, options, text);
    case OptionType::Time:
      return store_time(row, options, text);
    case OptionType::Bytes:
      return store_bytes(row, options, text);
    case OptionType::List:
      return store_list_text(row, options, text);
    case OptionType::Table:
    case OptionType::Tables:
      break;
  }
  DLB_CHECK(false);
}

Result<void> assign_config(const OptionRow& row, void* options, const ConfigValue& value) {
  using Kind = ConfigValue::Kind;
  switch (row.type) {
    case OptionType::Bool:
      if (value.kind != Kind::Bool) return wrong_kind(row, "true or false", value);
      member<bool>(row, options) = value.boolean;
      return {};
    case OptionType::Integer:
      if (value.kind != Kind::Integer) return wrong_kind(row, "an integer", value);
      return store_number(row, options, value.integer, value.integer, std::to_string(value.integer));
    case OptionType::Real: {
      if (value.kind != Kind::Integer && value.kind != Kind::Real) return wrong_kind(row, "a number", value);
      const double number = value.kind == Kind::Integer ? static_cast<double>(value.integer) : value.real;
      std::string shown;
      append_json_double(shown, number);
      if (!std::isfinite(number)) return Error{"is not a finite number"};
      return store_number(row, options, number, number, shown);
    }
    case OptionType::String:
      if (value.kind != Kind::String) return wrong_kind(row, "a string", value);
      return store_string(row, options, value.text);
    case OptionType::Time:
      if (value.kind == Kind::Integer && value.integer >= 0)
        return store_time(row, options, std::to_string(value.integer));
      if (value.kind != Kind::String) return wrong_kind(row, "a duration as a string", value);
      return store_time(row, options, value.text);
    case OptionType::Bytes:
      if (value.kind == Kind::Integer && value.integer >= 0)
        return store_bytes(row, options, std::to_string(value.integer));
      if (value.kind != Kind::String)
        return wrong_kind(row, "a size as a string or a number of bytes", value);
      return store_bytes(row, options, value.text);
    case OptionType::List: {
      if (value.kind == Kind::String) return store_list_text(row, options, value.text);
      if (value.kind != Kind::Array) return wrong_kind(row, "an array of strings", value);
      std::vector<std::string> items;
      for (const ConfigValue& item : value.items) {
        if (item.kind != Kind::String) return wrong_kind(row, "an array of strings", item);
        items.push_back(item.text);
      }
      return store_list(row, options, std::move(items));
    }
    case OptionType::Table:
    case OptionType::Tables:
      break;
  }
  DLB_CHECK(false);
}

std::string toml_string(std::string_view text) {
  std::string escaped;
  append_json_string(escaped, text);
  std::string out;
  for (const char c : escaped) {
    if (c == '\x7f')
      out += "\\u007f";  // TOML, unlike JSON, counts DEL among the control characters
    else
      out += c;
  }
  return out;
}

std::string toml_text(const OptionRow& row, void* options) {
  switch (row.type) {
    case OptionType::Bool:
      return member<bool>(row, options) ? "true" : "false";
    case OptionType::Integer:
      return std::to_string(member<std::int64_t>(row, options));
    case OptionType::Real: {
      std::string text;
      append_json_double(text, member<double>(row, options));
      if (text.find_first_of(".e") == std::string::npos) text += ".0";
      return text;
    }
    case OptionType::String:
      return toml_string(member<std::string>(row, options));
    case OptionType::Time:
      return toml_string(format_duration(member<Duration>(row, options)));
    case OptionType::Bytes:
      return toml_string(format_byte_size(member<ByteSize>(row, options)));
    case OptionType::List: {
      std::string text = "[";
      for (const std::string& item : member<std::vector<std::string>>(row, options)) {
        if (text.size() > 1) text += ", ";
        text += toml_string(item);
      }
      return text + "]";
    }
    case OptionType::Table:
    case OptionType::Tables:
      break;
  }
  DLB_CHECK(false);
}

std::string plain_text(const OptionRow& row, void* options) {
  switch (row.type) {
    case OptionType::String:
      return member<std::string>(row, options);
    case OptionType::Time:
      return format_duration(member<Duration>(row, options));
    case OptionType::Bytes:
      return format_byte_size(member<ByteSize>(row, options));
    case OptionType::Real: {
      std::string text;
      append_json_double(text, member<double>(row, options));
      return text;
    }
    case OptionType::List: {
      const auto& items = member<std::vector<std::string>>(row, options);
      return std::accumulate(items.begin(), items.end(), std::string(),
                             [](std::string all, const std::string& item) {
                               return all.empty() ? item : std::move(all) + "," + item;
                             });
    }
    default:
      return toml_text(row, options);
  }
}

std::string range_text(const OptionRow& row) {
  std::string text;
  for (const std::string_view choice : row.spec.choices) {
    if (!text.empty()) text += " | ";
    text += choice;
  }
  if (row.type == OptionType::Bool || row.type == OptionType::String) return text;
  const double min = row.spec.min.value;
  const double max = row.spec.max.value;
  const OptionType unit_type = row.type;
  if (std::isinf(max))
    return min > 0 || row.type == OptionType::Integer || row.type == OptionType::Real
               ? "at least " + bound_text(unit_type, min)
               : "";
  return bound_text(unit_type, min) + " to " + bound_text(unit_type, max);
}

std::string domain_text(const OptionRow& row) {
  std::string text(row.spec.unit);
  const std::string range = range_text(row);
  if (!text.empty() && !range.empty()) text += ", ";
  return text + range;
}

std::string_view placeholder(OptionType type) {
  switch (type) {
    case OptionType::Bool:
      return "[true|false]";
    case OptionType::Integer:
    case OptionType::Real:
      return "N";
    case OptionType::Time:
      return "TIME";
    case OptionType::Bytes:
      return "SIZE";
    case OptionType::List:
      return "A,B,...";
    default:
      return "TEXT";
  }
}

std::string_view nearest(std::string_view name, std::span<const std::string_view> candidates) {
  DLB_CHECK(!candidates.empty());
  const auto distance = [&](std::string_view other) {
    std::vector<std::size_t> row(other.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 1; i <= name.size(); ++i) {
      std::size_t diagonal = std::exchange(row[0], i);
      for (std::size_t j = 1; j <= other.size(); ++j) {
        const std::size_t replaced = diagonal + (name[i - 1] == other[j - 1] ? 0 : 1);
        diagonal = row[j];
        row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
      }
    }
    // Among equals, the one that begins alike: typing errors seldom hit the first letter.
    const bool begins_alike = !name.empty() && !other.empty() && name[0] == other[0];
    return std::pair(row.back(), !begins_alike);
  };
  name = name.substr(0, 200);
  return *std::ranges::min_element(candidates, {}, distance);
}

std::vector<FlatOption> flatten(const OptionTable& table, void* options) {
  std::vector<FlatOption> flat;
  for (const OptionRow& row : table.rows) {
    if (row.type == OptionType::Tables) continue;
    if (row.type != OptionType::Table) {
      flat.push_back({std::string(row.name), &row, options});
      continue;
    }
    for (const OptionRow& inner : std::span(row.rows, row.row_count)) {
      flat.push_back({std::string(row.name) + "-" + std::string(inner.name), &inner, row.member(options)});
    }
  }
  return flat;
}

}  // namespace option_detail
}  // namespace dlb
