#include "loadgen/system_record.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "common/check.h"
#include "common/json_writer.h"

namespace dlb::loadgen {
namespace {

constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();

// The mean of several points, at the first one's time.
SystemPoint mean_of(std::span<const SystemPoint> points) {
  SystemPoint mean = points.front();
  for (std::size_t i = 0; i < kKeptFigures.size(); ++i) {
    float sum = 0;
    float known = 0;
    for (const SystemPoint& point : points) {
      if (std::isnan(point.values[i])) continue;
      sum += point.values[i];
      known += 1;
    }
    mean.values[i] = known > 0 ? sum / known : kUnknown;
  }
  return mean;
}

const SystemColumn& column_of(std::size_t kept) {
  return system_columns()[static_cast<std::size_t>(kKeptFigures[kept])];
}

void number_json(JsonWriter& json, double value, int decimals) {
  if (std::isfinite(value)) {
    json.value(value, decimals);
  } else {
    json.null();
  }
}

void points_json(JsonWriter& json, const SystemRecord& system) {
  json.key("series").begin_object().key("elapsed_seconds").begin_array();
  for (const SystemPoint& point : system.points()) json.value(point.elapsed_seconds, 3);
  json.end_array();
  for (std::size_t i = 0; i < kKeptFigures.size(); ++i) {
    if (system.summary(i).count == 0) continue;
    json.key(column_of(i).name).begin_array();
    for (const SystemPoint& point : system.points()) {
      number_json(json, static_cast<double>(point.values[i]), column_of(i).decimals);
    }
    json.end_array();
  }
  json.end_object();
}

}  // namespace

SystemRecord::SystemRecord(std::string name, std::string id, std::string url, std::size_t max_points)
    : name_(std::move(name)), id_(std::move(id)), url_(std::move(url)), max_points_(max_points) {
  DLB_CHECK(max_points >= 2 && max_points % 2 == 0);
}

void SystemRecord::add(double elapsed_seconds, const Figures& figures) {
  if (samples_ == 0) first_ = figures;
  if (samples_ > 0 && at(figures, Figure::UptimeSeconds) < at(latest_, Figure::UptimeSeconds)) {
    restarted_ = true;
  }
  ++samples_;
  latest_ = figures;
  latest_at_ = elapsed_seconds;
  SystemPoint point;
  point.elapsed_seconds = elapsed_seconds;
  for (std::size_t i = 0; i < kKeptFigures.size(); ++i) {
    const double value = at(figures, kKeptFigures[i]);
    point.values[i] = static_cast<float>(value);
    if (std::isnan(value)) continue;
    Summary& summary = summaries_[i];
    summary.max = summary.count == 0 ? value : std::max(summary.max, value);
    summary.sum += value;
    ++summary.count;
  }
  keep(point);
}

void SystemRecord::keep(const SystemPoint& point) {
  gathering_.push_back(point);
  if (gathering_.size() < step_) return;
  points_.push_back(mean_of(gathering_));
  gathering_.clear();
  if (points_.size() < max_points_) return;
  for (std::size_t i = 0; i + 1 < points_.size(); i += 2) {
    points_[i / 2] = mean_of(std::span(points_).subspan(i, 2));
  }
  points_.resize(points_.size() / 2);
  step_ *= 2;
}

double SystemRecord::rise(Figure counter) const {
  const double rise = at(latest_, counter) - at(first_, counter);
  return std::isfinite(rise) && rise > 0 ? rise : 0;
}

void systems_json(JsonWriter& json, const std::vector<SystemRecord>& systems) {
  json.begin_array();
  for (const SystemRecord& system : systems) {
    json.begin_object().field("name", system.name()).field("id", system.id()).field("url", system.url());
    json.field("source", system.source());
    json.field("samples", system.samples()).field("missed", system.missed_samples());
    json.field("restarted", system.restarted());
    json.key("memory_limit_bytes");
    number_json(json, at(system.latest(), Figure::MemoryLimitBytes), 0);
    for (std::size_t i = 0; i < kKeptFigures.size(); ++i) {
      const SystemRecord::Summary& summary = system.summary(i);
      const int decimals = std::max(column_of(i).decimals, 1);
      json.key(column_of(i).name);
      if (summary.count == 0) {
        json.null();
        continue;
      }
      json.begin_object()
          .field("mean", summary.sum / static_cast<double>(summary.count), decimals)
          .field("max", summary.max, decimals)
          .end_object();
    }
    points_json(json, system);
    json.end_object();
  }
  json.end_array();
}

}  // namespace dlb::loadgen
