#include "lb/sample_window.h"

#include <algorithm>

namespace dlb::lb {
namespace {

// The nearest-rank percentile; moves elements about.
std::uint32_t percentile(std::vector<DurationSample>& samples, double share) {
  const auto rank = static_cast<std::size_t>(share * static_cast<double>(samples.size() - 1) + 0.5);
  const auto place = samples.begin() + static_cast<std::ptrdiff_t>(rank);
  std::nth_element(
      samples.begin(), place, samples.end(),
      [](const DurationSample& a, const DurationSample& b) { return a.duration_us < b.duration_us; });
  return place->duration_us;
}

}  // namespace

DurationSummary summarize(std::span<const SampleWindow* const> windows, std::size_t limit) {
  DurationSummary out;
  std::vector<DurationSample> samples;
  for (const SampleWindow* window : windows) {
    out.count += window->count();
    out.sum_us += window->sum_us();
    window->copy_to(samples);
  }
  if (samples.size() > limit) {
    // Keep the newest. Milliseconds wrap after 49 days, so they are compared by distance.
    std::nth_element(samples.begin(), samples.begin() + static_cast<std::ptrdiff_t>(limit), samples.end(),
                     [](const DurationSample& a, const DurationSample& b) {
                       return static_cast<std::int32_t>(a.at_ms - b.at_ms) > 0;
                     });
    samples.resize(limit);
  }
  out.samples = samples.size();
  if (samples.empty()) return out;
  out.p50_us = percentile(samples, 0.50);
  out.p95_us = percentile(samples, 0.95);
  out.p99_us = percentile(samples, 0.99);
  for (const DurationSample& sample : samples) out.max_us = std::max(out.max_us, sample.duration_us);
  return out;
}

}  // namespace dlb::lb
