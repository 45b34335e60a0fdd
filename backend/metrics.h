// What the backend counts, as rows: /metrics in Prometheus text and JSON, and the README table, are rendered
// from them. A MetricsView is gathered per request from the parts that own the counts. Loop thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "backend/chat_room.h"
#include "backend/http_api.h"
#include "backend/internal_stats.h"
#include "backend/message_store.h"
#include "common/event_loop.h"
#include "common/http_server.h"
#include "common/metric.h"
#include "common/process_stats.h"
#include "common/ws_server.h"

namespace dlb::backend {

struct MetricsView {
  const HttpApiCounters& api;
  HttpServerCounters http;  // of all ports
  WsServerCounters ws;
  const EventLoopCounters& loop;
  const ResourceSample& resources;
  MessageStoreStats store;
  ProcessStats process;
  std::uint64_t in_flight = 0;
  std::uint64_t connections = 0;
  std::uint64_t gzip_plain_bytes = 0;  // compressed so far, before compression
  std::uint64_t gzip_kept_bytes = 0;
  ChatCounters chat{};
  std::uint64_t chat_names = 0;
  std::uint64_t chat_unverified = 0;
  std::uint64_t chat_parsed_keys = 0;
  std::uint64_t ws_open = 0;
  std::uint64_t ws_closing = 0;
  std::uint64_t ws_collected_bytes = 0;
  bool draining = false;
  double uptime_seconds = 0;
};

std::span<const MetricRow> metric_rows();
std::span<const MetricRow> websocket_metric_rows();
std::span<const MetricRow> chat_metric_rows();

// `backend_id` becomes the label `backend`.
std::string metrics_prometheus(const MetricsView& view, std::string_view backend_id);
std::string metrics_json(const MetricsView& view, std::string_view backend_id);

}  // namespace dlb::backend
