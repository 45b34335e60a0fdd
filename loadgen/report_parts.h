// What the renderers of a report share. Internal to report.cc and report_text.cc. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/clock.h"
#include "loadgen/options.h"

namespace dlb::loadgen {

struct Percentile {
  std::string_view name;
  double percent;
};
inline constexpr std::array kPercentiles = {Percentile{"p50", 50},     Percentile{"p90", 90},
                                            Percentile{"p95", 95},     Percentile{"p99", 99},
                                            Percentile{"p99.9", 99.9}, Percentile{"max", 100}};

inline double as_ms(std::uint64_t us) { return static_cast<double>(us) / 1000; }

inline double per_second(std::uint64_t count, Duration elapsed) {
  return elapsed > Duration::zero() ? static_cast<double>(count) / dlb::seconds(elapsed) : 0;
}

inline std::string joined_by_commas(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ",") + part;
  return text;
}

// Where the load goes: the chat's users say nothing to the HTTP urls.
inline const std::vector<std::string>& load_urls(const Options& options) {
  return options.chat ? options.wss_url : options.url;
}

}  // namespace dlb::loadgen
