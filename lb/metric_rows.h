// What /lb/metrics shows, each figure declared once (metric_rows.cc): name, kind, unit, help and where it
// comes from. JSON, Prometheus and the tables in README.md are made from these rows. The sources are read
// only; any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "common/clock.h"
#include "common/metric.h"
#include "lb/access_log.h"
#include "lb/admin_counters.h"
#include "lb/autoscale_figures.h"
#include "lb/backend_set.h"
#include "lb/event_figures.h"
#include "lb/memory_monitor.h"
#include "lb/metrics.h"
#include "lb/options.h"
#include "lb/outlier_counters.h"
#include "lb/reload_figures.h"
#include "lb/router.h"
#include "lb/system_monitor.h"
#include "lb/tls_certificates.h"
#include "lb/tunnel_pool.h"

namespace dlb::lb {

// The whole process: all workers added up, and what is there once.
struct LbTotals {
  std::span<const WorkerMetrics* const> workers;
  std::span<const Router* const> routers;
  const BackendSet& backends;
  const SystemSample& system;
  const MemoryState& memory;
  TimePoint now;
  TimePoint started;
  bool draining = false;
  bool panic = false;
  std::uint64_t log_suppressed = 0;  // repeated errors held back by the log
  std::uint64_t log_dropped = 0;
  const AccessLog* access_log = nullptr;          // null: off
  const TlsCertificates* certificates = nullptr;  // null: no TLS
  const OutlierCounters* ejections = nullptr;     // null: all 0
  const ReloadFigures* reloads = nullptr;         // null: none
  std::uint64_t generation = 1;                   // of the configuration
  std::int64_t configured_at_us = 0;              // likewise, since 1970
  const AdminCounters* admin = nullptr;           // null: all 0
  const EventFigures* events = nullptr;           // null: all 0
  const AutoscaleFigures* autoscale = nullptr;    // null: all 0

  std::uint64_t sum(WorkerCount WorkerMetrics::*member) const;
  std::uint64_t max(WorkerCount WorkerMetrics::*member) const;
  std::uint64_t picks(std::uint64_t Router::Counters::*member) const;
  std::uint64_t sum_backends(std::atomic<std::uint64_t> BackendCounters::*member) const;
  // Seconds.
  Quantiles quantiles(SampleWindow WorkerMetrics::*member) const;
  double requests_per_second() const;
  std::uint64_t healthy_backends() const;
};

// One backend with what its figures need.
struct BackendFigures {
  const Backend& backend;
  const Options& options;
  TimePoint now;

  double score() const;
  bool ejected() const;
  bool on_probation() const;
};

// One backend of a layer-4 listener.
struct TunnelFigures {
  const TunnelBackend& backend;
  TimePoint now;
};

std::span<const MetricRow> lb_metric_rows();              // of LbTotals
std::span<const MetricRow> tunnel_metric_rows();          // of LbTotals too
std::span<const MetricRow> tunnel_backend_metric_rows();  // of TunnelFigures, labels `listener`, `backend`
std::span<const MetricRow> tls_metric_rows();             // of LbTotals too
std::span<const MetricRow> proxy_metric_rows();           // of LbTotals too
std::span<const MetricRow> outlier_metric_rows();         // of LbTotals too
std::span<const MetricRow> reload_metric_rows();          // of LbTotals too
std::span<const MetricRow> admin_metric_rows();           // of LbTotals too
std::span<const MetricRow> event_metric_rows();           // of LbTotals too
std::span<const MetricRow> autoscale_metric_rows();       // of LbTotals too
std::span<const MetricRow> backend_metric_rows();         // of BackendFigures, label `backend`
std::span<const MetricRow>
backend_counter_rows();  // those of them that /lb/status does not show in words of its own

// The layer-4 listeners with their backends: as `"tunnel_pools":[…]` of the object that `json` is in, and in
// Prometheus' format.
void write_tunnel_pools(JsonWriter& json, std::span<const std::shared_ptr<const TunnelPool>> pools,
                        TimePoint now);
void append_tunnel_pools(std::string& out, std::span<const std::shared_ptr<const TunnelPool>> pools,
                         TimePoint now);

}  // namespace dlb::lb
