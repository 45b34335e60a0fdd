// The rows of TLS, of the whole process.
#include "lb/metric_rows.h"

namespace dlb::lb {
namespace {

template <auto Member>
constexpr auto kSum = [](const LbTotals& t) { return t.sum(Member); };
using W = WorkerMetrics;
constexpr MetricKind kGauge = MetricKind::Gauge;

constexpr MetricRow kTlsRows[] = {
    metric<kSum<&W::client_handshaking>>({.name = "dlb_tls_handshaking",
                                          .kind = kGauge,
                                          .json = "tls.handshaking",
                                          .help = "Client connections in their handshake."}),
    metric<kSum<&W::tls_handshakes_12>>({.name = "dlb_tls_handshakes_total",
                                         .labels = "version=\"1.2\"",
                                         .json = "tls.handshakes.1_2",
                                         .help = "Handshakes done."}),
    metric<kSum<&W::tls_handshakes_13>>({.name = "dlb_tls_handshakes_total",
                                         .labels = "version=\"1.3\"",
                                         .json = "tls.handshakes.1_3",
                                         .help = "Handshakes done."}),
    metric<kSum<&W::tls_resumed>>({.name = "dlb_tls_resumed_total",
                                   .json = "tls.resumed",
                                   .help = "Handshakes that resumed a session."}),
    metric<kSum<&W::tls_failed_protocol>>({.name = "dlb_tls_handshake_failures_total",
                                           .labels = "kind=\"protocol\"",
                                           .json = "tls.failures.protocol",
                                           .help = "Handshakes that failed."}),
    metric<kSum<&W::tls_failed_left>>({.name = "dlb_tls_handshake_failures_total",
                                       .labels = "kind=\"left\"",
                                       .json = "tls.failures.left",
                                       .help = "Handshakes that failed."}),
    metric<kSum<&W::tls_failed_timeout>>({.name = "dlb_tls_handshake_failures_total",
                                          .labels = "kind=\"timeout\"",
                                          .json = "tls.failures.timeout",
                                          .help = "Handshakes that failed."}),
    metric<kSum<&W::tls_failed_memory>>({.name = "dlb_tls_handshake_failures_total",
                                         .labels = "kind=\"memory\"",
                                         .json = "tls.failures.memory",
                                         .help = "Handshakes that failed."}),
    metric<kSum<&W::tls_plain_http>>({.name = "dlb_tls_plain_http_total",
                                      .json = "tls.plain_http",
                                      .help = "Plain HTTP requests on the TLS port, answered 400."}),
    metric<[](const LbTotals& t) { return t.certificates != nullptr ? t.certificates->reloads() : 0; }>(
        {.name = "dlb_tls_certificate_reloads_total",
         .labels = "result=\"ok\"",
         .json = "tls.certificate_reloads.ok",
         .help = "Times SIGHUP had the certificate read again."}),
    metric<[](const LbTotals& t) {
      return t.certificates != nullptr ? t.certificates->reload_failures() : 0;
    }>({.name = "dlb_tls_certificate_reloads_total",
        .labels = "result=\"failed\"",
        .json = "tls.certificate_reloads.failed",
        .help = "Times SIGHUP had the certificate read again."}),
    metric<[](const LbTotals& t) -> std::int64_t {
      return t.certificates != nullptr ? t.certificates->expires_at() : 0;
    }>({.name = "dlb_tls_certificate_expiry_timestamp_seconds",
        .kind = kGauge,
        .unit = "seconds",
        .json = "tls.certificate_expiry",
        .help = "When the certificate expires, since 1970; 0: no TLS."}),
};

}  // namespace

std::span<const MetricRow> tls_metric_rows() { return kTlsRows; }

}  // namespace dlb::lb
