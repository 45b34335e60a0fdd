#include "lb/config_json.h"

#include "common/option.h"

namespace dlb::lb {
namespace {

template <class T>
const T& as(const void* member) {
  return *static_cast<const T*>(member);
}

void write_rows(JsonWriter& json, std::span<const OptionRow> rows, void* owner);

void write_value(JsonWriter& json, const OptionRow& row, void* owner) {
  const void* member = row.member(owner);
  switch (row.type) {
    case OptionType::Bool:
      json.value(as<bool>(member));
      break;
    case OptionType::Integer:
      json.value(as<std::int64_t>(member));
      break;
    case OptionType::Real:
      json.value(as<double>(member));
      break;
    case OptionType::String:
      json.value(as<std::string>(member));
      break;
    case OptionType::Time:
      json.value(format_duration(as<Duration>(member)));
      break;
    case OptionType::Bytes:
      json.value(format_byte_size(as<ByteSize>(member)));
      break;
    case OptionType::List:
      json.begin_array();
      for (const std::string& text : as<std::vector<std::string>>(member)) json.value(text);
      json.end_array();
      break;
    case OptionType::Table:
      write_rows(json, {row.rows, row.row_count}, row.member(owner));
      break;
    case OptionType::Tables:
      json.begin_array();
      for (std::size_t i = 0; i < row.count(owner); ++i) {
        write_rows(json, {row.rows, row.row_count}, row.element(owner, i));
      }
      json.end_array();
      break;
  }
}

void write_rows(JsonWriter& json, std::span<const OptionRow> rows, void* owner) {
  json.begin_object();
  for (const OptionRow& row : rows) {
    if (row.spec.secret) continue;
    json.key(row.name);
    write_value(json, row, owner);
  }
  json.end_object();
}

}  // namespace

void write_config_json(JsonWriter& json, const Options& options) {
  // The rows' accessors serve loading too and so take a mutable pointer; nothing is written through it here.
  write_rows(json, kOptionTable.rows, const_cast<Options*>(&options));
}

}  // namespace dlb::lb
