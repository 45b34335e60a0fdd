// Options: one row array per program is the only place where an option is declared. From it come the TOML
// file, the environment, the command line, --help, --print-config, README tables and reload.
//
//   struct Options {
//     std::int64_t max_inflight = 100;
//     Duration health_interval = 1s;
//     std::vector<BackendOptions> backend;
//   };
//   constexpr OptionRow kRows[] = {
//       option<&Options::max_inflight>("max-inflight", {.min = 1, .max = 100000, .unit = "requests",
//                                                       .apply = Apply::Live, .help = "..."}),
//       option_tables<&Options::backend>("backend", kBackendRows, "..."),
//   };
//
// Members may be bool, std::int64_t, double, std::string (with .choices: an enumeration), Duration, ByteSize
// and std::vector<std::string>. An element of option_tables needs a member `std::string place`: it is set to
// `FILE:LINE`. Precedence: command line > environment > file > default. Start-up and reload only, one thread,
// throws nothing.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/result.h"
#include "common/units.h"

namespace dlb {

enum class Apply : std::uint8_t {
  AsTable,  // what OptionTable::apply says
  Restart,  // read once at start
  Live,     // a reload changes it
};

// An inclusive bound in the option's own unit: a number, a Duration or a ByteSize.
struct OptionBound {
  double value;
  template <class Number>
  requires std::is_arithmetic_v<Number>
  constexpr OptionBound(Number number) : value(static_cast<double>(number)) {}  // NOLINT
  template <class Rep, class Period>
  constexpr OptionBound(std::chrono::duration<Rep, Period> d)  // NOLINT
      : value(static_cast<double>(std::chrono::duration_cast<Duration>(d).count())) {}
  constexpr OptionBound(ByteSize b) : value(static_cast<double>(b.bytes)) {}  // NOLINT
};

// What a row says besides name and member; every part may be left out, in this order.
struct OptionSpec {
  OptionBound min = 0;
  OptionBound max = std::numeric_limits<double>::infinity();
  std::string_view unit{};                      // "requests", "percent", "address"; shown in --help
  std::span<const std::string_view> choices{};  // a string option takes one of these only
  Apply apply = Apply::AsTable;
  bool secret = false;  // --print-config leaves the value out
  std::string_view help{};
};

enum class OptionType : std::uint8_t { Bool, Integer, Real, String, Time, Bytes, List, Table, Tables };

struct OptionRow {
  std::string_view name{};  // `max-inflight`
  OptionType type = OptionType::Bool;
  OptionSpec spec{};
  const void* owner = nullptr;               // identifies the struct that the member belongs to
  void* (*member)(void* options) = nullptr;  // address of the member (of the vector, for Tables)

  // Table and Tables only: the rows of the inner struct; and for Tables how to add, count and reach elements.
  const OptionRow* rows = nullptr;
  std::size_t row_count = 0;
  void* (*append)(void* options, std::string place) = nullptr;
  std::size_t (*count)(void* options) = nullptr;
  void* (*element)(void* options, std::size_t index) = nullptr;
};

// Everything about a program's command line that isn't a row.
struct OptionTable {
  std::string_view program{};             // `lb`
  std::string_view intro{};               // one or two lines at the head of --help
  std::string_view environment_prefix{};  // `LB_`; empty: none
  std::span<const OptionRow> rows{};
  std::span<const std::string_view>
      commands{};                // words taken as first positional argument; empty: none allowed
  Apply apply = Apply::Restart;  // of the rows that don't say: Restart or Live
};

// Restart or Live.
constexpr Apply apply_of(const OptionTable& table, const OptionRow& row) {
  return row.spec.apply == Apply::AsTable ? table.apply : row.spec.apply;
}

// What the command line asks for.
enum class OptionAction : std::uint8_t { Run, Check, PrintConfig, Help, HelpMarkdown, Version };

enum class OptionSource : std::uint8_t { Default, File, Environment, CommandLine };

// What loading found out besides the values.
class LoadedOptions {
 public:
  OptionAction action = OptionAction::Run;
  std::string config_file{};            // of -c, or empty
  std::string command{};                // a word of OptionTable::commands, or empty
  std::vector<std::string> operands{};  // what follows the command
  std::string help{};                   // text of --help or --help-markdown when asked for

  // Where the value of option `name` came from (tables: `autoscale-min`).
  OptionSource source(std::string_view name) const;
  bool given(std::string_view name) const { return source(name) != OptionSource::Default; }
  // `lb.conf:3:13`, `--threshold`, `LB_THRESHOLD`, or `threshold` for a default.
  std::string place(std::string_view name) const;
  // For rules across fields: `lb.conf:3:13: threshold: <text>`, `--threshold: <text>`, `LB_THRESHOLD:
  // <text>`.
  Error at(std::string_view name, std::string_view text) const;

