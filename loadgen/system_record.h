// SystemRecord: what is kept of one system's samples for the reports: mean and maximum of its CPU and memory,
// the first and the latest sample (counters are compared over the run), and points for a plot, bounded: at
// kMaxPoints neighbours become one (their mean) and each further point covers twice the samples. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "loadgen/system_sample.h"

namespace dlb {
class JsonWriter;
}

namespace dlb::loadgen {

// What is plotted and summed up, in this order.
inline constexpr std::array kKeptFigures = {
    Figure::CpuPercent,
    Figure::ProcessCpuPercent,
    Figure::RssBytes,
    Figure::MemoryTotalBytes,
    Figure::MemoryWorkingSetBytes,
    Figure::MemoryUnreclaimableBytes,
    Figure::MemoryTotalPercent,
    Figure::MemoryUnreclaimablePercent,
    Figure::Score,
    Figure::ActiveRequests,
    Figure::QueueWaiting,
};

struct SystemPoint {
  double elapsed_seconds = 0;
  std::array<float, kKeptFigures.size()> values{};  // NaN: not known
};

class SystemRecord {
 public:
  static constexpr std::size_t kMaxPoints = 1200;

  struct Summary {
    std::uint64_t count = 0;
    double sum = 0;
    double max = 0;
  };

  SystemRecord(std::string name, std::string id, std::string url, std::size_t max_points = kMaxPoints);

  // A sample that was answered, by the system itself or by the balancer for it.
  void add(double elapsed_seconds, const Figures& figures);
  void missed() { ++missed_; }
  void set_source(std::string_view source) { source_ = source; }

  const std::string& name() const { return name_; }  // Sys1
  const std::string& id() const { return id_; }      // lb
  const std::string& url() const { return url_; }
  const std::string& source() const { return source_; }  // "direct", "balancer"; of the latest sample
  std::uint64_t samples() const { return samples_; }
  std::uint64_t missed_samples() const { return missed_; }
  const Figures& first() const { return first_; }    // all unknown without samples
  const Figures& latest() const { return latest_; }  // likewise
  double latest_at() const { return latest_at_; }    // seconds, as add() was told; -1 without samples
  bool restarted() const { return restarted_; }      // its uptime fell between two samples
  const Summary& summary(std::size_t kept) const { return summaries_[kept]; }
  const std::vector<SystemPoint>& points() const { return points_; }
  // How much a counter rose over the run; 0 when it is not known or the system was started anew.
  double rise(Figure counter) const;

 private:
  void keep(const SystemPoint& point);

  std::string name_;
  std::string id_;
  std::string url_;
  std::string source_;
  std::size_t max_points_;
  std::uint64_t samples_ = 0;
  std::uint64_t missed_ = 0;
  double latest_at_ = -1;
  bool restarted_ = false;
  Figures first_ = unknown_figures();
  Figures latest_ = unknown_figures();
  std::array<Summary, kKeptFigures.size()> summaries_{};
  std::vector<SystemPoint> points_;
  std::uint64_t step_ = 1;  // samples that a point covers
  std::vector<SystemPoint> gathering_;
};

// `[{"name": "Sys1", "id": "lb", …, "cpu_percent": {"mean", "max"}, …, "series": {"elapsed_seconds": […],
// …}}]`
void systems_json(JsonWriter& json, const std::vector<SystemRecord>& systems);

}  // namespace dlb::loadgen
