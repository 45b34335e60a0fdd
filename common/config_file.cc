#include "common/config_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "common/fd.h"

#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#define TOML_HEADER_ONLY 1
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wshadow"
#include <toml++/toml.h>
#pragma GCC diagnostic pop

namespace dlb {
namespace {

ConfigValue to_value(const toml::node& node);

ConfigValue to_table(const toml::table& table) {
  ConfigValue value;
  value.kind = ConfigValue::Kind::Table;
  for (auto&& [key, node] : table) {
    ConfigEntry entry{std::string(key.str()), to_value(node), key.source().begin.line,
                      key.source().begin.column};
    if (entry.line == 0) {  // made by a header such as [[backend]]
      entry.line = entry.value.line;
      entry.column = entry.value.column;
    }
    value.entries.push_back(std::move(entry));
  }
  // toml++ keeps keys sorted by name; people read by line.
  std::ranges::stable_sort(value.entries, [](const ConfigEntry& a, const ConfigEntry& b) {
    return std::pair(a.line, a.column) < std::pair(b.line, b.column);
  });
  return value;
}

ConfigValue to_value(const toml::node& node) {
  ConfigValue value;
  if (const auto* table = node.as_table()) {
    value = to_table(*table);
  } else if (const auto* array = node.as_array()) {
    value.kind = ConfigValue::Kind::Array;
    for (auto&& item : *array) value.items.push_back(to_value(item));
  } else if (const auto* text = node.as_string()) {
    value.kind = ConfigValue::Kind::String;
    value.text = text->get();
  } else if (const auto* integer = node.as_integer()) {
    value.kind = ConfigValue::Kind::Integer;
    value.integer = integer->get();
  } else if (const auto* real = node.as_floating_point()) {
    value.kind = ConfigValue::Kind::Real;
    value.real = real->get();
  } else if (const auto* boolean = node.as_boolean()) {
    value.kind = ConfigValue::Kind::Bool;
    value.boolean = boolean->get();
  } else {
    value.kind = ConfigValue::Kind::Other;
  }
  value.line = node.source().begin.line;
  value.column = node.source().begin.column;
  return value;
}

Result<std::string> read_file(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return errno_error(path + ": open", errno);
  std::string text;
  while (true) {
    char block[16384];
    const ssize_t got = ::read(file.get(), block, sizeof block);
    const int err = errno;
    if (got < 0 && err == EINTR) continue;
    if (got < 0) return errno_error(path + ": read", err);
    if (got == 0) return text;
    text.append(block, static_cast<std::size_t>(got));
    if (text.size() > kMaxConfigBytes)
      return Error{path + ": is over 4 MiB: is this the configuration file?"};
  }
}

}  // namespace

std::string_view describe(ConfigValue::Kind kind) {
  switch (kind) {
    case ConfigValue::Kind::Bool:
      return "true or false";
    case ConfigValue::Kind::Integer:
      return "an integer";
    case ConfigValue::Kind::Real:
      return "a number with a point";
    case ConfigValue::Kind::String:
      return "a string";
    case ConfigValue::Kind::Array:
      return "an array";
    case ConfigValue::Kind::Table:
      return "a table";
    case ConfigValue::Kind::Other:
      break;
  }
  return "a date or time";
}

Result<ConfigValue> parse_config(std::string_view text, std::string_view file_name) {
  const toml::parse_result parsed = toml::parse(text, file_name);
  if (parsed) return to_table(parsed.table());
  const auto& begin = parsed.error().source().begin;
  std::string what(parsed.error().description());
  std::ranges::replace(what, '\n', ' ');
  return Error{std::string(file_name) + ":" + std::to_string(begin.line) + ":" +
               std::to_string(begin.column) + ": " + what};
}

Result<ConfigValue> read_config_file(const std::string& path) {
  const auto text = read_file(path);
  if (!text) return text.error();
  return parse_config(*text, path);
}

}  // namespace dlb
