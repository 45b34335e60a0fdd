#include "loadgen/csv.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

namespace dlb::loadgen {

void CsvRow::separate() {
  if (!first_) out_ += ',';
  first_ = false;
}

CsvRow& CsvRow::text(std::string_view value) {
  separate();
  if (value.find_first_of(",\"\r\n") == std::string_view::npos) {
    out_ += value;
    return *this;
  }
  out_ += '"';
  for (const char c : value) {
    if (c == '"') out_ += '"';
    out_ += c;
  }
  out_ += '"';
  return *this;
}

CsvRow& CsvRow::number(std::int64_t value) {
  separate();
  fmt::format_to(std::back_inserter(out_), "{}", value);
  return *this;
}

CsvRow& CsvRow::number(double value, int decimals, bool negative_is_unknown) {
  if (!std::isfinite(value) || (negative_is_unknown && value < 0)) return empty();
  separate();
  fmt::format_to(std::back_inserter(out_), "{:.{}f}", value, decimals);
  return *this;
}

CsvRow& CsvRow::empty() {
  separate();
  return *this;
}

}  // namespace dlb::loadgen
