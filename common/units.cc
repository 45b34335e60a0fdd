#include "common/units.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>

namespace dlb {
namespace {

struct Unit {
  std::string_view name;
  std::uint64_t factor;
};
// Largest first: parts of a duration come in this order, and formatters take the first that divides.
constexpr std::array<Unit, 7> kTimeUnits = {{{"d", 86'400'000'000'000},
                                             {"h", 3'600'000'000'000},
                                             {"m", 60'000'000'000},
                                             {"s", 1'000'000'000},
                                             {"ms", 1'000'000},
                                             {"us", 1'000},
                                             {"ns", 1}}};
constexpr std::array<Unit, 6> kByteUnits = {{{"TiB", std::uint64_t{1} << 40},
                                             {"GiB", std::uint64_t{1} << 30},
                                             {"MiB", std::uint64_t{1} << 20},
                                             {"KiB", std::uint64_t{1} << 10},
                                             {"B", 1},
                                             {"", 1}}};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string_view take_while(std::string_view& text, bool (*predicate)(char)) {
  const auto end = std::ranges::find_if_not(text, predicate);
  const auto length = static_cast<std::size_t>(end - text.begin());
  const std::string_view taken = text.substr(0, length);
  text.remove_prefix(length);
  return taken;
}

std::string_view trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// digits times factor, false on overflow of 63 bits or without digits.
bool scale(std::string_view digits, std::uint64_t factor, std::uint64_t& out) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size()) return false;
  return !__builtin_mul_overflow(number, factor, &out) && out <= INT64_MAX;
}

// `fraction` (the digits behind a point) of one unit; digits below a nanosecond must be zero.
bool scale_fraction(std::string_view fraction, std::uint64_t factor, std::uint64_t& out) {
  out = 0;
  for (const char c : fraction) {
    if (factor % 10 != 0) {
      if (c != '0') return false;
      continue;
    }
    factor /= 10;
    out += factor * static_cast<std::uint64_t>(c - '0');
  }
  return true;
}

std::string format_units(std::uint64_t value, std::span<const Unit> units) {
  for (const Unit& unit : units) {
    if (value % unit.factor == 0) return std::to_string(value / unit.factor) + std::string(unit.name);
  }
  return std::to_string(value);
}

}  // namespace

Result<Duration> parse_duration(std::string_view text) {
  const std::string quoted = "\"" + std::string(text) + "\"";
  if (text == "0") return Duration::zero();
  const Error bad{quoted + " is not a duration, write it as 500ms, 1s or 2m"};
  if (!text.empty() && std::ranges::all_of(text, is_digit)) {
    return Error{quoted + " has no unit, write " + std::string(text) + "s or " + std::string(text) + "ms"};
  }
  std::uint64_t total = 0;
  const Unit* next_allowed = kTimeUnits.data();
  if (text.empty()) return bad;
  while (!text.empty()) {
    const std::string_view digits = take_while(text, is_digit);
    std::string_view fraction;
    if (text.starts_with('.')) {
      text.remove_prefix(1);
      fraction = take_while(text, is_digit);
      if (fraction.empty()) return bad;
    }
    const std::string_view unit_name = take_while(text, [](char c) { return c >= 'a' && c <= 'z'; });
    const Unit* unit = std::find_if(next_allowed, kTimeUnits.data() + kTimeUnits.size(),
                                    [&](const Unit& u) { return u.name == unit_name; });
    std::uint64_t whole = 0;
    std::uint64_t part = 0;
    if (unit == kTimeUnits.data() + kTimeUnits.size() || digits.empty()) return bad;
    if (!scale_fraction(fraction, unit->factor, part)) return bad;
    if (!scale(digits, unit->factor, whole) || __builtin_add_overflow(total, whole + part, &total) ||
        total > INT64_MAX) {
      return Error{quoted + " is too long a time"};
    }
    next_allowed = unit + 1;
  }
  return Duration(static_cast<Duration::rep>(total));
}

std::string format_duration(Duration value) {
  if (value <= Duration::zero()) return "0";
  return format_units(static_cast<std::uint64_t>(value.count()), kTimeUnits);
}

Result<ByteSize> parse_byte_size(std::string_view text) {
  const std::string quoted = "\"" + std::string(text) + "\"";
  const std::string_view digits = take_while(text, is_digit);
  text = trim(text);
  const auto unit = std::ranges::find_if(kByteUnits, [&](const Unit& u) { return u.name == text; });
  if (digits.empty() || unit == kByteUnits.end()) {
    return Error{quoted + " is not a size, write it as 32KiB, 160MiB or a number of bytes"};
  }
  ByteSize size;
  if (!scale(digits, unit->factor, size.bytes)) return Error{quoted + " is too large a size"};
  return size;
}

std::string format_byte_size(ByteSize value) {
  if (value.bytes == 0) return "0";
  return format_units(value.bytes, std::span(kByteUnits).first(4));
}

}  // namespace dlb
