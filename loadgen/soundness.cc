#include "loadgen/soundness.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace dlb::loadgen {
namespace {

constexpr double kLagFloorMs = 10;
constexpr double kLagShare = 0.1;  // of the p99 latency
constexpr double kCpuShare = 0.9;
constexpr Duration kLeastForCpu = std::chrono::seconds(1);
constexpr double kWaitFloorMs = 2;
constexpr double kWaitShare = 0.25;  // of the mean latency
constexpr std::uint64_t kLeastRuns = 50;

double p99_ms(const Histogram& histogram) { return static_cast<double>(histogram.percentile(99)) / 1000; }

// Of all operations. On the heap: a histogram is large.
std::unique_ptr<Histogram> latency_of(const Recorder& recorder) {
  auto latency = std::make_unique<Histogram>();
  for (const auto which : {OperationClass::Message, OperationClass::Feed}) {
    latency->merge(recorder.of(which).latency_us);
  }
  return latency;
}

}  // namespace

std::vector<std::string> invalid_reasons(const Recorder& recorder, const GeneratorUse& use) {
  std::vector<std::string> reasons;
  const auto latency = latency_of(recorder);
  const double lag = p99_ms(recorder.schedule_lag_us());
  const double limit = std::max(kLagFloorMs, kLagShare * p99_ms(*latency));
  if (lag > limit) {
    reasons.push_back(fmt::format(
        "the generator was late: p99 of its schedule lag is {:.1f} ms, over {:.1f} ms", lag, limit));
  }
  for (std::string& reason : busy_reasons(recorder, use)) reasons.push_back(std::move(reason));
  return reasons;
}

std::vector<std::string> busy_reasons(const Recorder& recorder, const GeneratorUse& use) {
  std::vector<std::string> reasons;
  const auto latency = latency_of(recorder);
  if (use.elapsed >= kLeastForCpu && use.cpu_share() > kCpuShare) {
    reasons.push_back(fmt::format("the generator was busy: its thread used {:.0f}% of a core, over {:.0f}%",
                                  100 * use.cpu_share(), 100 * kCpuShare));
  }
  const double wait = use.waits.mean_ms();
  const double mean_ms = latency->mean() / 1000;
  if (use.elapsed >= kLeastForCpu && use.waits.times_run >= kLeastRuns && latency->count() > 0 &&
      wait > std::max(kWaitFloorMs, kWaitShare * mean_ms)) {
    reasons.push_back(fmt::format(
        "the generator was kept waiting: for a core {:.1f} ms each time, beside a mean latency of {:.1f} ms",
        wait, mean_ms));
  }
  return reasons;
}

}  // namespace dlb::loadgen
