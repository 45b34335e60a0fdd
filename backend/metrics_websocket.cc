// The rows of what the WebSocket port counts; the others stand in metrics.cc.
#include "backend/metrics.h"

namespace dlb::backend {
namespace {

using View = MetricsView;
constexpr MetricKind kGauge = MetricKind::Gauge;

constexpr MetricRow kRows[] = {
    metric<[](const View& v) { return v.ws_open; }>({.name = "dlb_backend_ws_sessions",
                                                     .kind = kGauge,
                                                     .json = "ws.sessions",
                                                     .help = "Open WebSocket sessions."}),
    metric<[](const View& v) { return v.ws_closing; }>({.name = "dlb_backend_ws_closing",
                                                        .kind = kGauge,
                                                        .json = "ws.closing",
                                                        .help = "Sessions in their close handshake."}),
    metric<[](const View& v) { return v.ws_collected_bytes; }>(
        {.name = "dlb_backend_ws_collected_bytes",
         .kind = kGauge,
         .unit = "bytes",
         .json = "ws.collected_bytes",
         .help = "Held of messages whose end has not come."}),
    metric<[](const View& v) { return v.ws.opened; }>(
        {.name = "dlb_backend_ws_opened_total", .json = "ws.opened", .help = "Sessions ever opened."}),
    metric<[](const View& v) { return v.ws.refused_origin; }>(
        {.name = "dlb_backend_ws_refused_total",
         .labels = "reason=\"origin\"",
         .json = "ws.refused.origin",
         .help = "Upgrade requests that got no session, by why."}),
    metric<[](const View& v) { return v.ws.refused_full; }>(
        {.name = "dlb_backend_ws_refused_total",
         .labels = "reason=\"full\"",
         .json = "ws.refused.full",
         .help = "Upgrade requests that got no session, by why."}),
    metric<[](const View& v) { return v.ws.refused_draining; }>(
        {.name = "dlb_backend_ws_refused_total",
         .labels = "reason=\"draining\"",
         .json = "ws.refused.draining",
         .help = "Upgrade requests that got no session, by why."}),
    metric<[](const View& v) { return v.ws.refused_request; }>(
        {.name = "dlb_backend_ws_refused_total",
         .labels = "reason=\"request\"",
         .json = "ws.refused.request",
         .help = "Upgrade requests that got no session, by why."}),
    metric<[](const View& v) { return v.ws.ended_by_peer; }>({.name = "dlb_backend_ws_ended_total",
                                                              .labels = "reason=\"peer\"",
                                                              .json = "ws.ended.peer",
                                                              .help = "Sessions that ended, by why."}),
    metric<[](const View& v) { return v.ws.ended_broken; }>({.name = "dlb_backend_ws_ended_total",
                                                             .labels = "reason=\"broken\"",
                                                             .json = "ws.ended.broken",
                                                             .help = "Sessions that ended, by why."}),
    metric<[](const View& v) { return v.ws.ended_protocol; }>({.name = "dlb_backend_ws_ended_total",
                                                               .labels = "reason=\"protocol\"",
                                                               .json = "ws.ended.protocol",
                                                               .help = "Sessions that ended, by why."}),
    metric<[](const View& v) { return v.ws.ended_by_service; }>({.name = "dlb_backend_ws_ended_total",
                                                                 .labels = "reason=\"service\"",
                                                                 .json = "ws.ended.service",
                                                                 .help = "Sessions that ended, by why."}),
    metric<[](const View& v) { return v.ws.ended_slow; }>({.name = "dlb_backend_ws_ended_total",
                                                           .labels = "reason=\"slow_consumer\"",
                                                           .json = "ws.ended.slow_consumer",
                                                           .help = "Sessions that ended, by why."}),
    metric<[](const View& v) { return v.ws.ended_overload; }>({.name = "dlb_backend_ws_ended_total",
                                                               .labels = "reason=\"overload\"",
                                                               .json = "ws.ended.overload",
                                                               .help = "Sessions that ended, by why."}),
    metric<[](const View& v) { return v.ws.ended_pong; }>({.name = "dlb_backend_ws_ended_total",
                                                           .labels = "reason=\"missed_pong\"",
                                                           .json = "ws.ended.missed_pong",
                                                           .help = "Sessions that ended, by why."}),
    metric<[](const View& v) { return v.ws.ended_unconfirmed; }>({.name = "dlb_backend_ws_ended_total",
                                                                  .labels = "reason=\"not_registered\"",
                                                                  .json = "ws.ended.not_registered",
                                                                  .help = "Sessions that ended, by why."}),
    metric<[](const View& v) { return v.ws.ended_drained; }>({.name = "dlb_backend_ws_ended_total",
                                                              .labels = "reason=\"drained\"",
                                                              .json = "ws.ended.drained",
                                                              .help = "Sessions that ended, by why."}),
    metric<[](const View& v) { return v.ws.close_timeouts; }>(
        {.name = "dlb_backend_ws_close_timeouts_total",
         .json = "ws.close_timeouts",
         .help = "Connections cut since the close handshake took too long."}),
    metric<[](const View& v) { return v.ws.messages_read; }>(
        {.name = "dlb_backend_ws_messages_received_total",
         .json = "ws.messages_received",
         .help = "Whole messages from clients."}),
    metric<[](const View& v) { return v.ws.messages_sent; }>(
        {.name = "dlb_backend_ws_messages_sent_total",
         .json = "ws.messages_sent",
         .help = "Messages queued for clients, each client counted."}),
    metric<[](const View& v) { return v.ws.answers_refused; }>(
        {.name = "dlb_backend_ws_answers_refused_total",
         .json = "ws.answers_refused",
         .help = "Answers that found the queue of their client full."}),
    metric<[](const View& v) { return v.ws.pings_read; }>({.name = "dlb_backend_ws_pings_received_total",
                                                           .json = "ws.pings_received",
                                                           .help = "Pings from clients."}),
    metric<[](const View& v) { return v.ws.pings_sent; }>(
        {.name = "dlb_backend_ws_pings_sent_total", .json = "ws.pings_sent", .help = "Pings to clients."}),
    metric<[](const View& v) { return v.ws.bytes_read; }>(
        {.name = "dlb_backend_ws_received_bytes_total",
         .unit = "bytes",
         .json = "ws.received_bytes",
         .help = "Bytes read from WebSocket sessions, below TLS."}),
    metric<[](const View& v) { return v.ws.bytes_written; }>(
        {.name = "dlb_backend_ws_sent_bytes_total",
         .unit = "bytes",
         .json = "ws.sent_bytes",
         .help = "Bytes written to WebSocket sessions, below TLS."}),
    metric<[](const View& v) { return v.http.tls_handshakes; }>({.name = "dlb_backend_tls_handshakes_total",
                                                                 .labels = "outcome=\"ok\"",
                                                                 .json = "tls.handshakes",
                                                                 .help = "TLS handshakes by outcome."}),
    metric<[](const View& v) { return v.http.tls_failures; }>({.name = "dlb_backend_tls_handshakes_total",
                                                               .labels = "outcome=\"failed\"",
                                                               .json = "tls.failures",
                                                               .help = "TLS handshakes by outcome."}),
    metric<[](const View& v) { return v.http.proxy_headers_bad; }>(
        {.name = "dlb_backend_proxy_headers_bad_total",
         .json = "tls.proxy_headers_bad",
         .help = "Connections closed for their PROXY header."}),
};

}  // namespace

std::span<const MetricRow> websocket_metric_rows() { return kRows; }

}  // namespace dlb::backend
