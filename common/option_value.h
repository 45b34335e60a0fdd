// The values of single options: from text and from the file's values, to text and TOML, and the sentences
// that say what is wrong with one. Internal to option.cc and option_print.cc, but for shortened() and its
// kin, for whoever quotes what somebody typed; the types stand in option.h.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/config_file.h"
#include "common/option.h"
#include "common/result.h"

namespace dlb::option_detail {

// What an error quotes of a text that somebody typed: its first 200 bytes, whole characters, and "…".
std::string shortened(std::string_view text);
// Of a sentence with such a text in it: the begin, "…", and the last 200 bytes, which say what to do.
std::string shortened_middle(std::string_view text);

// Sets the option's member in `options`. The error text says what is wrong and what to do, without place or
// name: `200 is out of range, use 0 to 100`. The member is untouched on error. A secret's text is never
// quoted.
Result<void> assign_text(const OptionRow& row, void* options, std::string_view text);
Result<void> assign_config(const OptionRow& row, void* options, const ConfigValue& value);

// The member's value as TOML (`"1s"`, `100`, `["/feed"]`), and as a person types it on the command line.
std::string toml_text(const OptionRow& row, void* options);
std::string plain_text(const OptionRow& row, void* options);
std::string toml_string(std::string_view text);

// `0 to 100`, `at least 1ms`, `score | first`; empty when anything goes.
std::string range_text(const OptionRow& row);
// `requests, 1 to 1000`: what stands in --help and the README.
std::string domain_text(const OptionRow& row);
// The placeholder in --help: `N`, `TIME`, `SIZE`, `LIST`, `TEXT`.
std::string_view placeholder(OptionType type);

// The candidate with the smallest edit distance to `name`; requires at least one.
std::string_view nearest(std::string_view name, std::span<const std::string_view> candidates);

// One plain option as the command line and environment know it: rows of a [table] get its name in front.
struct FlatOption {
  std::string name;
  const OptionRow* row;
  void* options;  // the struct that row->member is taken of
};
std::vector<FlatOption> flatten(const OptionTable& table, void* options);

// option_print.cc: what --help and --help-markdown print; `options` holds the defaults.
std::string help_text(const OptionTable& table, void* options);
std::string help_markdown(const OptionTable& table, void* options);

}  // namespace dlb::option_detail
