#include "lb/status_pages.h"

#include <unistd.h>

#include <algorithm>

#include "common/json_writer.h"
#include "lb/autoscale_options.h"
#include "lb/config_json.h"
#include "lb/dashboard.h"
#include "lb/event_snapshot.h"
#include "lb/score_view.h"

namespace dlb::lb {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

std::string_view overall(const StatusView& view) {
  if (view.draining) return "draining";
  return health_status(view) == 200 ? "ok" : "unavailable";
}

// Milliseconds since a moment on the monotonic line; null when it never came.
void write_age(JsonWriter& json, std::string_view name, std::int64_t at_ns, TimePoint now) {
  json.key(name);
  if (at_ns == 0) {
    json.null();
  } else {
    json.value(std::max<std::int64_t>(0, (now.time_since_epoch().count() - at_ns) / 1'000'000));
  }
}

void write_percent(JsonWriter& json, std::string_view name, const std::atomic<double>& percent) {
  const double value = percent.load(kRelaxed);
  json.key(name);
  if (value < 0) {
    json.null();
  } else {
    json.value(value, 1);
  }
}

void write_error(JsonWriter& json, const LastError::Entry& error) {
  json.key("last_error");
  if (error.text.empty()) {
    json.null();
  } else {
    json.begin_object()
        .field("text", error.text)
        .field("at", iso8601_utc(error.wall_us))
        .field("count", error.count);
    json.end_object();
  }
}

// Why it gets requests, or does not; the verdict of a message, without its connection.
std::string_view eligibility_of(const Backend& backend, const StatusView& view, double score) {
  BackendView axes;
  axes.draining = backend.taken_out();
  axes.healthy = backend.healthy.load(kRelaxed);
  axes.ejected = backend.ejected_until_ns.load(kRelaxed) > view.now.time_since_epoch().count();
  axes.resting = backend.resting.load(kRelaxed);
  axes.stalled = backend.stalled(view.now);
  axes.memory_blocked = backend.memory_blocked.load(kRelaxed);
  axes.weight = backend.weight.load(kRelaxed);
  axes.in_flight = backend.slots.taken();
  axes.slot_free = view.options.backend_cap == 0 || axes.in_flight < view.options.backend_cap;
  axes.connection_free = backend.connections.taken() < view.options.proxy_max_conns_per_host;
  axes.score = score;
  return eligibility_name(
      eligible(axes, view.options.policy_kind == PolicyKind::Score ? view.options.threshold : kNoThreshold));
}

void write_backend_health(JsonWriter& json, const Backend& backend, TimePoint now) {
  json.key("checks").begin_object();
  const HealthState active = backend.active_health.load(kRelaxed);
  json.field("state", active == HealthState::Up ? "up" : active == HealthState::Down ? "down" : "unknown");
  json.field("accepting", backend.accepting.load(kRelaxed));
  json.field("connect_failures_in_row", backend.connect_failures_in_row.load(kRelaxed));
  write_age(json, "age_ms", backend.checked_at_ns.load(kRelaxed), now);
  const std::int64_t took_us = backend.check_us.load(kRelaxed);
  json.key("took_ms");
  if (took_us < 0) {
    json.null();
  } else {
    json.value(static_cast<double>(took_us) / 1000, 3);
  }
  json.end_object();

  write_error(json, backend.last_error.get());
}

void write_ejection(JsonWriter& json, const Backend& backend, TimePoint now) {
  const std::int64_t until = backend.ejected_until_ns.load(kRelaxed);
  const std::int64_t left_ns = std::max<std::int64_t>(0, until - now.time_since_epoch().count());
  json.key("ejection").begin_object();
  json.field("ejected", left_ns > 0).field("left_ms", left_ns / 1'000'000);
  json.field("on_probation", until != 0 && left_ns == 0);
  json.field("times", backend.ejection.times.load(kRelaxed));
  json.field("failures_in_row", backend.ejection.failures_in_row.load(kRelaxed)).end_object();
}

void write_reloads(JsonWriter& json, const StatusView& view) {
  json.key("configuration").begin_object();
  json.field("generation", view.generation).field("loaded_at", iso8601_utc(view.configured_at_us));
  json.field("reloads", view.reloads == nullptr ? 0 : view.reloads->succeeded.load(kRelaxed));
  json.field("reloads_failed", view.reloads == nullptr ? 0 : view.reloads->failed.load(kRelaxed));
  json.field("settling", view.reloads != nullptr && view.reloads->settling.load(kRelaxed));
  write_error(json, view.reloads == nullptr ? LastError::Entry{} : view.reloads->last_error.get());
  json.end_object();
}

}  // namespace

LbTotals totals_of(const StatusView& view) {
  return LbTotals{.workers = view.workers,
                  .routers = view.routers,
                  .backends = view.backends,
                  .system = view.system,
                  .memory = view.memory,
                  .now = view.now,
                  .started = view.started,
                  .draining = view.draining,
                  .panic = in_panic(view.backends, view.options),
                  .log_suppressed = view.log_suppressed,
                  .log_dropped = view.log_dropped,
                  .access_log = view.access_log,
                  .certificates = view.certificates,
                  .ejections = view.ejections,
                  .reloads = view.reloads,
                  .generation = view.generation,
                  .configured_at_us = view.configured_at_us,
                  .admin = view.admin,
                  .events = view.events,
                  .autoscale = view.autoscale};
}

