#include "loadgen/panel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <utility>

namespace dlb::loadgen {
namespace {

constexpr std::size_t kLeastWidth = 20;
constexpr std::size_t kBarWidth = 20;
constexpr std::size_t kMaxShares = 8;
constexpr std::size_t kMaxSystems = 8;
constexpr std::size_t kNameWidth = 24;

double ms(std::uint64_t us) { return static_cast<double>(us) / 1000; }

// What came from elsewhere moves no cursor.
std::string printable(std::string_view name) {
  std::string text(name.substr(0, kNameWidth));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

std::string bar(std::uint64_t done, std::uint64_t planned) {
  const auto full =
      static_cast<std::size_t>(static_cast<double>(kBarWidth) * static_cast<double>(std::min(done, planned)) /
                               static_cast<double>(planned));
  return "[" + std::string(full, '#') + std::string(kBarWidth - full, '.') + "]";
}

std::string head_line(const PanelView& view) {
  std::string line;
  const auto out = std::back_inserter(line);
  if (!view.label.empty()) fmt::format_to(out, "{}  ", printable(view.label));
  fmt::format_to(out, "{:.1f} s  users {}  done {}", seconds(view.elapsed), view.users,
                 view.recorder->done());
  if (view.planned > 0) {
    fmt::format_to(out, " of {} {}", view.planned, bar(view.recorder->done(), view.planned));
  }
  return line;
}

std::string rate_line(const PanelView& view) {
  const IntervalTotals& recent = view.recorder->interval();
  const double rate =
      view.interval > Duration::zero() ? static_cast<double>(recent.done) / seconds(view.interval) : 0;
  std::string line = fmt::format("{:.0f} a second", rate);
  if (recent.latency_us.count() > 0) {
    fmt::format_to(std::back_inserter(line), "  p50 {:.1f}  p99 {:.1f} ms",
                   ms(recent.latency_us.percentile(50)), ms(recent.latency_us.percentile(99)));
  }
  if (view.waiting > 0) fmt::format_to(std::back_inserter(line), "  waiting {}", view.waiting);
  return line;
}

std::string failures_line(const Recorder& recorder) {
  std::string line = fmt::format("failed {}", recorder.failed());
  std::string_view separator = ": ";
  for (std::size_t i = 1; i < kBuckets; ++i) {
    const auto bucket = static_cast<Bucket>(i);
    if (recorder.in(bucket) == 0 || bucket == Bucket::Interrupted || bucket == Bucket::NotIssued) continue;
    fmt::format_to(std::back_inserter(line), "{}{} {}", separator, bucket_name(bucket), recorder.in(bucket));
    separator = ", ";
  }
  return line;
}

std::string share_line(const Recorder& recorder) {
  const std::vector<std::uint64_t>& responses = recorder.interval().responses;
  const std::uint64_t all = std::accumulate(responses.begin(), responses.end(), std::uint64_t{0});
  if (all == 0) return "";
  std::string line = "share";
  for (std::size_t i = 0; i < responses.size() && i < kMaxShares; ++i) {
    fmt::format_to(std::back_inserter(line), "  {} {:.0f}%", printable(recorder.backends()[i].name),
                   100 * static_cast<double>(responses[i]) / static_cast<double>(all));
  }
  return line;
}

std::string percent(double value) { return std::isfinite(value) ? fmt::format("{:>3.0f}%", value) : "   -"; }

// As many as fit on a line each.
void add_systems(std::vector<std::string>& lines, const std::vector<SystemRecord>& systems,
                 std::size_t width) {
  std::string line;
  for (std::size_t i = 0; i < systems.size() && i < kMaxSystems; ++i) {
    const Figures& latest = systems[i].latest();
    const std::string text =
        fmt::format("{} cpu {} mem {}", systems[i].name(), percent(at(latest, Figure::CpuPercent)),
                    percent(at(latest, Figure::MemoryUnreclaimablePercent)));
    if (!line.empty() && line.size() + 3 + text.size() > width) lines.push_back(std::exchange(line, ""));
    line += (line.empty() ? "" : "   ") + text;
  }
  if (!line.empty()) lines.push_back(line);
}

}  // namespace

std::vector<std::string> panel_lines(const PanelView& view, std::size_t width) {
  width = std::max(width, kLeastWidth);
  std::vector<std::string> lines = {head_line(view), rate_line(view), failures_line(*view.recorder),
                                    share_line(*view.recorder)};
  if (view.systems != nullptr) add_systems(lines, *view.systems, width);
  std::erase(lines, "");
  for (std::string& line : lines) {
    if (line.size() > width) line.resize(width);
  }
  return lines;
}

std::string redraw(const std::vector<std::string>& lines, std::size_t before) {
  std::string bytes = before == 0 ? "" : fmt::format("\x1b[{}A", before);
  for (const std::string& line : lines) bytes += "\r" + line + "\x1b[K\n";
  return bytes + "\x1b[J";
}

std::string take_away(std::size_t before) {
  return before == 0 ? "" : fmt::format("\x1b[{}A\r\x1b[J", before);
}

}  // namespace dlb::loadgen
