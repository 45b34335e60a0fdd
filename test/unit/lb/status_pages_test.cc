#include "lb/status_pages.h"

#include <simdjson.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "common/option.h"
#include "lb/ctl_options.h"
#include "test/support/catch.h"

namespace dlb::lb {
namespace {

using namespace std::chrono_literals;
using Catch::Matchers::Contains;

constexpr TimePoint at(Duration since_start) { return TimePoint(1'000'000s + since_start); }

// Two backends, one worker, and a page of it all.
struct Scene {
  Scene() {
    for (const char* id : {"sys2", "sys\"3"}) {
      BackendOption backend;
      backend.id = id;
      backend.url = "http://127.0.0.1:6001";
      options.backends.push_back(backend);
    }
    backends = make_backend_set(options);
    router = std::make_unique<Router>(options, *backends, 1);
  }
  void set_healthy(std::uint32_t index) {
    backends->at(index).healthy = true;
    backends->at(index).accepting = true;
    backends->at(index).checked_at_ns = at(0s).time_since_epoch().count();
    backends->at(index).active_health = HealthState::Up;
  }
  StatusView view() {
    return StatusView{.options = options,
                      .backends = *backends,
                      .workers = workers,
                      .routers = routers,
                      .system = system,
                      .memory = memory,
                      .now = at(10s),
                      .wall_us = 1'789'000'000'000'000,
                      .started = at(0s),
                      .draining = draining,
                      .log_suppressed = 0,
                      .log_dropped = 0};
  }