void write_overview(JsonWriter& json, const StatusView& view) {
  json.field("status", overall(view));
  json.field("version", DLB_VERSION);
  json.field("pid", static_cast<std::int64_t>(::getpid()));
  json.field("time", iso8601_utc(view.wall_us));
  json.field("uptime_seconds", seconds(view.now - view.started), 1);
  json.field("draining", view.draining).field("predecessor_drains", view.predecessor_drains);
  json.field("panic", in_panic(view.backends, view.options));
  json.field("policy", view.options.policy);
  json.field("threshold", view.options.threshold);
}

void write_backend(JsonWriter& json, const Backend& backend, const StatusView& view,
                   std::span<const MetricRow> counters) {
  const Score score = score_of(backend, view.options, view.now);
  json.begin_object();
  json.field("id", backend.id).field("url", backend.url);
  json.field("state", backend_state(backend, view.now));
  json.field("healthy", backend.healthy.load(kRelaxed));
  json.field("eligibility", eligibility_of(backend, view, score.total));
  json.field("in_flight", backend.slots.taken());
  json.field("weight", backend.weight.load(kRelaxed));
  json.field("score", score.total, 1);
  json.key("score_parts").begin_object();
  json.field("cpu", score.cpu, 1).field("in_flight", score.in_flight, 1).field("latency", score.latency, 1);
  json.field("stale_penalty", score.penalty, 1).end_object();
  json.field("latency_ms", read_latency(backend.latency_us, backend.latency_at_ns, view.now) / 1000, 3);

  const BackendReport& report = backend.report;
  write_percent(json, "cpu_percent", report.cpu_percent);
  json.key("memory").begin_object();
  write_percent(json, "unreclaimable_percent", report.unreclaimable_percent);
  write_percent(json, "working_set_percent", report.working_set_percent);
  write_percent(json, "total_percent", report.total_percent);
  json.field("blocked", backend.memory_blocked.load(kRelaxed)).end_object();
  json.field("statistics_stale", statistics_stale(backend, view.options, view.now));
  write_age(json, "statistics_age_ms", report.received_at_ns.load(kRelaxed), view.now);

  write_backend_health(json, backend, view.now);
  write_ejection(json, backend, view.now);
  const BackendFigures figures{backend, view.options, view.now};
  json.key("counters").begin_object();
  append_json_members(json, counters, figures);
  json.end_object().end_object();
}

void write_leaving(JsonWriter& json, const StatusView& view) {
  json.key("backends_leaving").begin_array();
  for (const auto& backend : view.backends) {
    const Membership membership = backend->membership.load(kRelaxed);
    if (membership == Membership::Member || (membership == Membership::Gone && backend->idle())) continue;
    json.begin_object().field("id", backend->id).field("url", backend->url);
    json.field("state", backend_state(*backend, view.now)).field("in_flight", backend->slots.taken());
    json.field("tunnels", backend->tunnels.taken()).end_object();
  }
  json.end_array();
}

int health_status(const StatusView& view) {
  if (view.draining) return 503;
  return totals_of(view).healthy_backends() > 0 ? 200 : 503;
}

std::string health_json(const StatusView& view) {
  std::string out;
  JsonWriter json(out);
  json.begin_object();
  json.field("status", overall(view));
  json.field("healthy_backends", totals_of(view).healthy_backends());
  json.field("backends", view.backends.members().size());
  json.field("panic", in_panic(view.backends, view.options));
  json.end_object();
  return out;
}

std::string status_json(const StatusView& view) {
  std::string out;
  JsonWriter json(out);
  json.begin_object();
  write_overview(json, view);
  json.field("memory_guard", guard_reason_name(view.memory.reason.load(kRelaxed)));
  json.key("backends").begin_array();
  for (const std::uint32_t index : view.backends.members())
    write_backend(json, view.backends.at(index), view, backend_counter_rows());
  json.end_array();
  write_leaving(json, view);
  write_reloads(json, view);
  write_tunnel_pools(json, view.pools, view.now);
  if (view.autoscale != nullptr)
    view.autoscale->write(json, view.options.autoscale.min, autoscale_most(view.options.autoscale));
  json.key("config");
  write_config_json(json, view.options);
  json.end_object();
  return out;
}

std::string backend_json(const StatusView& view, const Backend& backend) {
  std::string out;
  JsonWriter json(out);
  write_backend(json, backend, view, backend_counter_rows());
  out += '\n';
  return out;
}

