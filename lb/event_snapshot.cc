#include "lb/event_snapshot.h"

#include <unistd.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "common/json_writer.h"

namespace dlb::lb {
namespace {

// The rows whose place in JSON begins with one of `places`.
std::vector<MetricRow> rows_at(std::span<const MetricRow> rows,
                               std::initializer_list<std::string_view> places) {
  std::vector<MetricRow> out;
  std::ranges::copy_if(rows, std::back_inserter(out), [&](const MetricRow& row) {
    return std::ranges::any_of(places,
                               [&](std::string_view place) { return row.spec.json.starts_with(place); });
  });
  return out;
}

}  // namespace

std::string event_json(const StatusView& view) {
  static const std::vector<MetricRow> lb_rows =
      rows_at(lb_metric_rows(),
              {"requests.", "throughput_rps", "latency_ms", "routing.", "backend_errors.", "queue.waiting",
               "rejections.", "connections.client.accepted", "connections.client.limit", "feed.requests",
               "memory_guard.", "sys1.cpu", "sys1.rss", "sys1.memory.", "sys1.load_1m"});
  static const std::vector<MetricRow> ejection_rows = rows_at(outlier_metric_rows(), {"ejections."});
  static const std::vector<MetricRow> backend_rows = rows_at(
      backend_counter_rows(), {"requests", "responses.", "failures.", "retried_away", "ejection.total",
                               "connections.tunnels", "health_changes", "drain_cuts"});
  std::string out;
  JsonWriter json(out);
  json.begin_object();
  write_overview(json, view);
  json.field("memory_guard_reason", guard_reason_name(view.memory.reason.load(std::memory_order_relaxed)));
  json.field("backend_cap", view.options.backend_cap).field("max_inflight", view.options.max_inflight);
  json.field("max_memory", view.options.max_memory).field("lb_max_memory", view.options.lb_max_memory);
  json.field("generation", view.generation);
  const LbTotals totals = totals_of(view);
  append_json_members(json, lb_rows, totals);
  append_json_members(json, ejection_rows, totals);
  json.key("backends").begin_array();
  for (const std::uint32_t index : view.backends.members())
    write_backend(json, view.backends.at(index), view, backend_rows);
  json.end_array();
  write_leaving(json, view);
  json.end_object();
  return out;
}

}  // namespace dlb::lb
