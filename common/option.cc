// Loading: defaults, then the file, the environment and the command line, each value checked where it is
// read. Values and their texts are in option_value.cc, what is printed in option_print.cc.
#include "common/option.h"

#include <algorithm>

#include "common/config_file.h"
#include "common/option_value.h"

namespace dlb {

std::string environment_name(std::string_view prefix, std::string_view option_name) {
  std::string name(prefix);
  for (const char c : option_name) {
    name += c == '-' ? '_' : c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  }
  return name;
}

OptionSource LoadedOptions::source(std::string_view name) const {
  const auto found = origins_.find(name);
  return found == origins_.end() ? OptionSource::Default : found->second.source;
}

std::string LoadedOptions::place(std::string_view name) const {
  const auto found = origins_.find(name);
  if (found != origins_.end()) return found->second.place;
  return config_file.empty() ? std::string(name) : config_file;
}

Error LoadedOptions::at(std::string_view name, std::string_view text) const {
  // A flag or a variable is named by its place already.
  const OptionSource from = source(name);
  const bool named = from == OptionSource::CommandLine || from == OptionSource::Environment ||
                     (from == OptionSource::Default && config_file.empty());
  return Error{place(name) + ": " + (named ? "" : std::string(name) + ": ") +
               option_detail::shortened_middle(text)};
}

// Friend of LoadedOptions: one load.
class OptionLoader {
 public:
  OptionLoader(const OptionTable& table, void* options)
      : table_(table), options_(options), flat_(option_detail::flatten(table, options)) {}

  Result<LoadedOptions> load(int argc, const char* const* argv, const char* const* environment);

 private:
  using FlatOption = option_detail::FlatOption;
  struct Assignment {
    const FlatOption* option;
    std::string_view flag;  // as typed, with dashes
    std::string_view text;
  };

  Result<void> scan_command_line(std::span<const char* const> arguments);
  Result<void> scan_flag(std::span<const char* const> arguments, std::size_t& at);
  Result<void> scan_word(std::string_view word);
  Result<void> apply_file();
  Result<void> apply_rows(std::span<const OptionRow> rows, void* options, const ConfigValue& table,
                          const std::string& key_prefix, const std::string& option_prefix);
  Result<void> apply_entry(const OptionRow& row, void* options, const ConfigEntry& entry,
                           const std::string& key_prefix, const std::string& option_prefix);
  Result<void> apply_tables(const OptionRow& row, void* options, const ConfigEntry& entry);
  Result<void> apply_environment(const char* const* environment);
  Result<void> apply_command_line();

  const FlatOption* find(std::string_view name) const {
    const auto found = std::ranges::find(flat_, name, &FlatOption::name);
    return found == flat_.end() ? nullptr : &*found;
  }
  std::string file_place(std::uint32_t line) const {
    return loaded_.config_file + ":" + std::to_string(line);
  }
  std::string file_place(std::uint32_t line, std::uint32_t column) const {
    return file_place(line) + ":" + std::to_string(column);
  }
  void remember(const std::string& name, OptionSource source, std::string place) {
    loaded_.origins_[name] = {source, std::move(place)};
  }

