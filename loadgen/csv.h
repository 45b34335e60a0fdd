// CSV: fields and rows as RFC 4180 wants them. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dlb::loadgen {

// Builds one row: fields in order, then end(). Texts are quoted where they must be; what was not measured is
// an empty field.
class CsvRow {
 public:
  explicit CsvRow(std::string& out) : out_(out) {}

  CsvRow& text(std::string_view value);
  CsvRow& number(std::int64_t value);
  CsvRow& number(std::uint64_t value) { return number(static_cast<std::int64_t>(value)); }
  // `decimals` digits behind the point. NaN and, with `negative_is_unknown`, what is below 0: an empty field.
  CsvRow& number(double value, int decimals, bool negative_is_unknown = false);
  CsvRow& empty();
  void end() { out_ += '\n'; }

 private:
  void separate();

  std::string& out_;
  bool first_ = true;
};

}  // namespace dlb::loadgen
