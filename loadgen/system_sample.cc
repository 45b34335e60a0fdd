#include "loadgen/system_sample.h"

#include <simdjson.h>

#include <algorithm>
#include <cmath>

#include "loadgen/chat_text.h"
#include "loadgen/csv.h"

namespace dlb::loadgen {
namespace {

constexpr std::array<SystemColumn, kFigures> kColumns = {{
    {.name = "cpu_percent",
     .decimals = 1,
     .unit = "percent",
     .balancer = "/sys1/cpu_percent",
     .stats = "/cpu_percent",
     .view = "/cpu_percent"},
    {.name = "process_cpu_percent", .decimals = 1, .unit = "percent"},
    {.name = "process_cpu_seconds_total",
     .decimals = 3,
     .unit = "seconds",
     .balancer = "/sys1/process_cpu_seconds",
     .metrics = "/process/cpu_seconds"},
    {.name = "rss_bytes", .unit = "bytes", .balancer = "/sys1/rss_bytes", .stats = "/memory/rss_bytes"},
    {.name = "memory_total_bytes",
     .unit = "bytes",
     .balancer = "/sys1/memory/total_bytes",
     .stats = "/memory/total_bytes"},
    {.name = "memory_working_set_bytes",
     .unit = "bytes",
     .balancer = "/sys1/memory/working_set_bytes",
     .stats = "/memory/working_set_bytes"},
    {.name = "memory_unreclaimable_bytes",
     .unit = "bytes",
     .balancer = "/sys1/memory/unreclaimable_bytes",
     .stats = "/memory/unreclaimable_bytes"},
    {.name = "memory_limit_bytes",
     .unit = "bytes",
     .balancer = "/sys1/memory/limit_bytes",
     .stats = "/memory/limit_bytes"},
    {.name = "memory_total_percent",
     .decimals = 1,
     .unit = "percent",
     .balancer = "/sys1/memory/total_percent",
     .stats = "/memory/total_percent",
     .view = "/memory/total_percent"},
    {.name = "memory_working_set_percent",
     .decimals = 1,
     .unit = "percent",
     .balancer = "/sys1/memory/working_set_percent",
     .stats = "/memory/working_set_percent",
     .view = "/memory/working_set_percent"},
    {.name = "memory_unreclaimable_percent",
     .decimals = 1,
     .unit = "percent",
     .balancer = "/sys1/memory/unreclaimable_percent",
     .stats = "/memory/unreclaimable_percent",
     .view = "/memory/unreclaimable_percent"},
    {.name = "socket_bytes",
     .unit = "bytes",
     .balancer = "/memory_guard/socket_bytes",
     .stats = "/memory/sock_bytes"},
    {.name = "load_1m", .decimals = 2, .unit = "", .balancer = "/sys1/load_1m"},
    {.name = "score", .decimals = 1, .unit = "points", .view = "/score", .view_is_ours = true},
    {.name = "latency_ms", .decimals = 3, .unit = "ms", .view = "/latency_ms", .view_is_ours = true},
    {.name = "active_requests",
     .unit = "requests",
     .balancer = "/requests/in_progress",
     .stats = "/requests/in_flight",
     .view = "/in_flight"},
    {.name = "balancer_in_flight", .unit = "requests", .view = "/in_flight", .view_is_ours = true},
    {.name = "requests_total",
     .unit = "requests",
     .balancer = "/requests/total",
     .stats = "/requests/total",
     .view = "/requests"},
    {.name = "connections_open",
     .unit = "connections",
     .balancer = "/connections/client/active",
     .metrics = "/connections/open"},
    {.name = "connections_idle", .unit = "connections", .balancer = "/connections/client/idle"},
    {.name = "pool_busy",
     .unit = "connections",
     .balancer = "/connections/upstream/busy",
     .view = "/connections/busy",
     .view_is_ours = true},
    {.name = "pool_idle", .unit = "connections", .balancer = "/connections/upstream/idle"},
    {.name = "pool_feed_busy",
     .unit = "connections",
     .balancer = "/connections/upstream/feed_busy",
     .view = "/connections/feed_busy",
     .view_is_ours = true},
    {.name = "pool_feed_idle", .unit = "connections", .balancer = "/connections/upstream/feed_idle"},
    {.name = "pool_opened_total",
     .unit = "connections",
     .balancer = "/connections/upstream/opened",
     .view = "/connections/opened",
     .view_is_ours = true},
    {.name = "queue_waiting",
     .unit = "requests, rows",
     .balancer = "/queue/waiting",
     .stats = "/write_queue/queued"},
    {.name = "queue_bytes", .unit = "bytes", .stats = "/write_queue/queued_bytes"},
    {.name = "queue_full_total",
     .unit = "requests",
     .balancer = "/rejections/queue_full",
     .stats = "/write_queue/full"},
    {.name = "queue_timeouts_total",
     .unit = "requests",
     .balancer = "/rejections/queue_timeout",
     .stats = "/write_queue/timeouts"},
    {.name = "batches_in_flight", .unit = "batches", .stats = "/write_queue/batches_in_flight"},
    {.name = "batches_total", .unit = "batches", .stats = "/write_queue/batches"},
    {.name = "batch_rows_total", .unit = "rows", .stats = "/write_queue/rows"},
    {.name = "feed_requests_total",
     .unit = "requests",
     .balancer = "/feed/requests",
     .metrics = "/requests/feed"},
    {.name = "feed_refreshes_total", .unit = "", .stats = "/feed_cache/refreshes"},
    {.name = "feed_refresh_seconds_total",
     .decimals = 6,
     .unit = "seconds",
     .metrics = "/feed_cache/refresh_seconds"},
    {.name = "cache_rows", .unit = "rows", .stats = "/feed_cache/rows"},
    {.name = "cache_bytes", .unit = "bytes", .stats = "/feed_cache/bytes"},
    {.name = "cache_chunks", .unit = "chunks", .stats = "/feed_cache/chunks"},
    {.name = "ws_sessions", .unit = "sessions", .balancer = "/tunnels/active/wss", .stats = "/ws/sessions"},
    {.name = "healthy_backends", .unit = "backends", .balancer = "/health/healthy_backends"},
    {.name = "fallbacks_total", .unit = "requests", .balancer = "/routing/fallbacks"},
    {.name = "retries_total", .unit = "requests", .balancer = "/routing/retries"},
    {.name = "backend_errors_total", .unit = "requests", .balancer = "/backend_errors/total"},
    {.name = "guard_events_total", .unit = "", .balancer = "/memory_guard/events"},
    {.name = "rejected_memory_total", .unit = "requests", .balancer = "/rejections/memory_guard"},
    {.name = "rejected_connections_total", .unit = "connections", .balancer = "/rejections/connections"},
    {.name = "uptime_seconds",
     .decimals = 1,
     .unit = "seconds",
     .balancer = "/uptime_seconds",
     .metrics = "/uptime_seconds"},
}};
static_assert(kColumns[static_cast<std::size_t>(Figure::UptimeSeconds)].name == "uptime_seconds");
static_assert(kColumns[static_cast<std::size_t>(Figure::Score)].name == "score");

// What is below 0 is not known there.
double number_at(simdjson::dom::element root, std::string_view pointer) {
  double value = 0;
  if (root.at_pointer(pointer).get(value) != simdjson::SUCCESS || !std::isfinite(value) || value < 0) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  return value;
}

void fill(simdjson::dom::element root, std::string_view SystemColumn::*from, Figures& figures) {
  for (std::size_t i = 0; i < kFigures; ++i) {
    if (!(kColumns[i].*from).empty() && std::isnan(figures[i])) {
      figures[i] = number_at(root, kColumns[i].*from);
    }
  }
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

std::span<const SystemColumn, kFigures> system_columns() { return kColumns; }

Figures unknown_figures() {
  Figures figures;
  figures.fill(std::numeric_limits<double>::quiet_NaN());
  return figures;
}

double process_cpu_percent(const Figures& before, const Figures& after, Duration between) {
  const double used = at(after, Figure::ProcessCpuSeconds) - at(before, Figure::ProcessCpuSeconds);
  const bool known = std::isfinite(used) && used >= 0 && between >= kLeastCpuTime;
  return known ? 100 * used / seconds(between) : std::numeric_limits<double>::quiet_NaN();
}

struct SystemReader::Impl {
  bool parse(std::string_view body, simdjson::dom::element& root) {
    return parser.parse(simdjson::padded_string(body)).get(root) == simdjson::SUCCESS && root.is_object();
  }
  simdjson::dom::parser parser;
};

SystemReader::SystemReader() : impl_(std::make_unique<Impl>()) {}
SystemReader::~SystemReader() = default;

bool SystemReader::status(std::string_view body, std::vector<BackendPlace>& backends) {
  simdjson::dom::element root;
  simdjson::dom::array list;
  std::string_view policy;
  if (!impl_->parse(body, root) || root["backends"].get(list) != simdjson::SUCCESS ||
      root["policy"].get(policy) != simdjson::SUCCESS) {
    return false;
  }
  for (const simdjson::dom::element backend : list) {
    std::string_view id;
    std::string_view url;
    if (backend["id"].get(id) != simdjson::SUCCESS || backend["url"].get(url) != simdjson::SUCCESS) continue;
    backends.push_back({escape_for_terminal(id), escape_for_terminal(url)});
  }
  return true;
}

bool SystemReader::balancer(std::string_view body, Figures& figures, std::vector<BackendView>& views) {
  simdjson::dom::element root;
  simdjson::dom::element sys1;
  if (!impl_->parse(body, root) || root["sys1"].get(sys1) != simdjson::SUCCESS) return false;
  fill(root, &SystemColumn::balancer, figures);
  simdjson::dom::array list;
  if (root["backends"].get(list) != simdjson::SUCCESS) return true;
  for (const simdjson::dom::element backend : list) {
    std::string_view id;
    if (backend["id"].get(id) != simdjson::SUCCESS) continue;
    BackendView view{escape_for_terminal(id), unknown_figures()};
    fill(backend, &SystemColumn::view, view.figures);
    views.push_back(std::move(view));
  }
  return true;
}

bool SystemReader::stats(std::string_view body, Figures& figures, std::string& backend_id) {
  simdjson::dom::element root;
  std::string_view id;
  if (!impl_->parse(body, root) || root["backend-id"].get(id) != simdjson::SUCCESS) return false;
  backend_id = escape_for_terminal(id);
  fill(root, &SystemColumn::stats, figures);
  return true;
}

bool SystemReader::metrics(std::string_view body, Figures& figures) {
  simdjson::dom::element root;
  simdjson::dom::element process;
  if (!impl_->parse(body, root) || root["process"].get(process) != simdjson::SUCCESS) return false;
  fill(root, &SystemColumn::metrics, figures);
  return true;
}

void add_view(Figures& figures, const Figures& view, bool asked) {
  for (std::size_t i = 0; i < kFigures; ++i) {
    if (std::isnan(figures[i]) && (!asked || kColumns[i].view_is_ours)) figures[i] = view[i];
  }
}

bool natural_less(std::string_view a, std::string_view b) {
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size() && j < b.size()) {
    if (!is_digit(a[i]) || !is_digit(b[j])) {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i;
      ++j;
      continue;
    }
    const std::size_t a_end = std::min(a.find_first_not_of("0123456789", i), a.size());
    const std::size_t b_end = std::min(b.find_first_not_of("0123456789", j), b.size());
    std::string_view x = a.substr(i, a_end - i);
    std::string_view y = b.substr(j, b_end - j);
    x.remove_prefix(std::min(x.find_first_not_of('0'), x.size()));
    y.remove_prefix(std::min(y.find_first_not_of('0'), y.size()));
    if (x.size() != y.size()) return x.size() < y.size();
    if (x != y) return x < y;
    i = a_end;
    j = b_end;
  }
  if (a.size() - i != b.size() - j) return a.size() - i < b.size() - j;
  return a < b;
}

std::string metrics_csv_header() {
  std::string text = "schema,time,elapsed_seconds,stage,system,id,source";
  for (const SystemColumn& column : kColumns) {
    text += ",";
    text += column.name;
  }
  return text + "\n";
}

std::string metrics_csv_row(const MetricsRow& row) {
  std::string text;
  CsvRow csv(text);
  csv.number(std::int64_t{kMetricsSchema}).text(iso8601_utc(row.wall_us)).number(row.elapsed_seconds, 3);
  csv.text(row.stage).text(row.name).text(row.id).text(row.source);
  for (std::size_t i = 0; i < kFigures; ++i) csv.number((*row.figures)[i], kColumns[i].decimals);
  csv.end();
  return text;
}

}  // namespace dlb::loadgen