  const OptionTable& table_;
  void* options_;
  std::vector<FlatOption> flat_;
  std::vector<Assignment> assignments_;
  LoadedOptions loaded_;
};

Result<void> OptionLoader::scan_word(std::string_view word) {
  if (!loaded_.command.empty()) {
    loaded_.operands.emplace_back(word);
    return {};
  }
  if (table_.commands.empty()) {
    return Error{"unexpected argument \"" + option_detail::shortened(word) +
                 "\": options begin with --, see --help"};
  }
  if (std::ranges::find(table_.commands, word) == table_.commands.end()) {
    return Error{"\"" + option_detail::shortened(word) + "\" is no command; did you mean \"" +
                 std::string(option_detail::nearest(word, table_.commands)) + "\"?"};
  }
  loaded_.command = word;
  return {};
}

// Takes the flag at `at` and its value; leaves `at` on the last argument used.
Result<void> OptionLoader::scan_flag(std::span<const char* const> arguments, std::size_t& at) {
  const std::string_view flag = arguments[at];
  const std::size_t equals = flag.find('=');
  const std::string_view dashed = flag.substr(0, equals);
  const std::string_view name = dashed.substr(dashed.starts_with("--") ? 2 : 1);
  const bool has_next = at + 1 < arguments.size();

  if (flag == "-c" || flag == "--config") {
    if (!has_next) return Error{std::string(flag) + ": needs the name of a TOML file"};
    loaded_.config_file = arguments[++at];
    return {};
  }
  static constexpr std::pair<std::string_view, OptionAction> kActions[] = {
      {"-t", OptionAction::Check},
      {"--help", OptionAction::Help},
      {"-help", OptionAction::Help},
      {"-h", OptionAction::Help},
      {"--version", OptionAction::Version},
      {"-version", OptionAction::Version},
      {"--help-markdown", OptionAction::HelpMarkdown},
      {"--print-config", OptionAction::PrintConfig},
      {"-print-config", OptionAction::PrintConfig},
  };
  for (const auto& [text, action] : kActions) {
    if (flag != text) continue;
    // Help and version win over everything else, whatever stands behind them.
    const bool decided = loaded_.action >= OptionAction::Help;
    if (!decided) loaded_.action = action;
    return {};
  }

  const FlatOption* option = find(name);
  if (option == nullptr) {
    std::vector<std::string_view> names;
    for (const FlatOption& flat : flat_) names.push_back(flat.name);
    if (names.empty()) return Error{option_detail::shortened(dashed) + ": unknown option"};
    return Error{option_detail::shortened(dashed) + ": unknown option; did you mean --" +
                 std::string(option_detail::nearest(name, names)) + "?"};
  }
  if (equals != std::string_view::npos) {
    assignments_.push_back({option, dashed, flag.substr(equals + 1)});
    return {};
  }
  if (option->row->type == OptionType::Bool) {
    const std::string_view next = has_next ? arguments[at + 1] : "";
    static constexpr std::string_view kSwitches[] = {"true", "false", "yes", "no", "on", "off", "1", "0"};
    const bool takes_next = std::ranges::find(kSwitches, next) != std::end(kSwitches);
    if (takes_next) ++at;
    assignments_.push_back({option, dashed, takes_next ? next : "true"});
    return {};
  }
  if (!has_next) {
    return Error{std::string(dashed) + ": needs a value: " + std::string(dashed) + " " +
                 std::string(option_detail::placeholder(option->row->type))};
  }
  assignments_.push_back({option, dashed, arguments[++at]});
  return {};
}

Result<void> OptionLoader::scan_command_line(std::span<const char* const> arguments) {
  Result<void> first_error;
  bool only_words = false;
  for (std::size_t at = 0; at < arguments.size(); ++at) {
    const std::string_view argument = arguments[at];
    Result<void> taken;
    if (!only_words && argument == "--")
      only_words = true;
    else if (!only_words && argument.size() > 1 && argument.starts_with('-'))
      taken = scan_flag(arguments, at);
    else
      taken = scan_word(argument);
    if (!taken && first_error) first_error = std::move(taken);
  }
  if (loaded_.action >= OptionAction::Help) return {};
  return first_error;
}

Result<void> OptionLoader::apply_tables(const OptionRow& row, void* options, const ConfigEntry& entry) {
  const std::string name(row.name);
  const bool is_array = entry.value.kind == ConfigValue::Kind::Array;
  const bool all_tables = is_array && std::ranges::all_of(entry.value.items, [](const ConfigValue& item) {
                            return item.kind == ConfigValue::Kind::Table;
                          });
  if (!all_tables) {
    return Error{file_place(entry.line, entry.column) + ": " + name + ": write it as a table of its own: [[" +
                 name + "]]"};
  }
  for (const ConfigValue& item : entry.value.items) {
    void* element = row.append(options, file_place(item.line));
    if (auto applied = apply_rows({row.rows, row.row_count}, element, item, name + ".", ""); !applied)
      return applied;
  }
  remember(name, OptionSource::File, file_place(entry.line, entry.column));
  return {};
}

Result<void> OptionLoader::apply_entry(const OptionRow& row, void* options, const ConfigEntry& entry,
                                       const std::string& key_prefix, const std::string& option_prefix) {
  const std::string name(row.name);
  if (row.type == OptionType::Tables) return apply_tables(row, options, entry);
  if (row.type == OptionType::Table) {
    if (entry.value.kind != ConfigValue::Kind::Table) {
      return Error{file_place(entry.line, entry.column) + ": " + name +
                   ": write it as a table of its own: [" + name + "]"};
    }
    remember(name, OptionSource::File, file_place(entry.line, entry.column));
    return apply_rows({row.rows, row.row_count}, row.member(options), entry.value, name + ".", name + "-");
  }
  const std::string place = file_place(entry.value.line, entry.value.column);
  if (auto assigned = option_detail::assign_config(row, options, entry.value); !assigned) {
    return Error{place + ": " + key_prefix + name + ": " + assigned.error().text};
  }
  // Elements of [[tables]] have no name of their own to be asked for; they keep their line in `place`.
  if (key_prefix.empty() || !option_prefix.empty()) remember(option_prefix + name, OptionSource::File, place);
  return {};
}

Result<void> OptionLoader::apply_rows(std::span<const OptionRow> rows, void* options,
                                      const ConfigValue& table, const std::string& key_prefix,
                                      const std::string& option_prefix) {
  for (const ConfigEntry& entry : table.entries) {
    const auto row = std::ranges::find(rows, entry.key, &OptionRow::name);
    if (row == rows.end()) {
      std::vector<std::string_view> names;
      for (const OptionRow& known : rows) names.push_back(known.name);
      const std::string near = names.empty() ? "" : std::string(option_detail::nearest(entry.key, names));
      return Error{file_place(entry.line, entry.column) + ": " + key_prefix + entry.key +
                   ": unknown option; did you mean " + key_prefix + near + "?"};
    }
    if (auto applied = apply_entry(*row, options, entry, key_prefix, option_prefix); !applied) return applied;
  }
  return {};
}

Result<void> OptionLoader::apply_file() {
  if (loaded_.config_file.empty()) return {};
  const auto tree = read_config_file(loaded_.config_file);
  if (!tree) return tree.error();
  return apply_rows(table_.rows, options_, *tree, "", "");
}

Result<void> OptionLoader::apply_environment(const char* const* environment) {
  if (environment == nullptr) return {};
  std::map<std::string_view, std::string_view> variables;
  for (; *environment != nullptr; ++environment) {
    const std::string_view variable = *environment;
    const std::size_t equals = variable.find('=');
    if (equals != std::string_view::npos)
      variables.emplace(variable.substr(0, equals), variable.substr(equals + 1));
  }
  for (const FlatOption& option : flat_) {
    const std::string name = environment_name(table_.environment_prefix, option.name);
    const auto found = variables.find(name);
    if (found == variables.end()) continue;
    const bool may_be_empty = option.row->type == OptionType::String || option.row->type == OptionType::List;
    if (found->second.empty() && !may_be_empty) continue;
    if (auto assigned = option_detail::assign_text(*option.row, option.options, found->second); !assigned) {
      return Error{name + ": " + assigned.error().text};
    }
    remember(option.name, OptionSource::Environment, name);
  }
  return {};
}

Result<void> OptionLoader::apply_command_line() {
  std::map<std::string_view, std::string> lists;  // repeated list flags add up
  for (const Assignment& assignment : assignments_) {
    const FlatOption& option = *assignment.option;
    std::string_view text = assignment.text;
    if (option.row->type == OptionType::List) {
      std::string& joined = lists[option.name];
      if (!joined.empty()) joined += ',';
      text = joined += text;
    }
    if (auto assigned = option_detail::assign_text(*option.row, option.options, text); !assigned) {
      return Error{std::string(assignment.flag) + ": " + assigned.error().text};
    }
    remember(option.name, OptionSource::CommandLine, "--" + option.name);
  }
  return {};
}

Result<LoadedOptions> OptionLoader::load(int argc, const char* const* argv, const char* const* environment) {
  const auto count = static_cast<std::size_t>(std::max(argc, 1));
  const std::span<const char* const> arguments =
      argc > 1 ? std::span(argv, count).subspan(1) : std::span<const char* const>();
  if (auto scanned = scan_command_line(arguments); !scanned) return scanned.error();
  if (loaded_.action == OptionAction::Help) loaded_.help = option_detail::help_text(table_, options_);
  if (loaded_.action == OptionAction::HelpMarkdown)
    loaded_.help = option_detail::help_markdown(table_, options_);
  if (loaded_.action >= OptionAction::Help) return std::move(loaded_);
  if (auto applied = apply_file(); !applied) return applied.error();
  if (auto applied = apply_environment(environment); !applied) return applied.error();
  if (auto applied = apply_command_line(); !applied) return applied.error();
  return std::move(loaded_);
}

Result<LoadedOptions> option_detail::load(const OptionTable& table, void* options, const void* owner,
                                          int argc, const char* const* argv, const char* const* environment) {
  for (const OptionRow& row : table.rows) DLB_CHECK_MSG(row.owner == owner, row.name);
  return OptionLoader(table, options).load(argc, argv, environment);
}

}  // namespace dlb
