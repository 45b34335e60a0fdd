// StatsParser: a backend's /internal/stats as figures. Knows JSON and names, judges nothing.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

namespace dlb::lb {

// -1 for what was not said.
struct ParsedStats {
  double cpu_percent = -1;
  double unreclaimable_percent = -1;
  double working_set_percent = -1;
  double total_percent = -1;
};

// What the memory guards judge is `memory.unreclaimable_percent`; without it (rss_bytes + sock_bytes) of
// limit_bytes, and without those working_set_percent, which errs on the careful side. Reuses its memory; one
// thread.
class StatsParser {
 public:
  StatsParser();
  StatsParser(const StatsParser&) = delete;
  StatsParser& operator=(const StatsParser&) = delete;
  ~StatsParser();

  // Nothing when `body` is not a JSON object. Unknown fields, wrong types and senseless numbers count as not
  // said.
  std::optional<ParsedStats> parse(std::string_view body);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlb::lb
