#include "bench/simulate/outcome.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace dlb::bench {
namespace {

// Nearest rank, of sorted values.
std::uint32_t percentile(const std::vector<std::uint32_t>& sorted, double percent) {
  if (sorted.empty()) return 0;
  const auto rank = static_cast<std::size_t>(std::ceil(percent / 100 * static_cast<double>(sorted.size())));
  return sorted[std::min(sorted.size(), std::max<std::size_t>(rank, 1)) - 1];
}

}  // namespace

std::string_view failure_name(Failure failure) {
  constexpr std::string_view kNames[kFailureKinds] = {
      "none", "5xx", "broken", "refused", "timed out", "no backend", "queue full", "queue timeout"};
  return kNames[static_cast<std::size_t>(failure)];
}

double Outcome::success_percent() const {
  return requests == 0 ? 100 : 100 * static_cast<double>(succeeded) / static_cast<double>(requests);
}

void Outcome::sum_up() {
  std::ranges::sort(latency_us);
  const double sum = std::accumulate(latency_us.begin(), latency_us.end(), 0.0);
  mean_us = latency_us.empty() ? 0 : sum / static_cast<double>(latency_us.size());
  p50_us = percentile(latency_us, 50);
  p99_us = percentile(latency_us, 99);
  p999_us = percentile(latency_us, 99.9);
  max_us = percentile(latency_us, 100);
  latency_us = {};
  for (OutcomeBucket& one : buckets) {
    std::ranges::sort(one.latency_us);
    one.p50_us = percentile(one.latency_us, 50);
    one.p99_us = percentile(one.latency_us, 99);
    one.latency_us = {};
  }
}

}  // namespace dlb::bench
