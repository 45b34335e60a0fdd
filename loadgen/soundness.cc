#include "loadgen/soundness.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

namespace dlb::loadgen {
namespace {

constexpr double kLagFloorMs = 10;
constexpr double kLagShare = 0.1;  // of the p99 latency
constexpr double kCpuShare = 0.9;
constexpr Duration kLeastForCpu = std::chrono::seconds(1);

double p99_ms(const Histogram& histogram) { return static_cast<double>(histogram.percentile(99)) / 1000; }

}  // namespace

std::vector<std::string> invalid_reasons(const Recorder& recorder, const GeneratorUse& use) {
  std::vector<std::string> reasons;
  const auto latency = std::make_unique<Histogram>();
  for (const auto which : {OperationClass::Message, OperationClass::Feed}) {
    latency->merge(recorder.of(which).latency_us);
  }
  const double lag = p99_ms(recorder.schedule_lag_us());
  const double limit = std::max(kLagFloorMs, kLagShare * p99_ms(*latency));
  if (lag > limit) {
    reasons.push_back(fmt::format(
        "the generator was late: p99 of its schedule lag is {:.1f} ms, over {:.1f} ms", lag, limit));
  }
  if (use.elapsed >= kLeastForCpu && use.cpu_share() > kCpuShare) {
    reasons.push_back(fmt::format("the generator was busy: its thread used {:.0f}% of a core, over {:.0f}%",
                                  100 * use.cpu_share(), 100 * kCpuShare));
  }
  return reasons;
}

}  // namespace dlb::loadgen