 private:
  friend class OptionLoader;
  struct Origin {
    OptionSource source = OptionSource::Default;
    std::string place;
  };
  std::map<std::string, Origin, std::less<>> origins_;
};

// Loads into `options`, which must hold the defaults (a freshly made struct of the type that the rows name).
// `environment` is a null-terminated `NAME=value` array such as ::environ; an empty value of anything but a
// string or list counts as not set. The error is one line that says where, what is wrong and what to do; the
// caller prints it and exits 2. With action Help, HelpMarkdown or Version nothing else has been read.
template <class Options>
Result<LoadedOptions> load_options(const OptionTable& table, Options& options, int argc,
                                   const char* const* argv, const char* const* environment);

// After the caller's own checks: prints what was asked for to standard output and returns the exit code 0, or
// nothing when the program is to run.
template <class Options>
std::optional<int> finish_action(const OptionTable& table, const LoadedOptions& loaded, Options& options);

// The values as TOML that loads to the same values; secrets are left out with a comment.
template <class Options>
std::string print_config(const OptionTable& table, Options& options);

// Names of the options whose values differ, with their rows; what a reload looks at.
struct ChangedOption {
  std::string name;
  const OptionRow* row;
};
template <class Options>
std::vector<ChangedOption> changed_options(const OptionTable& table, Options& before, Options& after);

// Copies the value of `row`, which is no table, from one struct to another of the type that the row names.
template <class Options>
void copy_option(const OptionRow& row, const Options& from, Options& to);

// The environment variable of an option: `LB_MAX_INFLIGHT`.
std::string environment_name(std::string_view prefix, std::string_view option_name);

// ---- below: how rows are made and the type-erased functions behind the templates ----

namespace option_detail {

template <class T>
inline constexpr char kOwnerTag = 0;

template <class T>
struct MemberOf;
template <class Class, class Value>
struct MemberOf<Value Class::*> {
  using Struct = Class;
  using Type = Value;
};

template <class T>
constexpr OptionType type_of() {
  if constexpr (std::is_same_v<T, bool>)
    return OptionType::Bool;
  else if constexpr (std::is_same_v<T, std::int64_t>)
    return OptionType::Integer;
  else if constexpr (std::is_same_v<T, double>)
    return OptionType::Real;
  else if constexpr (std::is_same_v<T, std::string>)
    return OptionType::String;
  else if constexpr (std::is_same_v<T, Duration>)
    return OptionType::Time;
  else if constexpr (std::is_same_v<T, ByteSize>)
    return OptionType::Bytes;
  else {
    static_assert(std::is_same_v<T, std::vector<std::string>>, "no option can have this type: see option.h");
    return OptionType::List;
  }
}

Result<LoadedOptions> load(const OptionTable& table, void* options, const void* owner, int argc,
                           const char* const* argv, const char* const* environment);
std::optional<int> finish(const OptionTable& table, const LoadedOptions& loaded, void* options);
std::string print(const OptionTable& table, void* options);
std::vector<ChangedOption> changed(const OptionTable& table, void* before, void* after);
void copy(const OptionRow& row, const void* from, void* to);

}  // namespace option_detail

template <auto Member>
constexpr OptionRow option(std::string_view name, OptionSpec spec) {
  using Traits = option_detail::MemberOf<decltype(Member)>;
  OptionRow row;
  row.name = name;
  row.type = option_detail::type_of<typename Traits::Type>();
  row.spec = spec;
  row.owner = &option_detail::kOwnerTag<typename Traits::Struct>;
  row.member = [](void* options) -> void* {
    return &(static_cast<typename Traits::Struct*>(options)->*Member);
  };
  return row;
}

// `[name]`: a member that is a struct with rows of its own; `--name-key` and `PREFIX_NAME_KEY` outside the
// file.
template <auto Member>
constexpr OptionRow option_table(std::string_view name, std::span<const OptionRow> rows,
                                 std::string_view help) {
  using Traits = option_detail::MemberOf<decltype(Member)>;
  OptionRow row;
  row.name = name;
  row.type = OptionType::Table;
  row.spec.help = help;
  row.owner = &option_detail::kOwnerTag<typename Traits::Struct>;
  row.member = [](void* options) -> void* {
    return &(static_cast<typename Traits::Struct*>(options)->*Member);
  };
  row.rows = rows.data();
  row.row_count = rows.size();
  return row;
}

// `[[name]]`: a member std::vector<Element>, where Element has rows of its own and `std::string place`. File
// only.
template <auto Member>
constexpr OptionRow option_tables(std::string_view name, std::span<const OptionRow> rows,
                                  std::string_view help) {
  using Traits = option_detail::MemberOf<decltype(Member)>;
  using Struct = typename Traits::Struct;
  OptionRow row = option_table<Member>(name, rows, help);
  row.type = OptionType::Tables;
  row.append = [](void* options, std::string place) -> void* {
    auto& elements = static_cast<Struct*>(options)->*Member;
    elements.emplace_back();
    elements.back().place = std::move(place);
    return &elements.back();
  };
  row.count = [](void* options) { return (static_cast<Struct*>(options)->*Member).size(); };
  row.element = [](void* options, std::size_t index) -> void* {
    return &(static_cast<Struct*>(options)->*Member)[index];
  };
  return row;
}

template <class Options>
Result<LoadedOptions> load_options(const OptionTable& table, Options& options, int argc,
                                   const char* const* argv, const char* const* environment) {
  return option_detail::load(table, &options, &option_detail::kOwnerTag<Options>, argc, argv, environment);
}

template <class Options>
std::optional<int> finish_action(const OptionTable& table, const LoadedOptions& loaded, Options& options) {
  return option_detail::finish(table, loaded, &options);
}

template <class Options>
std::string print_config(const OptionTable& table, Options& options) {
  return option_detail::print(table, &options);
}

template <class Options>
std::vector<ChangedOption> changed_options(const OptionTable& table, Options& before, Options& after) {
  return option_detail::changed(table, &before, &after);
}

template <class Options>
void copy_option(const OptionRow& row, const Options& from, Options& to) {
  // Rows' accessors serve loading too and so take a mutable pointer; nothing is written through it here.
  option_detail::copy(row, row.member(const_cast<Options*>(&from)), row.member(&to));
}

}  // namespace dlb
