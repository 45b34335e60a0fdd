// The balancer's own pages, /lb/health, /lb/status and /lb/metrics, as functions from state to text. They
// read atomics and the configuration in force, so any worker may render them at any moment; the listener that
// serves them decides who may see them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/log.h"
#include "lb/metric_rows.h"
#include "lb/predecessor.h"
#include "lb/shared.h"

namespace dlb::lb {

// What a page is made of.
struct StatusView {
  const Options& options;
  const BackendSet& backends;
  std::span<const WorkerMetrics* const> workers;
  std::span<const Router* const> routers;
  const SystemSample& system;
  const MemoryState& memory;
  std::span<const std::shared_ptr<const TunnelPool>> pools{};
  TimePoint now;
  std::int64_t wall_us = 0;
  TimePoint started;
  bool draining = false;
  std::uint64_t log_suppressed = 0;
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
  bool predecessor_drains = false;                // the process that an upgrade has replaced is still there
};

// 200 when a backend is healthy and we are not stopping, else 503.
int health_status(const StatusView& view);
std::string health_json(const StatusView& view);
// Configuration in force, and every backend with its state, the parts of its score, counters, last error, age
// of statistics.
std::string status_json(const StatusView& view);
std::string backend_json(const StatusView& view, const Backend& backend);
std::string metrics_json(const StatusView& view);
std::string metrics_prometheus(const StatusView& view);

// Parts of these pages, for event_snapshot.cc: members of the object that `json` is in.
LbTotals totals_of(const StatusView& view);
void write_overview(JsonWriter& json, const StatusView& view);
// One backend as an object, with `counters` of its rows.
void write_backend(JsonWriter& json, const Backend& backend, const StatusView& view,
                   std::span<const MetricRow> counters);
// Backends that are no longer configured, for as long as something runs on them.
void write_leaving(JsonWriter& json, const StatusView& view);

// True when /lb/metrics is to be in Prometheus' text format: `format=prometheus` in the query (`format=json`
// is JSON), else an Accept field that asks for text/plain with a version, as Prometheus does, and not for
// JSON.
bool wants_prometheus(std::string_view query, std::string_view accept);

// The pages by path, for the workers. Knows the workers once they have been made.
class StatusPages final : public OwnPages {
 public:
  StatusPages(const ConfigurationStore& configuration, const SystemSample& system, const MemoryState& memory,
              const Log& log)
      : configuration_(configuration),
        system_(system),
        memory_(memory),
        log_(log),
        started_(monotonic_now()) {}

  // Before the first render().
  void add_worker(const WorkerMetrics& metrics, const Router& router) {
    workers_.push_back(&metrics);
    routers_.push_back(&router);
  }
  // Likewise.
  void set_access_log(const AccessLog* log) { access_log_ = log; }
  void set_ejections(const OutlierCounters& ejections) { ejections_ = &ejections; }
  void set_admin(const AdminCounters& admin) { admin_ = &admin; }
  void set_events(const EventFigures& events) { events_ = &events; }
  void set_autoscale(const AutoscaleFigures& figures) { autoscale_ = &figures; }
  void set_predecessor(const Predecessor& predecessor) { predecessor_ = &predecessor; }
  void set_certificates(const TlsCertificates* certificates) { certificates_ = certificates; }
  void set_reloads(const ReloadFigures* reloads) { reloads_ = reloads; }
  // Any thread: from now on /lb/health says 503.
  void set_draining() { draining_.store(true, std::memory_order_relaxed); }

  Page render(std::string_view path, std::string_view query, std::string_view accept) override;

  // See event_snapshot.h.
  std::string render_event() override;

  // One backend as /lb/status shows it. Any thread.
  std::string render_backend(const Backend& backend) const;

 private:
  StatusView view(const Configuration& configuration) const;

  const ConfigurationStore& configuration_;
  const SystemSample& system_;
  const MemoryState& memory_;
  const Log& log_;
  const TimePoint started_;
  std::vector<const WorkerMetrics*> workers_;
  std::vector<const Router*> routers_;
  const AccessLog* access_log_ = nullptr;
  const TlsCertificates* certificates_ = nullptr;
  const OutlierCounters* ejections_ = nullptr;
  const ReloadFigures* reloads_ = nullptr;
  const AdminCounters* admin_ = nullptr;
  const EventFigures* events_ = nullptr;
  const AutoscaleFigures* autoscale_ = nullptr;
  const Predecessor* predecessor_ = nullptr;
  std::atomic<bool> draining_{false};
};

}  // namespace dlb::lb
