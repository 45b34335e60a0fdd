#include "lb/stats_parser.h"

#include <simdjson.h>

#include <cmath>

namespace dlb::lb {
namespace {

// A number of 0 or more, else -1.
double number_of(const simdjson::dom::object& object, std::string_view name) {
  double value = 0;
  if (object[name].get(value) != simdjson::SUCCESS) return -1;
  return std::isfinite(value) && value >= 0 ? value : -1;
}

}  // namespace

struct StatsParser::Impl {
  simdjson::dom::parser parser;
};

StatsParser::StatsParser() : impl_(std::make_unique<Impl>()) {}
StatsParser::~StatsParser() = default;

std::optional<ParsedStats> StatsParser::parse(std::string_view body) {
  simdjson::dom::object root;
  if (impl_->parser.parse(simdjson::padded_string(body)).get(root) != simdjson::SUCCESS) return std::nullopt;
  ParsedStats out;
  out.cpu_percent = number_of(root, "cpu_percent");
  simdjson::dom::object memory;
  if (root["memory"].get(memory) != simdjson::SUCCESS) return out;
  out.working_set_percent = number_of(memory, "working_set_percent");
  out.total_percent = number_of(memory, "total_percent");
  out.unreclaimable_percent = number_of(memory, "unreclaimable_percent");
  if (out.unreclaimable_percent >= 0) return out;

  const double rss = number_of(memory, "rss_bytes");
  const double sock = number_of(memory, "sock_bytes");
  const double limit = number_of(memory, "limit_bytes");
  if (rss >= 0 && limit > 0) {
    out.unreclaimable_percent = 100.0 * (rss + (sock >= 0 ? sock : 0)) / limit;
  } else {
    out.unreclaimable_percent = out.working_set_percent;
  }
  return out;
}

}  // namespace dlb::lb