std::string metrics_json(const StatusView& view) {
  std::string out;
  JsonWriter json(out);
  json.begin_object();
  append_json_members(json, lb_metric_rows(), totals_of(view));
  append_json_members(json, tunnel_metric_rows(), totals_of(view));
  append_json_members(json, tls_metric_rows(), totals_of(view));
  append_json_members(json, proxy_metric_rows(), totals_of(view));
  append_json_members(json, outlier_metric_rows(), totals_of(view));
  append_json_members(json, reload_metric_rows(), totals_of(view));
  append_json_members(json, admin_metric_rows(), totals_of(view));
  append_json_members(json, event_metric_rows(), totals_of(view));
  append_json_members(json, autoscale_metric_rows(), totals_of(view));
  json.key("backends").begin_array();
  for (const std::uint32_t index : view.backends.members()) {
    const Backend& backend = view.backends.at(index);
    const BackendFigures figures{backend, view.options, view.now};
    json.begin_object().field("id", backend.id).field("state", backend_state(backend, view.now));
    append_json_members(json, backend_metric_rows(), figures);
    json.end_object();
  }
  json.end_array();
  write_tunnel_pools(json, view.pools, view.now);
  json.end_object();
  return out;
}

std::string metrics_prometheus(const StatusView& view) {
  std::string out;
  append_prometheus(out, lb_metric_rows(), totals_of(view));
  append_prometheus(out, tunnel_metric_rows(), totals_of(view));
  append_prometheus(out, tls_metric_rows(), totals_of(view));
  append_prometheus(out, proxy_metric_rows(), totals_of(view));
  append_prometheus(out, outlier_metric_rows(), totals_of(view));
  append_prometheus(out, reload_metric_rows(), totals_of(view));
  append_prometheus(out, admin_metric_rows(), totals_of(view));
  append_prometheus(out, event_metric_rows(), totals_of(view));
  append_prometheus(out, autoscale_metric_rows(), totals_of(view));
  std::vector<BackendFigures> figures;
  figures.reserve(view.backends.members().size());
  std::vector<MetricSeries<BackendFigures>> series;
  for (const std::uint32_t index : view.backends.members()) {
    const Backend& backend = view.backends.at(index);
    figures.push_back({backend, view.options, view.now});
    series.push_back({metric_label("backend", backend.id), &figures.back()});
  }
  append_prometheus(out, backend_metric_rows(), std::span<const MetricSeries<BackendFigures>>(series));
  append_tunnel_pools(out, view.pools, view.now);
  return out;
}

bool wants_prometheus(std::string_view query, std::string_view accept) {
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    if (pair == "format=prometheus") return true;
    if (pair == "format=json") return false;
    query.remove_prefix(std::min(query.size(), pair.size() + 1));
  }
  if (accept.find("application/json") != std::string_view::npos) return false;
  if (accept.find("application/openmetrics-text") != std::string_view::npos) return true;
  const std::size_t plain = accept.find("text/plain");
  return plain != std::string_view::npos && accept.find("version=", plain) != std::string_view::npos;
}

StatusView StatusPages::view(const Configuration& configuration) const {
  return StatusView{.options = *configuration.options,
                    .backends = configuration.backends,
                    .workers = workers_,
                    .routers = routers_,
                    .system = system_,
                    .memory = memory_,
                    .pools = configuration.pools,
                    .now = monotonic_now(),
                    .wall_us = wall_now_us(),
                    .started = started_,
                    .draining = draining_.load(kRelaxed),
                    .log_suppressed = log_.suppressed(),
                    .log_dropped = log_.dropped(),
                    .access_log = access_log_,
                    .certificates = certificates_,
                    .ejections = ejections_,
                    .reloads = reloads_,
                    .generation = configuration.generation,
                    .configured_at_us = configuration.loaded_at_us,
                    .admin = admin_,
                    .events = events_,
                    .autoscale = autoscale_,
                    .predecessor_drains = predecessor_ != nullptr && predecessor_->alive()};
}

std::string StatusPages::render_backend(const Backend& backend) const {
  const auto configuration = configuration_.current();
  return backend_json(view(*configuration), backend);
}

std::string StatusPages::render_event() {
  const auto configuration = configuration_.current();
  return event_json(view(*configuration));
}

OwnPages::Page StatusPages::render(std::string_view path, std::string_view query, std::string_view accept) {
  const auto configuration = configuration_.current();
  const StatusView now = view(*configuration);
  Page page;
  page.status = 200;
  page.content_type = "application/json";
  page.extra = "Cache-Control: no-store\r\n";
  if (path == "/lb/health") {
    page.status = health_status(now);
    page.body = health_json(now);
    if (page.status == 503) page.extra += "Retry-After: 1\r\n";
  } else if (path == "/lb/status") {
    page.body = status_json(now);
  } else if (path == "/lb/metrics") {
    if (wants_prometheus(query, accept)) {
      page.content_type = kPrometheusContentType;
      page.body = metrics_prometheus(now);
    } else {
      page.body = metrics_json(now);
    }
  } else if (path == "/lb/dashboard") {
    page.content_type = "text/html; charset=utf-8";
    page.body = dashboard_page(DashboardActions::None);
    page.extra += "X-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\n";
    page.extra += dashboard_header_lines();
  } else {
    page.status = 404;
    page.body = R"({"error":"not_found","detail":"There is no such page of the balancer."})";
  }
  if (page.content_type == "application/json") page.body += '\n';
  return page;
}

}  // namespace dlb::lb
