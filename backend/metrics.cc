#include "backend/metrics.h"

#include "common/json_writer.h"

namespace dlb::backend {
namespace {

using View = MetricsView;
constexpr MetricKind kGauge = MetricKind::Gauge;

constexpr MetricRow kRows[] = {
    metric<[](const View& v) { return v.uptime_seconds; }>({.name = "dlb_backend_uptime_seconds",
                                                            .kind = kGauge,
                                                            .unit = "seconds",
                                                            .json = "uptime_seconds",
                                                            .json_decimals = 3,
                                                            .help = "Time since start."}),
    metric<[](const View& v) { return v.draining; }>({.name = "dlb_backend_draining",
                                                      .kind = kGauge,
                                                      .json = "draining",
                                                      .help = "1 while the backend drains."}),
    metric<[](const View& v) { return v.store.database_up; }>(
        {.name = "dlb_backend_database_up",
         .kind = kGauge,
         .json = "database_up",
         .help = "1 when the database answered its last health check."}),

    metric<[](const View& v) { return v.in_flight; }>(
        {.name = "dlb_backend_requests_in_flight",
         .kind = kGauge,
         .json = "requests.in_flight",
         .help = "Requests from a complete head to the last byte of the answer."}),
    metric<[](const View& v) { return v.api.message_requests; }>({.name = "dlb_backend_requests_total",
                                                                  .labels = "route=\"message\"",
                                                                  .json = "requests.message",
                                                                  .help = "Requests by route."}),
    metric<[](const View& v) { return v.api.feed_requests; }>({.name = "dlb_backend_requests_total",
                                                               .labels = "route=\"feed\"",
                                                               .json = "requests.feed",
                                                               .help = "Requests by route."}),
    metric<[](const View& v) { return v.api.probe_requests; }>({.name = "dlb_backend_requests_total",
                                                                .labels = "route=\"health\"",
                                                                .json = "requests.health",
                                                                .help = "Requests by route."}),
    metric<[](const View& v) { return v.api.other_requests; }>({.name = "dlb_backend_requests_total",
                                                                .labels = "route=\"other\"",
                                                                .json = "requests.other",
                                                                .help = "Requests by route."}),
    metric<[](const View& v) { return v.api.abandoned; }>(
        {.name = "dlb_backend_abandoned_total",
         .json = "requests.abandoned",
         .help = "Messages and feeds whose client left before the answer."}),
    metric<[](const View& v) { return v.api.responses_2xx; }>(
        {.name = "dlb_backend_responses_total",
         .labels = "class=\"2xx\"",
         .json = "responses.2xx",
         .help = "Answers of the API by status class."}),
    metric<[](const View& v) { return v.api.responses_3xx; }>(
        {.name = "dlb_backend_responses_total",
         .labels = "class=\"3xx\"",
         .json = "responses.3xx",
         .help = "Answers of the API by status class."}),
    metric<[](const View& v) { return v.api.responses_4xx; }>(
        {.name = "dlb_backend_responses_total",
         .labels = "class=\"4xx\"",
         .json = "responses.4xx",
         .help = "Answers of the API by status class."}),
    metric<[](const View& v) { return v.api.responses_5xx; }>(
        {.name = "dlb_backend_responses_total",
         .labels = "class=\"5xx\"",
         .json = "responses.5xx",
         .help = "Answers of the API by status class."}),
    metric<[](const View& v) { return v.http.refusals; }>(
        {.name = "dlb_backend_refusals_total",
         .json = "responses.refusals",
         .help = "Answers of the HTTP layer to malformed, oversized or slow requests."}),
    metric<[](const View& v) { return v.http.interrupted; }>(
        {.name = "dlb_backend_interrupted_total",
         .json = "responses.interrupted",
         .help = "Answers that broke while they were being written."}),
    metric<[](const View& v) -> const Histogram& { return v.api.message_us; }>(
        {.name = "dlb_backend_message_seconds",
         .kind = MetricKind::Histogram,
         .unit = "seconds",
         .json = "message_seconds",
         .help = "Time from a message's head to its answer."}),
    metric<[](const View& v) -> const Histogram& { return v.api.feed_us; }>(
        {.name = "dlb_backend_feed_seconds",
         .kind = MetricKind::Histogram,
         .unit = "seconds",
         .json = "feed_seconds",
         .help = "Time from a feed request's head to the start of its answer."}),

    metric<[](const View& v) { return v.connections; }>({.name = "dlb_backend_connections",
                                                         .kind = kGauge,
                                                         .json = "connections.open",
                                                         .help = "Open HTTP connections."}),
    metric<[](const View& v) { return v.http.connections_accepted; }>(
        {.name = "dlb_backend_connections_accepted_total",
         .json = "connections.accepted",
         .help = "Accepted HTTP connections."}),
    metric<[](const View& v) { return v.http.connections_refused; }>(
        {.name = "dlb_backend_connections_refused_total",
         .json = "connections.refused",
         .help = "Connections refused at the cap."}),
    metric<[](const View& v) { return v.http.connections_reclaimed; }>(
        {.name = "dlb_backend_connections_reclaimed_total",
         .json = "connections.reclaimed",
         .help = "Idle connections closed to make room at the cap."}),
    metric<[](const View& v) { return v.http.idle_timeouts; }>({.name = "dlb_backend_idle_timeouts_total",
                                                                .json = "connections.idle_timeouts",
                                                                .help = "Idle connections closed by time."}),
    metric<[](const View& v) { return v.http.header_timeouts + v.http.body_timeouts; }>(
        {.name = "dlb_backend_request_timeouts_total",
         .json = "connections.request_timeouts",
         .help = "Requests whose head or body did not come in time."}),
    metric<[](const View& v) { return v.http.write_timeouts + v.http.slow_clients; }>(
        {.name = "dlb_backend_slow_clients_total",
         .json = "connections.slow_clients",
         .help = "Clients cut because they read or sent too slowly."}),
    metric<[](const View& v) { return v.http.bytes_read; }>({.name = "dlb_backend_received_bytes_total",
                                                             .unit = "bytes",
                                                             .json = "connections.received_bytes",
                                                             .help = "Bytes read from HTTP clients."}),
    metric<[](const View& v) { return v.http.bytes_written; }>({.name = "dlb_backend_sent_bytes_total",
                                                                .unit = "bytes",
                                                                .json = "connections.sent_bytes",
                                                                .help = "Bytes written to HTTP clients."}),

    metric<[](const View& v) { return v.store.created; }>({.name = "dlb_backend_messages_total",
                                                           .labels = "outcome=\"created\"",
                                                           .json = "messages.created",
                                                           .help = "Messages by outcome."}),
    metric<[](const View& v) { return v.store.duplicates; }>({.name = "dlb_backend_messages_total",
                                                              .labels = "outcome=\"duplicate\"",
                                                              .json = "messages.duplicate",
                                                              .help = "Messages by outcome."}),
    metric<[](const View& v) { return v.store.conflicts; }>({.name = "dlb_backend_messages_total",
                                                             .labels = "outcome=\"conflict\"",
                                                             .json = "messages.conflict",
                                                             .help = "Messages by outcome."}),
    metric<[](const View& v) { return v.store.unavailable; }>({.name = "dlb_backend_messages_total",
                                                               .labels = "outcome=\"unavailable\"",
                                                               .json = "messages.unavailable",
                                                               .help = "Messages by outcome."}),
    metric<[](const View& v) { return v.store.outcome_unknown; }>({.name = "dlb_backend_messages_total",
                                                                   .labels = "outcome=\"outcome_unknown\"",
                                                                   .json = "messages.outcome_unknown",
                                                                   .help = "Messages by outcome."}),
    metric<[](const View& v) { return v.store.refused; }>({.name = "dlb_backend_messages_total",
                                                           .labels = "outcome=\"refused\"",
                                                           .json = "messages.refused",
                                                           .help = "Messages by outcome."}),
    metric<[](const View& v) { return v.store.queued_rows; }>(
        {.name = "dlb_backend_write_queue_messages",
         .kind = kGauge,
         .json = "write_queue.queued",
         .help = "Messages that have not been sent to the database."}),
    metric<[](const View& v) { return v.store.queued_bytes; }>({.name = "dlb_backend_write_queue_bytes",
                                                                .kind = kGauge,
                                                                .unit = "bytes",
                                                                .json = "write_queue.queued_bytes",
                                                                .help = "Their bytes."}),
    metric<[](const View& v) { return v.store.batches_in_flight; }>(
        {.name = "dlb_backend_write_batches_in_flight",
         .kind = kGauge,
         .json = "write_queue.batches_in_flight",
         .help = "Batches sent and not yet answered."}),
    metric<[](const View& v) { return v.store.batches; }>(
        {.name = "dlb_backend_write_batches_total", .json = "write_queue.batches", .help = "Batches sent."}),
    metric<[](const View& v) { return v.store.batch_rows; }>({.name = "dlb_backend_write_rows_total",
                                                              .json = "write_queue.rows",
                                                              .help = "Rows in those batches."}),
    metric<[](const View& v) { return v.store.batch_retries; }>({.name = "dlb_backend_write_retries_total",
                                                                 .json = "write_queue.retries",
                                                                 .help = "Batches sent again."}),
    metric<[](const View& v) { return v.store.batch_seconds_sum; }>(
        {.name = "dlb_backend_write_batch_seconds_total",
         .unit = "seconds",
         .json = "write_queue.batch_seconds",
         .json_decimals = 6,
         .help = "Time batches took, all together."}),
    metric<[](const View& v) { return v.store.queue_wait_seconds_sum; }>(
        {.name = "dlb_backend_write_wait_seconds_total",
         .unit = "seconds",
         .json = "write_queue.wait_seconds",
         .json_decimals = 6,
         .help = "Time messages waited to be sent, all together."}),
    metric<[](const View& v) { return v.store.queue_full; }>(
        {.name = "dlb_backend_write_queue_full_total",
         .json = "write_queue.full",
         .help = "Messages refused because the queue was full."}),
    metric<[](const View& v) { return v.store.queue_timeouts; }>(
        {.name = "dlb_backend_write_queue_timeouts_total",
         .json = "write_queue.timeouts",
         .help = "Messages refused because they were not sent in time."}),
    metric<[](const View& v) { return v.store.reconnects; }>(
        {.name = "dlb_backend_database_reconnects_total",
         .json = "database_reconnects",
         .help = "Connections to the database made again."}),

    metric<[](const View& v) { return v.store.encrypts; }>({.name = "dlb_backend_encryptions_total",
                                                            .json = "encryption.encrypts",
                                                            .help = "Messages encrypted."}),
    metric<[](const View& v) { return v.store.encrypt_seconds_sum; }>(
        {.name = "dlb_backend_encryption_seconds_total",
         .unit = "seconds",
         .json = "encryption.encrypt_seconds",
         .json_decimals = 6,
         .help = "Time spent encrypting."}),
    metric<[](const View& v) { return v.store.decrypts; }>({.name = "dlb_backend_decryptions_total",
                                                            .json = "encryption.decrypts",
                                                            .help = "Messages decrypted."}),
    metric<[](const View& v) { return v.store.decrypt_seconds_sum; }>(
        {.name = "dlb_backend_decryption_seconds_total",
         .unit = "seconds",
         .json = "encryption.decrypt_seconds",
         .json_decimals = 6,
         .help = "Time spent decrypting."}),
    metric<[](const View& v) { return v.store.undecryptable; }>(
        {.name = "dlb_backend_undecryptable_rows_total",
         .json = "encryption.undecryptable",
         .help = "Rows that no key decrypts."}),
    metric<[](const View& v) { return v.store.feed_refreshes; }>({.name = "dlb_backend_feed_refreshes_total",
                                                                  .json = "feed_cache.refreshes",
                                                                  .help = "Reads of new rows for the feed."}),
    metric<[](const View& v) { return v.store.feed_own_rows; }>(
        {.name = "dlb_backend_feed_own_rows_total",
         .json = "feed_cache.own_rows",
         .help = "Rows written here that joined the feed without being read."}),
    metric<[](const View& v) { return v.store.feed_refresh_seconds_sum; }>(
        {.name = "dlb_backend_feed_refresh_seconds_total",
         .unit = "seconds",
         .json = "feed_cache.refresh_seconds",
         .json_decimals = 6,
         .help = "Time they took, all together."}),
    metric<[](const View& v) { return v.store.feed_rows; }>({.name = "dlb_backend_feed_rows",
                                                             .kind = kGauge,
                                                             .json = "feed_cache.rows",
                                                             .help = "Rows in the feed."}),
    metric<[](const View& v) { return v.store.feed_bytes; }>({.name = "dlb_backend_feed_cache_bytes",
                                                              .kind = kGauge,
                                                              .unit = "bytes",
                                                              .json = "feed_cache.bytes",
                                                              .help = "Memory of the feed's chunks."}),
    metric<[](const View& v) { return v.store.feed_chunks; }>({.name = "dlb_backend_feed_cache_chunks",
                                                               .kind = kGauge,
                                                               .json = "feed_cache.chunks",
                                                               .help = "Chunks in the feed cache."}),
    metric<[](const View& v) { return v.gzip_plain_bytes; }>(
        {.name = "dlb_backend_feed_gzip_input_bytes_total",
         .unit = "bytes",
         .json = "feed_cache.gzip_input_bytes",
         .help = "Bytes of the feed that were compressed, before compression."}),
    metric<[](const View& v) { return v.gzip_kept_bytes; }>({.name = "dlb_backend_feed_gzip_kept_bytes",
                                                             .kind = kGauge,
                                                             .unit = "bytes",
                                                             .json = "feed_cache.gzip_kept_bytes",
                                                             .help = "Compressed bytes that are kept."}),

    metric<[](const View& v) { return v.resources.cpu_percent; }>(
        {.name = "dlb_backend_cpu_percent",
         .kind = kGauge,
         .unit = "percent",
         .json = "process.cpu_percent",
         .json_decimals = 2,
         .help = "CPU of the cgroup, percent of its quota; -1: not known."}),
    metric<[](const View& v) { return v.process.user_cpu_seconds + v.process.system_cpu_seconds; }>(
        {.name = "dlb_backend_process_cpu_seconds_total",
         .unit = "seconds",
         .json = "process.cpu_seconds",
         .json_decimals = 3,
         .help = "CPU time of the process."}),
    metric<[](const View& v) { return v.process.rss_bytes; }>({.name = "dlb_backend_process_resident_bytes",
                                                               .kind = kGauge,
                                                               .unit = "bytes",
                                                               .json = "process.rss_bytes",
                                                               .help = "Resident memory of the process."}),
    metric<[](const View& v) { return v.process.open_fds; }>({.name = "dlb_backend_process_open_fds",
                                                              .kind = kGauge,
                                                              .json = "process.open_fds",
                                                              .help = "Open file descriptors."}),
    metric<[](const View& v) { return v.resources.memory.total; }>(
        {.name = "dlb_backend_memory_total_bytes",
         .kind = kGauge,
         .unit = "bytes",
         .json = "memory.total_bytes",
         .help = "Memory of the cgroup; -1: not known."}),
    metric<[](const View& v) { return v.resources.memory.unreclaimable; }>(
        {.name = "dlb_backend_memory_unreclaimable_bytes",
         .kind = kGauge,
         .unit = "bytes",
         .json = "memory.unreclaimable_bytes",
         .help = "Its part that can't be reclaimed; -1: not known."}),
    metric<[](const View& v) { return v.resources.memory.limit; }>(
        {.name = "dlb_backend_memory_limit_bytes",
         .kind = kGauge,
         .unit = "bytes",
         .json = "memory.limit_bytes",
         .help = "The tightest limit; -1: not known."}),
    metric<[](const View& v) { return v.loop.turns; }>(
        {.name = "dlb_backend_loop_turns_total", .json = "loop.turns", .help = "Turns of the event loop."}),
    metric<[](const View& v) { return v.loop.turns_over_5ms; }>({.name = "dlb_backend_loop_slow_turns_total",
                                                                 .json = "loop.turns_over_5ms",
                                                                 .help = "Turns that took over 5 ms."}),
    metric<[](const View& v) { return static_cast<double>(v.loop.turn_ns_max) * 1e-9; }>(
        {.name = "dlb_backend_loop_turn_max_seconds",
         .kind = kGauge,
         .unit = "seconds",
         .json = "loop.turn_max_seconds",
         .json_decimals = 6,
         .help = "Longest turn since start."}),
};

}  // namespace

std::span<const MetricRow> metric_rows() { return kRows; }

std::string metrics_prometheus(const MetricsView& view, std::string_view backend_id) {
  std::string out;
  out.reserve(16 * 1024);
  const std::string label = metric_label("backend", backend_id);
  append_prometheus(out, metric_rows(), view, label);
  append_prometheus(out, websocket_metric_rows(), view, label);
  append_prometheus(out, chat_metric_rows(), view, label);
  return out;
}

std::string metrics_json(const MetricsView& view, std::string_view backend_id) {
  std::string out;
  out.reserve(4 * 1024);
  JsonWriter json(out);
  json.begin_object().field("backend-id", backend_id);
  append_json_members(json, metric_rows(), view);
  append_json_members(json, websocket_metric_rows(), view);
  append_json_members(json, chat_metric_rows(), view);
  json.end_object();
  return out;
}

}  // namespace dlb::backend
