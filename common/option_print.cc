// What is shown of an option table: --help, its README form, --print-config, and what a reload compares.
#include <algorithm>
#include <cstdio>
#include <map>

#include "common/option_value.h"

#ifndef DLB_VERSION
#define DLB_VERSION "dev"
#endif

namespace dlb::option_detail {
namespace {

void append_row_toml(std::string& out, const OptionRow& row, void* options) {
  if (row.spec.secret) {
    out += "# " + std::string(row.name) + " is a secret and not shown\n";
    return;
  }
  out += std::string(row.name) + " = " + toml_text(row, options) + "\n";
}

void append_table_toml(std::string& out, const OptionRow& table, std::string_view header, void* options) {
  out += "\n" + std::string(header) + "\n";
  for (const OptionRow& row : std::span(table.rows, table.row_count)) append_row_toml(out, row, options);
}

// All tables of one [[row]], or the one [row].
void append_tables(std::string& out, const OptionRow& row, void* options) {
  const std::string name(row.name);
  if (row.type == OptionType::Table) append_table_toml(out, row, "[" + name + "]", row.member(options));
  if (row.type != OptionType::Tables) return;
  for (std::size_t i = 0; i < row.count(options); ++i) {
    append_table_toml(out, row, "[[" + name + "]]", row.element(options, i));
  }
}

std::string default_text(const OptionRow& row, void* options) {
  if (row.spec.secret) return "";
  return plain_text(row, options);
}

void append_help_row(std::string& out, const OptionTable& table, const std::string& name,
                     const OptionRow& row, void* options) {
  std::string line = "  --" + name + " " + std::string(placeholder(row.type));
  if (line.size() < 40) line.resize(40, ' ');
  const std::string value = default_text(row, options);
  line += "  default: " + (value.empty() ? std::string("none") : value);
  if (const std::string domain = domain_text(row); !domain.empty()) line += "  (" + domain + ")";
  if (apply_of(table, row) == Apply::Live) line += "  [reload]";
  out += line + "\n      " + std::string(row.spec.help) + "\n";
}

std::string markdown_cell(std::string text) {
  for (std::size_t at = text.find('|'); at != std::string::npos; at = text.find('|', at + 2))
    text.insert(at, "\\");
  return text;
}

void append_markdown_row(std::string& out, const OptionTable& table, const std::string& name,
                         const OptionRow& row, const std::string& value, bool required) {
  out += "| `" + name + "` | ";
  out += required ? "" : value.empty() ? "(empty)" : "`" + value + "`";
  out += " | " + markdown_cell(domain_text(row)) + " | " +
         (apply_of(table, row) == Apply::Live ? "live" : "restart") + " | " +
         markdown_cell(std::string(row.spec.help)) + " |\n";
}

}  // namespace

std::string help_text(const OptionTable& table, void* options) {
  const std::string program(table.program);
  std::string out = "usage: " + program + " [-c FILE] [--option value]...";
  for (const std::string_view command : table.commands)
    out += "\n       " + program + " " + std::string(command) + " ...";
  out += "\n\n";
  if (!table.intro.empty()) out += std::string(table.intro) + "\n\n";
  out +=
      "  -c FILE           read options from this TOML file\n"
      "  -t                check the configuration and exit\n"
      "  --print-config    print the values in force as TOML and exit\n"
      "  --help            this text; --help-markdown: the same as a table\n"
      "  --version\n\n"
      "An option has one name everywhere: `--some-option 1` here, `some-option = 1` in the file, `" +
      std::string(table.environment_prefix) +
      "SOME_OPTION=1`\nin the environment. Command line wins over environment over file over default.\n"
      "Durations: 500ms, 1s, 2m. Sizes: 32KiB, 160MiB. [reload]: a reload of the file changes it.\n\n";
  for (const FlatOption& flat : flatten(table, options))
    append_help_row(out, table, flat.name, *flat.row, flat.options);
  for (const OptionRow& row : table.rows) {
    if (row.type != OptionType::Tables) continue;
    out += "\nIn the file, any number of [[" + std::string(row.name) + "]]: " + std::string(row.spec.help) +
           "\n";
    for (const OptionRow& inner : std::span(row.rows, row.row_count)) {
      const std::string domain = domain_text(inner);
      std::string line = "  " + std::string(inner.name);
      if (line.size() < 20) line.resize(20, ' ');
      out += line + std::string(inner.spec.help) + (domain.empty() ? "" : " (" + domain + ")") + "\n";
    }
  }
  return out;
}

std::string help_markdown(const OptionTable& table, void* options) {
  static constexpr std::string_view kHead =
      "| option | default | values | change | meaning |\n|---|---|---|---|---|\n";
  std::string out(kHead);
  for (const FlatOption& flat : flatten(table, options)) {
    append_markdown_row(out, table, flat.name, *flat.row, default_text(*flat.row, flat.options), false);
  }
  for (const OptionRow& row : table.rows) {
    if (row.type != OptionType::Tables) continue;
    out +=
        "\n`[[" + std::string(row.name) + "]]`: " + std::string(row.spec.help) + "\n\n" + std::string(kHead);
    for (const OptionRow& inner : std::span(row.rows, row.row_count)) {
      append_markdown_row(out, table, std::string(inner.name), inner, "", true);
    }
  }
  return out;
}

std::string print(const OptionTable& table, void* options) {
  std::string out = "# " + std::string(table.program) + " " DLB_VERSION ": the values in force\n";
  // TOML wants plain keys before the first table.
  for (const OptionRow& row : table.rows) {
    if (row.type != OptionType::Table && row.type != OptionType::Tables) append_row_toml(out, row, options);
  }
  for (const OptionRow& row : table.rows) append_tables(out, row, options);
  return out;
}

std::optional<int> finish(const OptionTable& table, const LoadedOptions& loaded, void* options) {
  std::string out;
  switch (loaded.action) {
    case OptionAction::Run:
      return std::nullopt;
    case OptionAction::Check:
      out = loaded.config_file.empty() ? "the configuration is valid\n"
                                       : loaded.config_file + ": the configuration is valid\n";
      break;
    case OptionAction::PrintConfig:
      out = print(table, options);
      break;
    case OptionAction::Help:
    case OptionAction::HelpMarkdown:
      out = loaded.help;
      break;
    case OptionAction::Version:
      out = std::string(table.program) + " " DLB_VERSION "\n";
      break;
  }
  std::fwrite(out.data(), 1, out.size(), stdout);
  std::fflush(stdout);
  return 0;
}

std::vector<ChangedOption> changed(const OptionTable& table, void* before, void* after) {
  std::vector<ChangedOption> result;
  const std::vector<FlatOption> old_values = flatten(table, before);
  const std::vector<FlatOption> new_values = flatten(table, after);
  for (std::size_t i = 0; i < old_values.size(); ++i) {
    const FlatOption& a = old_values[i];
    const FlatOption& b = new_values[i];
    if (toml_text(*a.row, a.options) != toml_text(*b.row, b.options)) result.push_back({a.name, a.row});
  }
  for (const OptionRow& row : table.rows) {
    if (row.type != OptionType::Tables) continue;
    std::string old_text;
    std::string new_text;
    append_tables(old_text, row, before);
    append_tables(new_text, row, after);
    if (old_text != new_text) result.push_back({std::string(row.name), &row});
  }
  return result;
}

namespace {

template <class T>
void copy_as(const void* from, void* to) {
  *static_cast<T*>(to) = *static_cast<const T*>(from);
}

}  // namespace

void copy(const OptionRow& row, const void* from, void* to) {
  switch (row.type) {
    case OptionType::Bool:
      return copy_as<bool>(from, to);
    case OptionType::Integer:
      return copy_as<std::int64_t>(from, to);
    case OptionType::Real:
      return copy_as<double>(from, to);
    case OptionType::String:
      return copy_as<std::string>(from, to);
    case OptionType::Time:
      return copy_as<Duration>(from, to);
    case OptionType::Bytes:
      return copy_as<ByteSize>(from, to);
    case OptionType::List:
      return copy_as<std::vector<std::string>>(from, to);
    case OptionType::Table:
    case OptionType::Tables:
      return;
  }
}

}  // namespace dlb::option_detail
