#include "loadgen/progress.h"

#include <fmt/format.h>

#include <iterator>
#include <numeric>

#include "loadgen/panel.h"

namespace dlb::loadgen {
namespace {

constexpr std::size_t kMaxShares = 8;  // backends shown

double ms(std::uint64_t us) { return static_cast<double>(us) / 1000; }

}  // namespace

std::string progress_line(std::string_view stage_name, Duration elapsed, std::uint64_t users,
                          const Recorder& recorder, std::uint64_t planned, Duration interval) {
  const IntervalTotals& recent = recorder.interval();
  std::string line;
  const auto out = std::back_inserter(line);
  if (!stage_name.empty()) fmt::format_to(out, "{} ", stage_name);
  fmt::format_to(out, "{:.1f}s users {} done {}", seconds(elapsed), users, recorder.done());
  if (planned > 0) fmt::format_to(out, "/{}", planned);
  const double rate = interval > Duration::zero() ? static_cast<double>(recent.done) / seconds(interval) : 0;
  fmt::format_to(out, " rate {:.0f}/s p50 {:.1f} p99 {:.1f} ms failed {}", rate,
                 ms(recent.latency_us.percentile(50)), ms(recent.latency_us.percentile(99)),
                 recorder.failed());

  const std::uint64_t responses =
      std::accumulate(recent.responses.begin(), recent.responses.end(), std::uint64_t{0});
  if (responses == 0) return line;
  line += " share";
  for (std::size_t i = 0; i < recent.responses.size() && i < kMaxShares; ++i) {
    fmt::format_to(out, " {} {:.0f}%", recorder.backends()[i].name,
                   100 * static_cast<double>(recent.responses[i]) / static_cast<double>(responses));
  }
  if (recent.responses.size() > kMaxShares) line += " …";
  return line;
}

Progress::Progress(EventLoop& loop, ProgressScreen& screen, Duration interval, std::string_view label,
                   const Stage& stage, Recorder& recorder, std::uint64_t planned,
                   const std::vector<SystemRecord>* systems)
    : timers_(loop),
      tick_(timers_, *this),
      loop_(loop),
      screen_(screen),
      interval_(interval),
      label_(label),
      stage_(stage),
      recorder_(recorder),
      planned_(planned),
      systems_(systems),
      latest_(monotonic_now()) {
  tick_.arm_at(latest_ + interval_);
  if (screen_.terminal()) show(latest_);
}

void Progress::on_heap_timer(HeapTimer&) {
  const TimePoint now = loop_.now();
  show(now);
  recorder_.reset_interval();
  latest_ = now;
  tick_.arm_at(now + interval_);
}

void Progress::show(TimePoint now) {
  const bool started = stage_.started_at() != TimePoint{};
  const Duration elapsed = started ? now - stage_.started_at() : Duration::zero();
  if (screen_.terminal()) {
    const PanelView view{label_,   elapsed,          now - latest_, stage_.active_users(),
                         planned_, stage_.waiting(), &recorder_,    systems_};
    screen_.show(panel_lines(view, screen_.width()));
    return;
  }
  std::string line =
      progress_line(label_, elapsed, stage_.active_users(), recorder_, planned_, now - latest_);
  if (stage_.waiting() > 0) fmt::format_to(std::back_inserter(line), " waiting {}", stage_.waiting());
  screen_.add_line(line);
}

}  // namespace dlb::loadgen
