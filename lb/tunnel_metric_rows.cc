// The rows of the tunnels: of the whole process, and of each backend of a layer-4 listener.
#include <vector>

#include "common/json_writer.h"
#include "lb/metric_rows.h"

namespace dlb::lb {
namespace {

template <auto Member>
constexpr auto kSum = [](const LbTotals& t) { return t.sum(Member); };
template <auto Member, TunnelKind Kind>
constexpr auto kKind = [](const LbTotals& t) {
  std::uint64_t total = 0;
  for (const WorkerMetrics* worker : t.workers)
    total += (worker->*Member)[static_cast<std::size_t>(Kind)].get();
  return total;
};
template <auto Member>
constexpr auto kFigure =
    [](const TunnelFigures& f) { return (f.backend.*Member).load(std::memory_order_relaxed); };
using W = WorkerMetrics;
using K = TunnelKind;
using B = TunnelBackend;
constexpr MetricKind kGauge = MetricKind::Gauge;

constexpr MetricRow kTunnelRows[] = {
    metric<kKind<&W::tunnels_by_kind, K::Upgrade>>(
        {.name = "dlb_tunnels",
         .kind = kGauge,
         .labels = "kind=\"upgrade\"",
         .json = "tunnels.active.upgrade",
         .help = "Tunnels now, those that still connect included."}),
    metric<kKind<&W::tunnels_by_kind, K::Tcp>>({.name = "dlb_tunnels",
                                                .kind = kGauge,
                                                .labels = "kind=\"tcp\"",
                                                .json = "tunnels.active.tcp",
                                                .help = "Tunnels now, those that still connect included."}),
    metric<kKind<&W::tunnels_by_kind, K::Wss>>({.name = "dlb_tunnels",
                                                .kind = kGauge,
                                                .labels = "kind=\"wss\"",
                                                .json = "tunnels.active.wss",
                                                .help = "Tunnels now, those that still connect included."}),
    metric<kKind<&W::tunnels_opened_by_kind, K::Upgrade>>({.name = "dlb_tunnels_opened_total",
                                                           .labels = "kind=\"upgrade\"",
                                                           .json = "tunnels.opened.upgrade",
                                                           .help = "Tunnels that reached a backend."}),
    metric<kKind<&W::tunnels_opened_by_kind, K::Tcp>>({.name = "dlb_tunnels_opened_total",
                                                       .labels = "kind=\"tcp\"",
                                                       .json = "tunnels.opened.tcp",
                                                       .help = "Tunnels that reached a backend."}),
    metric<kKind<&W::tunnels_opened_by_kind, K::Wss>>({.name = "dlb_tunnels_opened_total",
                                                       .labels = "kind=\"wss\"",
                                                       .json = "tunnels.opened.wss",
                                                       .help = "Tunnels that reached a backend."}),
    metric<kSum<&W::tunnel_bytes_in>>({.name = "dlb_tunnel_received_bytes_total",
                                       .unit = "bytes",
                                       .json = "tunnels.bytes_in",
                                       .help = "Bytes read from clients in tunnels."}),
    metric<kSum<&W::tunnel_bytes_out>>({.name = "dlb_tunnel_sent_bytes_total",
                                        .unit = "bytes",
                                        .json = "tunnels.bytes_out",
                                        .help = "Bytes written to clients in tunnels."}),
    metric<kSum<&W::tunnel_connect_failures>>(
        {.name = "dlb_tunnel_connect_failures_total",
         .json = "tunnels.connect_failures",
         .help = "Failed connects of layer 4; the next backend was tried."}),
    metric<kSum<&W::tunnels_without_backend>>({.name = "dlb_tunnels_refused_total",
                                               .labels = "reason=\"no_backend\"",
                                               .json = "tunnels.refused.no_backend",
                                               .help = "Connections of layer 4 that were closed at once."}),
    metric<kSum<&W::tunnels_over_limit>>({.name = "dlb_tunnels_refused_total",
                                          .labels = "reason=\"limit\"",
                                          .json = "tunnels.refused.limit",
                                          .help = "Connections of layer 4 that were closed at once."}),
    metric<kSum<&W::tunnel_timeouts>>(
        {.name = "dlb_tunnel_timeouts_total",
         .json = "tunnels.timeouts",
         .help = "Tunnels closed by tunnel-timeout, or half-closed and stuck."}),
};

constexpr MetricRow kTunnelBackendRows[] = {
    metric<[](const TunnelFigures& f) { return f.backend.usable(f.now); }>(
        {.name = "dlb_tunnel_backend_usable",
         .kind = kGauge,
         .json = "usable",
         .help = "1 while it may get connections."}),
    metric<[](const TunnelFigures& f) { return f.backend.active.taken(); }>(
        {.name = "dlb_tunnel_backend_connections",
         .kind = kGauge,
         .json = "connections",
         .help = "Connections to it, those that still connect included."}),
    metric<kFigure<&B::opened>>(
        {.name = "dlb_tunnel_backend_opened_total", .json = "opened", .help = "Connections made."}),
    metric<kFigure<&B::connect_failures>>({.name = "dlb_tunnel_backend_connect_failures_total",
                                           .json = "connect_failures",
                                           .help = "Connects that failed."}),
    metric<kFigure<&B::bytes_in>>({.name = "dlb_tunnel_backend_received_bytes_total",
                                   .unit = "bytes",
                                   .json = "bytes.in",
                                   .help = "Bytes read from it."}),
    metric<kFigure<&B::bytes_out>>({.name = "dlb_tunnel_backend_sent_bytes_total",
                                    .unit = "bytes",
                                    .json = "bytes.out",
                                    .help = "Bytes written to it."}),
};

}  // namespace

std::span<const MetricRow> tunnel_metric_rows() { return kTunnelRows; }

std::span<const MetricRow> tunnel_backend_metric_rows() { return kTunnelBackendRows; }

void write_tunnel_pools(JsonWriter& json, std::span<const std::shared_ptr<const TunnelPool>> pools,
                        TimePoint now) {
  json.key("tunnel_pools").begin_array();
  for (const auto& pool : pools) {
    json.begin_object();
    json.field("kind", pool->kind == TunnelKind::Tcp ? "tcp" : "wss").field("listen", pool->listen);
    json.field("policy", pool->policy == TunnelPolicy::LeastConn ? "least_conn" : "round_robin");
    json.field("connections", pool->connections().taken());
    json.key("backends").begin_array();
    for (const auto& backend : pool->backends) {
      json.begin_object().field("id", backend->id).field("address", backend->address.to_string());
      append_json_members(json, tunnel_backend_metric_rows(), TunnelFigures{*backend, now});
      json.end_object();
    }
    json.end_array().end_object();
  }
  json.end_array();
}

void append_tunnel_pools(std::string& out, std::span<const std::shared_ptr<const TunnelPool>> pools,
                         TimePoint now) {
  std::size_t count = 0;
  for (const auto& pool : pools) count += pool->backends.size();
  if (count == 0) return;
  std::vector<TunnelFigures> figures;
  std::vector<MetricSeries<TunnelFigures>> series;
  figures.reserve(count);
  for (const auto& pool : pools) {
    for (const auto& backend : pool->backends) {
      figures.push_back({*backend, now});
      series.push_back({metric_label("listener", pool->listen) + "," + metric_label("backend", backend->id),
                        &figures.back()});
    }
  }
  append_prometheus(out, tunnel_backend_metric_rows(), std::span<const MetricSeries<TunnelFigures>>(series));
}

}  // namespace dlb::lb
