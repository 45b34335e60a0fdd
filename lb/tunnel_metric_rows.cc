// The rows of the tunnels, of the whole process.
#include "lb/metric_rows.h"

namespace dlb::lb {
namespace {

template <auto Member>
constexpr auto kSum = [](const LbTotals& t) { return t.sum(Member); };
using W = WorkerMetrics;

constexpr MetricRow kTunnelRows[] = {
    metric<kSum<&W::tunnels_opened>>({.name = "dlb_tunnels_opened_total",
                                      .labels = "kind=\"upgrade\"",
                                      .json = "tunnels.opened.upgrade",
                                      .help = "Tunnels begun."}),
    metric<kSum<&W::tunnel_bytes_in>>({.name = "dlb_tunnel_received_bytes_total",
                                       .unit = "bytes",
                                       .json = "tunnels.bytes_in",
                                       .help = "Bytes read from clients in tunnels."}),
    metric<kSum<&W::tunnel_bytes_out>>({.name = "dlb_tunnel_sent_bytes_total",
                                        .unit = "bytes",
                                        .json = "tunnels.bytes_out",
                                        .help = "Bytes written to clients in tunnels."}),
    metric<kSum<&W::tunnel_timeouts>>(
        {.name = "dlb_tunnel_timeouts_total",
         .json = "tunnels.timeouts",
         .help = "Tunnels closed by tunnel-timeout, or half-closed and stuck."}),
};

}  // namespace

std::span<const MetricRow> tunnel_metric_rows() { return kTunnelRows; }

}  // namespace dlb::lb
