// The rows of what the chat counts; the others stand in metrics.cc and metrics_websocket.cc.
#include "backend/metrics.h"

namespace dlb::backend {
namespace {

using View = MetricsView;
constexpr MetricKind kGauge = MetricKind::Gauge;

constexpr MetricRow kRows[] = {
    metric<[](const View& v) { return v.chat_names; }>({.name = "dlb_backend_chat_names",
                                                        .kind = kGauge,
                                                        .json = "chat.names",
                                                        .help = "Names that are online here."}),
    metric<[](const View& v) { return v.chat_unverified; }>({.name = "dlb_backend_chat_unverified",
                                                             .kind = kGauge,
                                                             .json = "chat.unverified",
                                                             .help = "Signatures that wait to be verified."}),
    metric<[](const View& v) { return v.chat_parsed_keys; }>(
        {.name = "dlb_backend_chat_parsed_keys",
         .kind = kGauge,
         .json = "chat.parsed_keys",
         .help = "Sessions whose key is held ready: those that sent within ws-ping-interval."}),
    metric<[](const View& v) { return v.chat.registered; }>({.name = "dlb_backend_chat_registered_total",
                                                             .json = "chat.registered",
                                                             .help = "Sessions that registered."}),
    metric<[](const View& v) { return v.chat.register_errors; }>(
        {.name = "dlb_backend_chat_register_errors_total",
         .json = "chat.register_errors",
         .help = "Registrations that were refused."}),
    metric<[](const View& v) { return v.chat.messages; }>({.name = "dlb_backend_chat_messages_total",
                                                           .json = "chat.messages",
                                                           .help = "Messages that clients sent."}),
    metric<[](const View& v) { return v.chat.acks; }>(
        {.name = "dlb_backend_chat_acks_total", .json = "chat.acks", .help = "Of those, acknowledged."}),
    metric<[](const View& v) { return v.chat.errors; }>({.name = "dlb_backend_chat_errors_total",
                                                         .json = "chat.errors",
                                                         .help = "Errors that were answered, of all kinds."}),
    metric<[](const View& v) { return v.chat.rate_limited; }>({.name = "dlb_backend_chat_rate_limited_total",
                                                               .json = "chat.rate_limited",
                                                               .help = "Messages over ws-message-rate."}),
    metric<[](const View& v) { return v.chat.bad_signatures; }>(
        {.name = "dlb_backend_chat_bad_signatures_total",
         .json = "chat.bad_signatures",
         .help = "Signatures that did not hold."}),
    metric<[](const View& v) { return v.chat.verified; }>({.name = "dlb_backend_chat_verifications_total",
                                                           .json = "chat.verifications",
                                                           .help = "Signatures that were looked at."}),
    metric<[](const View& v) { return v.chat.verify_seconds_sum; }>(
        {.name = "dlb_backend_chat_verify_seconds_total",
         .unit = "seconds",
         .json = "chat.verify_seconds",
         .help = "Time spent on verifying."}),
    metric<[](const View& v) { return v.chat.broadcasts; }>({.name = "dlb_backend_chat_broadcasts_total",
                                                             .json = "chat.broadcasts",
                                                             .help = "New rows told to the sessions here."}),
    metric<[](const View& v) { return v.chat.broadcast_sends; }>(
        {.name = "dlb_backend_chat_broadcast_sends_total",
         .json = "chat.broadcast_sends",
         .help = "Of those, to sessions."}),
    metric<[](const View& v) { return v.chat.histories; }>({.name = "dlb_backend_chat_histories_total",
                                                            .json = "chat.histories",
                                                            .help = "History pages that were sent."}),
    metric<[](const View& v) { return v.chat.replays; }>({.name = "dlb_backend_chat_replays_total",
                                                          .json = "chat.replays",
                                                          .help = "Replays that were begun."}),
    metric<[](const View& v) { return v.chat.replay_rows; }>({.name = "dlb_backend_chat_replay_rows_total",
                                                              .json = "chat.replay_rows",
                                                              .help = "Rows that replays sent."}),
    metric<[](const View& v) { return v.chat.resets; }>(
        {.name = "dlb_backend_chat_resets_total",
         .json = "chat.resets",
         .help = "Resets: the table was truncated, or a client was ahead of it."}),
    metric<[](const View& v) { return v.store.pages_read; }>(
        {.name = "dlb_backend_chat_pages_read_total",
         .json = "chat.pages_read",
         .help = "Pages that were read below the feed cache."}),
};

}  // namespace

std::span<const MetricRow> chat_metric_rows() { return kRows; }

}  // namespace dlb::backend
