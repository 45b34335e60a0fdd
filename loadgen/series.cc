#include "loadgen/series.h"

#include <algorithm>
#include <numeric>

#include "common/check.h"

namespace dlb::loadgen {
namespace {

SeriesLatency percentiles(const Histogram& histogram_us) {
  if (histogram_us.count() == 0) return {};
  const auto ms = [&](double percent) {
    return static_cast<double>(histogram_us.percentile(percent)) / 1000;
  };
  return {ms(50), ms(95), ms(99)};
}

SeriesLatency higher(const SeriesLatency& a, const SeriesLatency& b) {
  return {std::max(a.p50_ms, b.p50_ms), std::max(a.p95_ms, b.p95_ms), std::max(a.p99_ms, b.p99_ms)};
}

std::uint64_t micros(Duration d) {
  return d <= Duration::zero() ? 0 : static_cast<std::uint64_t>(d.count()) / 1000;
}

std::int64_t whole_seconds(Duration elapsed) {
  return std::max<std::int64_t>(0, elapsed / std::chrono::seconds(1));
}

}  // namespace

std::uint64_t SeriesRow::done() const {
  return std::accumulate(buckets.begin(), buckets.end(), std::uint64_t{0});
}

std::uint64_t SeriesRow::failed() const {
  return done() - ok() - buckets[static_cast<std::size_t>(Bucket::Interrupted)];
}

SeriesRow merged(const SeriesRow& first, const SeriesRow& second) {
  SeriesRow row = first;
  if (row.stage < 0) {
    row.stage = second.stage;
    row.users = second.users;
  }
  row.planned += second.planned;
  row.issued += second.issued;
  row.answers += second.answers;
  for (std::size_t i = 0; i < kBuckets; ++i) row.buckets[i] += second.buckets[i];
  row.responses.resize(std::max(first.responses.size(), second.responses.size()));
  for (std::size_t i = 0; i < second.responses.size(); ++i) row.responses[i] += second.responses[i];
  row.message = higher(first.message, second.message);
  row.feed = higher(first.feed, second.feed);
  row.intended = higher(first.intended, second.intended);
  return row;
}

Series::Series(std::size_t max_rows) : max_rows_(max_rows) { DLB_CHECK(max_rows >= 2 && max_rows % 2 == 0); }

void Series::open(Window& window, std::int64_t second) {
  window.row = SeriesRow{};
  window.row.second = second;
  window.row.stage = stage_;
  window.row.users = users_;
  window.used = stage_ >= 0;
  window.message_us.reset();
  window.feed_us.reset();
  window.intended_us.reset();
}

void Series::begin_stage(std::string_view name, std::uint64_t users, Duration elapsed) {
  advance(elapsed);
  stages_.emplace_back(name);
  stage_ = static_cast<std::int32_t>(stages_.size()) - 1;
  users_ = users;
  both([&](Window& window) {
    window.used = true;
    if (window.row.stage >= 0) return;
    window.row.stage = stage_;
    window.row.users = users;
  });
}

void Series::end_stage(Duration elapsed) {
  advance(elapsed);
  stage_ = -1;
  users_ = 0;
}

void Series::on_planned(Duration elapsed) {
  advance(elapsed);
  both([](Window& window) { ++window.row.planned; });
}

void Series::on_issued(Duration elapsed) {
  advance(elapsed);
  both([](Window& window) { ++window.row.issued; });
}

void Series::on_result(const OperationResult& result, std::string_view backend, Duration elapsed) {
  advance(elapsed);
  const bool ok = result.bucket == Bucket::Ok;
  const bool message = result.operation_class == OperationClass::Message;
  const bool named = result.bucket <= Bucket::ServerError && !backend.empty();
  const std::uint32_t index = named ? backend_index(backend) : 0;
  any_intended_ = any_intended_ || result.intended_latency > Duration::zero();
  both([&](Window& window) {
    window.used = true;
    ++window.row.buckets[static_cast<std::size_t>(result.bucket)];
    if (named) {
      ++window.row.answers;
      if (window.row.responses.size() <= index) window.row.responses.resize(index + 1);
      ++window.row.responses[index];
    }
    if (!ok || result.slow_reader) return;
    (message ? window.message_us : window.feed_us).record(micros(result.latency));
    if (message && result.intended_latency > Duration::zero()) {
      window.intended_us.record(micros(result.intended_latency));
    }
  });
}

std::uint32_t Series::backend_index(std::string_view name) {
  const auto known = std::find(backends_.begin(), backends_.end(), name);
  if (known != backends_.end()) return static_cast<std::uint32_t>(known - backends_.begin());
  if (backends_.size() >= kMaxBackends) {
    backends_.back() = "other";
    return kMaxBackends - 1;
  }
  backends_.emplace_back(name);
  return static_cast<std::uint32_t>(backends_.size() - 1);
}

void Series::advance(Duration elapsed) {
  const std::int64_t now = whole_seconds(elapsed);
  while (second_.row.second < now) close_second();
}

const SeriesRow& Series::measured(Window& window) {
  window.row.message = percentiles(window.message_us);
  window.row.feed = percentiles(window.feed_us);
  window.row.intended = percentiles(window.intended_us);
  return window.row;
}

void Series::tell_sink() {
  if (sink_ == nullptr) return;
  const SeriesRow& row = measured(second_);
  sink_->on_second(row, row.stage < 0 ? std::string_view() : stages_[static_cast<std::size_t>(row.stage)],
                   backends_);
}

// Closes the second under way, and with it the row in memory when it is the last of its seconds.
void Series::close_second() {
  const std::int64_t next = second_.row.second + 1;
  tell_sink();
  open(second_, next);
  if (next - kept_.row.second < step_) return;
  keep(kept_);
  open(kept_, next);
}

void Series::keep(Window& window) {
  rows_.push_back(measured(window));
  if (rows_.size() >= max_rows_) halve();
}

void Series::halve() {
  for (std::size_t i = 0; i + 1 < rows_.size(); i += 2) rows_[i / 2] = merged(rows_[i], rows_[i + 1]);
  rows_.resize(rows_.size() / 2);
  step_ *= 2;
}

void Series::finish(Duration elapsed) {
  advance(elapsed);
  if (second_.used) tell_sink();
  if (kept_.used) keep(kept_);
  stage_ = -1;
  users_ = 0;
  open(second_, second_.row.second + 1);
  open(kept_, second_.row.second);
}

}  // namespace dlb::loadgen