  Options options;
  std::unique_ptr<BackendSet> backends;
  std::unique_ptr<Router> router;
  WorkerMetrics metrics;
  SystemSample system;
  MemoryState memory;
  bool draining = false;
  std::vector<const WorkerMetrics*> workers{&metrics};
  std::vector<const Router*> routers{};
};

// Parsed JSON that keeps its parser.
struct Json {
  explicit Json(const std::string& text) {
    CAPTURE(text);
    REQUIRE(parser.parse(simdjson::padded_string(text)).get(root) == simdjson::SUCCESS);
  }
  simdjson::dom::element at_pointer(const std::string& pointer) {
    CAPTURE(pointer);
    simdjson::dom::element out;
    REQUIRE(root.at_pointer(pointer).get(out) == simdjson::SUCCESS);
    return out;
  }
  double number(const std::string& pointer) {
    double out = 0;
    CAPTURE(pointer);
    REQUIRE(at_pointer(pointer).get(out) == simdjson::SUCCESS);
    return out;
  }
  std::string text(const std::string& pointer) {
    std::string_view out;
    CAPTURE(pointer);
    REQUIRE(at_pointer(pointer).get(out) == simdjson::SUCCESS);
    return std::string(out);
  }
  bool flag(const std::string& pointer) {
    bool out = false;
    CAPTURE(pointer);
    REQUIRE(at_pointer(pointer).get(out) == simdjson::SUCCESS);
    return out;
  }
  simdjson::dom::parser parser;
  simdjson::dom::element root;
};

TEST_CASE("/lb/health is 200 with a healthy backend in service, else 503") {
  Scene scene;
  CHECK(health_status(scene.view()) == 503);
  scene.set_healthy(1);
  CHECK(health_status(scene.view()) == 200);
  CHECK(Json(health_json(scene.view())).number("/healthy_backends") == 1);
  scene.backends->at(1).reported_draining = true;
  CHECK(health_status(scene.view()) == 503);
  scene.backends->at(1).reported_draining = false;
  scene.draining = true;
  CHECK(health_status(scene.view()) == 503);
  CHECK(Json(health_json(scene.view())).text("/status") == "draining");
}

TEST_CASE("panic shows when all fail their checks and one still accepts connections") {
  Scene scene;
  CHECK_FALSE(in_panic(*scene.backends, scene.options));
  scene.backends->at(0).accepting = true;
  CHECK(in_panic(*scene.backends, scene.options));
  CHECK(Json(status_json(scene.view())).flag("/panic"));
  scene.set_healthy(1);
  CHECK_FALSE(in_panic(*scene.backends, scene.options));
  scene.backends->at(1).reported_draining = true;  // taken out on purpose: not what saves the pool
  CHECK(in_panic(*scene.backends, scene.options));
  scene.options.panic_fallback = false;
  CHECK_FALSE(in_panic(*scene.backends, scene.options));
}

TEST_CASE(
    "/lb/status lists backends with state, parts of the score, age of statistics, last error, "
    "configuration") {
  Scene scene;
  scene.set_healthy(0);
  Backend& backend = scene.backends->at(0);
  REQUIRE(backend.slots.try_reserve(0));
  REQUIRE(backend.slots.try_reserve(0));
  backend.report.cpu_percent = 40;
  backend.report.unreclaimable_percent = 12.5;
  backend.report.received_at_ns = at(9800ms).time_since_epoch().count();
  backend.last_error.set("connect 127.0.0.1:6001: refused", 1'789'000'000'000'000);
  backend.counters.requests = 17;

  Json status(status_json(scene.view()));
  CHECK(status.text("/backends/0/id") == "sys2");
  CHECK(status.text("/backends/1/id") == "sys\"3");
  CHECK(status.text("/backends/0/state") == "ready");
  CHECK(status.text("/backends/1/state") == "starting");
  CHECK(status.flag("/backends/0/healthy"));
  CHECK(status.at_pointer("/backends/0/in_flight").is_int64());
  CHECK(status.number("/backends/0/in_flight") == 2);
  CHECK(status.number("/backends/0/score") == Approx(0.25 * 40 + 0.45 * 2).margin(0.05));
  CHECK(status.number("/backends/0/score_parts/cpu") == 40);
  CHECK(status.number("/backends/0/score_parts/in_flight") == 2);
  CHECK(status.number("/backends/0/statistics_age_ms") == 200);
  CHECK(status.at_pointer("/backends/1/statistics_age_ms").is_null());
  CHECK(status.flag("/backends/1/statistics_stale"));
  CHECK(status.text("/backends/0/last_error/text") == "connect 127.0.0.1:6001: refused");
  CHECK(status.at_pointer("/backends/1/last_error").is_null());
  CHECK(status.number("/backends/0/memory/unreclaimable_percent") == 12.5);
  CHECK(status.number("/backends/0/counters/requests") == 17);
  CHECK(status.text("/backends/0/eligibility") == "eligible");
  CHECK(status.number("/config/threshold") == 75);
  CHECK(status.text("/config/backend-timeout") == "15s");
  CHECK(status.text("/config/backend/0/id") == "sys2");
  CHECK(status.text("/config/feed-paths/0") == "/feed");

  for (std::uint32_t i = 0; i < kStallExchanges; ++i) backend.heads.asked(at(9s));
  Json later(status_json(scene.view()));
  CHECK(later.text("/backends/0/state") == "stalled");
  CHECK(later.text("/backends/0/eligibility") == "ejected");
}

TEST_CASE("backend states by precedence of their axes") {
  Scene scene;
  Backend& backend = scene.backends->at(0);
  CHECK(backend_state(backend, at(10s)) == "starting");
  backend.checked_at_ns = 1;
  CHECK(backend_state(backend, at(10s)) == "down");
  backend.healthy = true;
  CHECK(backend_state(backend, at(10s)) == "ready");
  backend.memory_blocked = true;
  CHECK(backend_state(backend, at(10s)) == "memory");
  backend.ejected_until_ns = at(11s).time_since_epoch().count();
  CHECK(backend_state(backend, at(10s)) == "ejected");
  CHECK(backend_state(backend, at(12s)) == "memory");
  backend.memory_blocked = false;
  CHECK(backend_state(backend, at(12s)) == "probation");
  backend.reported_draining = true;
  CHECK(backend_state(backend, at(10s)) == "draining");
  backend.admin = AdminState::Maintenance;
  CHECK(backend_state(backend, at(10s)) == "maintenance");
}

TEST_CASE("/lb/metrics adds up the workers") {
  Scene scene;
  WorkerMetrics second(2);
  scene.workers.push_back(&second);
  scene.metrics.requests_total.add(3);
  second.requests_total.add(4);
  second.requests_success.add(4);
  second.queue_timeouts.add();
  second.count_answer(503);
  scene.routers.push_back(scene.router.get());
  for (int i = 1; i <= 100; ++i) scene.metrics.finished(at(5s), i * 1ms);
  WorkerMetrics::record(second.feed_body_us, 2ms);
  scene.backends->at(1).counters.probes_skipped = 5;

  Json json(metrics_json(scene.view()));
  CHECK(json.number("/requests/total") == 7);
  CHECK(json.number("/requests/success") == 4);
  CHECK(json.number("/requests/failed") == 0);
  CHECK(json.number("/rejections/queue_timeout") == 1);
  CHECK(json.number("/own_responses/503") == 1);
  CHECK(json.number("/latency_ms/p50") == Approx(50).margin(1));
  CHECK(json.number("/latency_ms/p99") == Approx(99).margin(1));
  CHECK(json.number("/feed/body_ms/p50") == Approx(2));
  CHECK(json.number("/throughput_rps") == Approx(10));
  CHECK(json.number("/health/probes_skipped") == 5);
  CHECK(json.number("/backends/1/probes/skipped") == 5);
  CHECK(json.text("/backends/0/id") == "sys2");
  json.at_pointer("/sys1/cpu_percent");
  json.at_pointer("/sys1/load_1m");
}

TEST_CASE("the Prometheus text has every backend as a label, escaped") {
  Scene scene;
  scene.metrics.requests_total.add(7);
  const std::string text = metrics_prometheus(scene.view());
  CHECK_THAT(text, Contains("# TYPE dlb_requests_total counter\n") && Contains("\ndlb_requests_total 7\n"));
  CHECK_THAT(text, Contains("dlb_backend_healthy{backend=\"sys2\"} 0\n"));
  CHECK_THAT(text, Contains("dlb_backend_healthy{backend=\"sys\\\"3\"} 0\n"));
  CHECK_THAT(text, Contains("dlb_rejections_total{reason=\"queue_timeout\"} 0\n"));
}

TEST_CASE("every row keeps the naming rules") {
  CHECK(metric_row_faults(lb_metric_rows()) == std::vector<std::string>{});
  CHECK(metric_row_faults(tunnel_metric_rows()) == std::vector<std::string>{});
  CHECK(metric_row_faults(tunnel_backend_metric_rows()) == std::vector<std::string>{});
  CHECK(metric_row_faults(tls_metric_rows()) == std::vector<std::string>{});
  CHECK(metric_row_faults(proxy_metric_rows()) == std::vector<std::string>{});
  CHECK(metric_row_faults(outlier_metric_rows()) == std::vector<std::string>{});
  CHECK(metric_row_faults(admin_metric_rows()) == std::vector<std::string>{});
  CHECK(metric_row_faults(event_metric_rows()) == std::vector<std::string>{});
  CHECK(metric_row_faults(backend_metric_rows()) == std::vector<std::string>{});
}

// The tables in README.md are the rows, word by word.
TEST_CASE("lb/README.md has every metric and option as declared") {
  std::ifstream file("lb/README.md");
  const std::string readme((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  REQUIRE(readme.size() > 1000);
  CHECK_THAT(readme, Contains(metrics_markdown(lb_metric_rows())));
  CHECK_THAT(readme, Contains(metrics_markdown(tunnel_metric_rows())));
  CHECK_THAT(readme, Contains(metrics_markdown(tunnel_backend_metric_rows(), "listener, backend")));
  CHECK_THAT(readme, Contains(metrics_markdown(tls_metric_rows())));
  CHECK_THAT(readme, Contains(metrics_markdown(proxy_metric_rows())));
  CHECK_THAT(readme, Contains(metrics_markdown(outlier_metric_rows())));
  CHECK_THAT(readme, Contains(metrics_markdown(admin_metric_rows())));
  CHECK_THAT(readme, Contains(metrics_markdown(event_metric_rows())));
  CHECK_THAT(readme, Contains(metrics_markdown(backend_metric_rows(), "backend")));
  const char* argv[] = {"lb", "--help-markdown"};
  const char* environment[] = {nullptr};
  Options options;
  const auto loaded = load_options(kOptionTable, options, 2, argv, environment);
  REQUIRE(loaded);
  CHECK_THAT(readme, Contains(loaded->help));
  CtlOptions ctl;
  const auto ctl_loaded = load_options(kCtlOptionTable, ctl, 2, argv, environment);
  REQUIRE(ctl_loaded);
  CHECK_THAT(readme, Contains(ctl_loaded->help));
}

TEST_CASE("the format of /lb/metrics by query, then by Accept") {
  CHECK(wants_prometheus("format=prometheus", ""));
  CHECK(wants_prometheus("a=b&format=prometheus", "application/json"));
  CHECK_FALSE(wants_prometheus("format=json", "text/plain;version=0.0.4"));
  CHECK(wants_prometheus("", "text/plain;version=0.0.4"));
  CHECK(wants_prometheus(
      "", "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"));
  CHECK_FALSE(wants_prometheus("", "text/plain"));
  CHECK_FALSE(wants_prometheus("", "*/*"));
  CHECK_FALSE(wants_prometheus("", ""));
}

TEST_CASE("pages by path") {
  Scene scene;
  Log log(LogConfig{.fd = -1});
  ConfigurationStore configuration(std::make_shared<const Configuration>(
      Configuration{.options = std::make_shared<const Options>(scene.options), .backends = *scene.backends}));
  StatusPages pages(configuration, scene.system, scene.memory, log);
  pages.add_worker(scene.metrics, *scene.router);
  CHECK(pages.render("/lb/health", "", "").status == 503);
  scene.set_healthy(0);
  CHECK(pages.render("/lb/health", "", "").status == 200);
  CHECK(pages.render("/lb/status", "", "").content_type == "application/json");
  CHECK(pages.render("/lb/metrics", "format=prometheus", "").content_type == kPrometheusContentType);
  CHECK(pages.render("/lb/nothing", "", "").status == 404);
  pages.set_draining();
  CHECK(pages.render("/lb/health", "", "").status == 503);
}

}  // namespace
}  // namespace dlb::lb
