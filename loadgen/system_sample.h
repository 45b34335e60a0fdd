// SystemSample: what the balancer and the backends say of themselves at one moment: CPU, memory, pools,
// queue, feed, cache. A row of kSystemColumns names a column of EXPERIMENT-TIME-metrics.csv once, with its
// unit and with the places it is read from:
//
//   balancer   GET /lb/metrics, what Sys1 says of itself
//   stats      GET /internal/stats of a backend
//   metrics    GET /metrics?format=json of a backend
//   view       /lb/metrics: backends[i], what the balancer knows of a backend: score, its own count of
//   requests;
//              where a backend can't be asked, its CPU and memory too
//
// Knows JSON and names, judges nothing. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/clock.h"

namespace dlb::loadgen {

inline constexpr int kMetricsSchema = 1;  // of EXPERIMENT-TIME-metrics.csv

enum class Figure : std::uint8_t {
  CpuPercent,
  ProcessCpuPercent,
  ProcessCpuSeconds,
  RssBytes,
  MemoryTotalBytes,
  MemoryWorkingSetBytes,
  MemoryUnreclaimableBytes,
  MemoryLimitBytes,
  MemoryTotalPercent,
  MemoryWorkingSetPercent,
  MemoryUnreclaimablePercent,
  SocketBytes,
  Load1m,
  Score,
  LatencyMs,
  ActiveRequests,
  BalancerInFlight,
  RequestsTotal,
  ConnectionsOpen,
  ConnectionsIdle,
  PoolBusy,
  PoolIdle,
  PoolFeedBusy,
  PoolFeedIdle,
  PoolOpenedTotal,
  QueueWaiting,
  QueueBytes,
  QueueFullTotal,
  QueueTimeoutsTotal,
  BatchesInFlight,
  BatchesTotal,
  BatchRowsTotal,
  FeedRequestsTotal,
  FeedRefreshesTotal,
  FeedRefreshSecondsTotal,
  CacheRows,
  CacheBytes,
  CacheChunks,
  WsSessions,
  HealthyBackends,
  FallbacksTotal,
  RetriesTotal,
  BackendErrorsTotal,
  GuardEventsTotal,
  RejectedMemoryTotal,
  RejectedConnectionsTotal,
  UptimeSeconds,
};
inline constexpr std::size_t kFigures = 47;

struct SystemColumn {
  std::string_view name;
  int decimals = 0;
  std::string_view unit{};
  std::string_view balancer{};  // JSON pointers; empty: not from there
  std::string_view stats{};
  std::string_view metrics{};
  std::string_view view{};
  bool view_is_ours = false;  // also taken from the view when the backend itself was asked
};

// In the order of Figure.
std::span<const SystemColumn, kFigures> system_columns();

using Figures = std::array<double, kFigures>;  // NaN: not known
Figures unknown_figures();
inline double& at(Figures& figures, Figure figure) { return figures[static_cast<std::size_t>(figure)]; }
inline double at(const Figures& figures, Figure figure) { return figures[static_cast<std::size_t>(figure)]; }

// CPU time is told in steps of 10 ms: two samples that are closer than this say too little.
inline constexpr Duration kLeastCpuTime = std::chrono::milliseconds(250);

// ProcessCpuPercent of `after`: CPU time of the process between two samples, percent of one core. Unknown
// when the process was started anew between them, or no time has passed.
double process_cpu_percent(const Figures& before, const Figures& after, Duration between);

struct BackendPlace {
  std::string id;
  std::string url;
};

struct BackendView {
  std::string id;
  Figures figures;
};

// Reads answers; reuses its memory. One thread.
class SystemReader {
 public:
  SystemReader();
  SystemReader(const SystemReader&) = delete;
  SystemReader& operator=(const SystemReader&) = delete;
  ~SystemReader();

  // The backends that /lb/status tells of; false when this is no answer of a balancer.
  bool status(std::string_view body, std::vector<BackendPlace>& backends);
  // These fill in what the body has and `figures` does not know yet; false when it is no such answer.
  bool balancer(std::string_view body, Figures& figures, std::vector<BackendView>& views);
  bool stats(std::string_view body, Figures& figures, std::string& backend_id);
  bool metrics(std::string_view body, Figures& figures);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Adds what the balancer knows of a backend. `asked`: the backend has answered itself.
void add_view(Figures& figures, const Figures& view, bool asked);

// `sys2` before `sys10`: runs of digits count as numbers.
bool natural_less(std::string_view a, std::string_view b);

struct MetricsRow {
  std::int64_t wall_us = 0;
  double elapsed_seconds = 0;
  std::string_view stage;
  std::string_view name;    // Sys1
  std::string_view id;      // lb
  std::string_view source;  // "direct", "balancer", "missed"
  const Figures* figures = nullptr;
};

std::string metrics_csv_header();
std::string metrics_csv_row(const MetricsRow& row);

}  // namespace dlb::loadgen
