// The rows of accept-proxy-protocol, of the whole process.
#include "lb/metric_rows.h"

namespace dlb::lb {
namespace {

template <auto Member>
constexpr auto kSum = [](const LbTotals& t) { return t.sum(Member); };
using W = WorkerMetrics;

constexpr MetricRow kProxyRows[] = {
    metric<kSum<&W::proxy_headers>>({.name = "dlb_proxy_headers_total",
                                     .labels = "kind=\"proxied\"",
                                     .json = "proxy_protocol.proxied",
                                     .help = "PROXY headers that were taken."}),
    metric<kSum<&W::proxy_headers_local>>({.name = "dlb_proxy_headers_total",
                                           .labels = "kind=\"local\"",
                                           .json = "proxy_protocol.local",
                                           .help = "PROXY headers that were taken."}),
    metric<kSum<&W::proxy_headers_bad>>(
        {.name = "dlb_proxy_refused_total",
         .labels = "reason=\"bad_header\"",
         .json = "proxy_protocol.refused.bad_header",
         .help = "Client connections that were closed by accept-proxy-protocol."}),
    metric<kSum<&W::proxy_untrusted>>(
        {.name = "dlb_proxy_refused_total",
         .labels = "reason=\"untrusted\"",
         .json = "proxy_protocol.refused.untrusted",
         .help = "Client connections that were closed by accept-proxy-protocol."}),
};

}  // namespace

std::span<const MetricRow> proxy_metric_rows() { return kProxyRows; }

}  // namespace dlb::lb
