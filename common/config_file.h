// ConfigFile: a TOML file as plain values that remember where they stand. Decides nothing about options: it
// only turns text into a tree, so that toml++ is compiled once (config_file.cc) and no header includes it.
// option.cc reads the tree. Start-up and reload only; allocates freely, throws nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"

namespace dlb {

struct ConfigEntry;

struct ConfigValue {
  enum class Kind : std::uint8_t {
    Bool,
    Integer,
    Real,
    String,
    Array,
    Table,
    Other,  // dates and times: TOML has them, we have no option of that kind
  };

  Kind kind = Kind::Table;
  bool boolean = false;
  std::int64_t integer = 0;
  double real = 0;
  std::string text{};                // String
  std::vector<ConfigValue> items{};  // Array
  std::vector<ConfigEntry> entries;  // Table, in the order of the file
  std::uint32_t line = 0;            // 1-based; of the value itself
  std::uint32_t column = 0;
};

struct ConfigEntry {
  std::string key;
  ConfigValue value;
  std::uint32_t line = 0;  // of the key, or of the table's header
  std::uint32_t column = 0;
};

// "a string", "an integer", ...: for error texts.
std::string_view describe(ConfigValue::Kind kind);

// Parses `text`. The error is one line, `file_name:LINE:COLUMN: what is wrong`.
Result<ConfigValue> parse_config(std::string_view text, std::string_view file_name);

// Reads and parses a file of at most kMaxConfigBytes. Errors as above, or `FILE: open: ENOENT (...)`.
inline constexpr std::size_t kMaxConfigBytes = 4U << 20;
Result<ConfigValue> read_config_file(const std::string& path);

}  // namespace dlb
