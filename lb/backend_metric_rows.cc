// The rows of one backend.
#include "lb/metric_rows.h"
#include "lb/score_view.h"

namespace dlb::lb {

bool BackendFigures::ejected() const {
  return backend.ejected_until_ns.load(std::memory_order_relaxed) > now.time_since_epoch().count();
}

bool BackendFigures::on_probation() const {
  return backend.ejected_until_ns.load(std::memory_order_relaxed) != 0 && !ejected();
}

double BackendFigures::score() const { return score_of(backend, options, now).total; }

namespace {

template <auto Member>
constexpr auto kCounter =
    [](const BackendFigures& f) { return (f.backend.counters.*Member).load(std::memory_order_relaxed); };
template <auto Member>
constexpr auto kReport =
    [](const BackendFigures& f) { return (f.backend.report.*Member).load(std::memory_order_relaxed); };

using C = BackendCounters;
constexpr MetricKind kGauge = MetricKind::Gauge;

constexpr MetricRow kBackendRows[] = {
    metric<[](const BackendFigures& f) { return f.backend.healthy.load(std::memory_order_relaxed); }>(
        {.name = "dlb_backend_healthy",
         .kind = kGauge,
         .json = "healthy",
         .help = "1 while it passes its checks and takes connections."}),
    metric<[](const BackendFigures& f) { return f.backend.slots.taken(); }>(
        {.name = "dlb_backend_in_flight",
         .kind = kGauge,
         .json = "in_flight",
         .help = "Outstanding requests."}),
    metric<&BackendFigures::score>(
        {.name = "dlb_backend_score",
         .kind = kGauge,
         .unit = "points",
         .json = "score",
         .json_decimals = 1,
         .help = "The score, 0 to 100 and a penalty of 15 when statistics are stale."}),
    metric<[](const BackendFigures& f) { return f.backend.weight.load(std::memory_order_relaxed); }>(
        {.name = "dlb_backend_weight", .kind = kGauge, .json = "weight", .help = "Share of traffic."}),
    metric<[](const BackendFigures& f) {
      return read_latency(f.backend.latency_us, f.backend.latency_at_ns, f.now) / 1e6;
    }>({.name = "dlb_backend_latency_seconds",
        .kind = kGauge,
        .unit = "seconds",
        .json = "latency_ms",
        .json_scale = 1000,
        .json_decimals = 3,
        .help = "Decaying average of the time to response headers."}),
    metric<kReport<&BackendReport::cpu_percent>>(
        {.name = "dlb_backend_cpu_percent",
         .kind = kGauge,
         .unit = "percent",
         .json = "cpu_percent",
         .json_decimals = 1,
         .help = "Reported CPU, percent of its quota; -1: not reported."}),
    metric<kReport<&BackendReport::unreclaimable_percent>>(
        {.name = "dlb_backend_memory_unreclaimable_percent",
         .kind = kGauge,
         .unit = "percent",
         .json = "memory.unreclaimable_percent",
         .json_decimals = 1,
         .help = "What the memory guards judge; -1: not reported."}),
    metric<kReport<&BackendReport::working_set_percent>>({.name = "dlb_backend_memory_working_set_percent",
                                                          .kind = kGauge,
                                                          .unit = "percent",
                                                          .json = "memory.working_set_percent",
                                                          .json_decimals = 1,
                                                          .help = "Reported working set; -1: not reported."}),
    metric<kReport<&BackendReport::total_percent>>({.name = "dlb_backend_memory_total_percent",
                                                    .kind = kGauge,
                                                    .unit = "percent",
                                                    .json = "memory.total_percent",
                                                    .json_decimals = 1,
                                                    .help = "Reported total memory; -1: not reported."}),
    metric<[](const BackendFigures& f) { return f.backend.memory_blocked.load(std::memory_order_relaxed); }>(
        {.name = "dlb_backend_memory_blocked",
         .kind = kGauge,
         .json = "memory.blocked",
         .help = "1 while a memory guard keeps it from new requests."}),
    metric<&BackendFigures::ejected>({.name = "dlb_backend_ejected",
                                      .kind = kGauge,
                                      .json = "ejection.ejected",
                                      .help = "1 while it is ejected for failing beside its peers."}),
    metric<&BackendFigures::on_probation>(
        {.name = "dlb_backend_on_probation",
         .kind = kGauge,
         .json = "ejection.on_probation",
         .help = "1 while it is back from an ejection, with 3 requests at a time."}),
    metric<[](const BackendFigures& f) { return f.backend.ejection.times.load(std::memory_order_relaxed); }>(
        {.name = "dlb_backend_ejection_times",
         .kind = kGauge,
         .json = "ejection.times",
         .help = "Ejections that are not forgotten: by them the next one grows."}),
    metric<[](const BackendFigures& f) { return f.backend.ejection.total.load(std::memory_order_relaxed); }>(
        {.name = "dlb_backend_ejections_total", .json = "ejection.total", .help = "Ejections of it."}),
    metric<[](const BackendFigures& f) { return f.backend.connections.taken(); }>(
        {.name = "dlb_backend_connections_busy",
         .kind = kGauge,
         .json = "connections.busy",
         .help = "Busy connections of the message transport."}),
    metric<[](const BackendFigures& f) { return f.backend.feed_connections.taken(); }>(
        {.name = "dlb_backend_feed_connections_busy",
         .kind = kGauge,
         .json = "connections.feed_busy",
         .help = "Busy connections of the feed transport."}),
    metric<[](const BackendFigures& f) { return f.backend.tunnels.taken(); }>(
        {.name = "dlb_backend_tunnels",
         .kind = kGauge,
         .json = "connections.tunnels",
         .help = "Connections that became tunnels by an upgrade; they count under no limit of it."}),
    metric<kCounter<&C::connections_opened>>({.name = "dlb_backend_connections_opened_total",
                                              .json = "connections.opened",
                                              .help = "Connections made."}),
    metric<kCounter<&C::connections_reused>>({.name = "dlb_backend_connections_reused_total",
                                              .json = "connections.reused",
                                              .help = "Exchanges on an idle connection."}),
    metric<kCounter<&C::requests>>({.name = "dlb_backend_requests_total",
                                    .json = "requests",
                                    .help = "Requests given to it, retries included."}),
    metric<kCounter<&C::responses_2xx>>({.name = "dlb_backend_responses_total",
                                         .labels = "class=\"2xx\"",
                                         .json = "responses.2xx",
                                         .help = "Responses by class."}),
    metric<kCounter<&C::responses_3xx>>({.name = "dlb_backend_responses_total",
                                         .labels = "class=\"3xx\"",
                                         .json = "responses.3xx",
                                         .help = "Responses by class."}),
    metric<kCounter<&C::responses_4xx>>({.name = "dlb_backend_responses_total",
                                         .labels = "class=\"4xx\"",
                                         .json = "responses.4xx",
                                         .help = "Responses by class."}),
    metric<kCounter<&C::responses_5xx>>({.name = "dlb_backend_responses_total",
                                         .labels = "class=\"5xx\"",
                                         .json = "responses.5xx",
                                         .help = "Responses by class."}),
    metric<kCounter<&C::connect_failures>>({.name = "dlb_backend_failures_total",
                                            .labels = "kind=\"connect\"",
                                            .json = "failures.connect",
                                            .help = "Failures by kind."}),
    metric<kCounter<&C::timeouts>>({.name = "dlb_backend_failures_total",
                                    .labels = "kind=\"timeout\"",
                                    .json = "failures.timeout",
                                    .help = "Failures by kind."}),
    metric<kCounter<&C::resets>>({.name = "dlb_backend_failures_total",
                                  .labels = "kind=\"reset\"",
                                  .json = "failures.reset",
                                  .help = "Failures by kind."}),
    metric<kCounter<&C::response_failures>>({.name = "dlb_backend_failures_total",
                                             .labels = "kind=\"bad_response\"",
                                             .json = "failures.bad_response",
                                             .help = "Failures by kind."}),
    metric<kCounter<&C::retried_away>>({.name = "dlb_backend_retried_away_total",
                                        .json = "retried_away",
                                        .help = "Exchanges that went on to another backend."}),
    metric<kCounter<&C::bytes_in>>({.name = "dlb_backend_received_bytes_total",
                                    .unit = "bytes",
                                    .json = "bytes.in",
                                    .help = "Bytes read from it."}),
    metric<kCounter<&C::bytes_out>>({.name = "dlb_backend_sent_bytes_total",
                                     .unit = "bytes",
                                     .json = "bytes.out",
                                     .help = "Bytes written to it."}),
    metric<kCounter<&C::probes>>({.name = "dlb_backend_probes_total",
                                  .json = "probes.total",
                                  .help = "Health checks and statistics polls."}),
    metric<kCounter<&C::probe_failures>>({.name = "dlb_backend_probe_failures_total",
                                          .json = "probes.failed",
                                          .help = "Health checks and statistics polls that failed."}),
    metric<kCounter<&C::probes_skipped>>({.name = "dlb_backend_probes_skipped_total",
                                          .json = "probes.skipped",
                                          .help = "Ticks at which the last one still ran."}),
    metric<kCounter<&C::health_changes>>({.name = "dlb_backend_health_changes_total",
                                          .json = "health_changes",
                                          .help = "Times that it came up or went down."}),
    metric<kCounter<&C::drain_cuts>>(
        {.name = "dlb_backend_drain_cuts_total",
         .json = "drain_cuts",
         .help = "Requests that it broke off while it drained, and that no other backend answered."}),
};

// Everything from here on is told by /lb/status as `counters`.
constexpr std::size_t first_counter_row() {
  std::size_t i = 0;
  while (kBackendRows[i].spec.name != "dlb_backend_connections_busy") ++i;
  return i;
}

}  // namespace

std::span<const MetricRow> backend_metric_rows() { return kBackendRows; }

std::span<const MetricRow> backend_counter_rows() {
  const std::span<const MetricRow> all = kBackendRows;
  return all.subspan(first_counter_row());
}

}  // namespace dlb::lb
