#include "common/metric.h"

#include "test/support/catch.h"

using namespace dlb;

namespace {

struct Counters {
  std::atomic<std::uint64_t> requests{3};
  std::uint64_t failed = 1;
  std::int64_t delta = -4;
  double ratio = 0.5;
  bool healthy = true;
  SampleWindow latency{100};
  Histogram histogram;
  Quantiles latency_quantiles() const { return latency.quantiles(); }
};

constexpr MetricRow kRows[] = {
    metric<&Counters::requests>(
        {.name = "dlb_requests_total", .labels = "class=\"2xx\"", .json = "requests.total", .help = "All."}),
    metric<&Counters::failed>(
        {.name = "dlb_requests_total", .labels = "class=\"5xx\"", .json = "requests.failed", .help = "All."}),
    metric<&Counters::delta>(
        {.name = "dlb_delta", .kind = MetricKind::Gauge, .json = "requests.more.delta", .help = "Signed."}),
    metric<&Counters::ratio>({.name = "dlb_ratio",
                              .kind = MetricKind::Gauge,
                              .json = "ratio_percent",
                              .json_scale = 100,
                              .json_decimals = 1,
                              .help = "Ratio."}),
    metric<&Counters::healthy>(
        {.name = "dlb_healthy", .kind = MetricKind::Gauge, .json = "healthy", .help = "Up."}),
    metric<[](const Counters& c) { return c.failed * 2; }>(
        {.name = "", .json = "twice", .help = "JSON only."}),
    metric<&Counters::latency_quantiles>({.name = "dlb_latency_seconds",
                                          .kind = MetricKind::Summary,
                                          .unit = "seconds",
                                          .json = "latency_ms",
                                          .json_scale = 1000,
                                          .json_decimals = 2,
                                          .help = "Latency."}),
};
constexpr MetricRow kHistogramRows[] = {
    metric<&Counters::histogram>(
        {.name = "dlb_wait_seconds", .kind = MetricKind::Histogram, .unit = "seconds", .help = "Wait."}),
};

}  // namespace

TEST_CASE("rows render as Prometheus text", "[metric]") {
  const auto c = std::make_unique<Counters>();
  for (int i = 1; i <= 100; ++i) c->latency.record(i * 0.5);
  std::string out;
  append_prometheus(out, kRows, *c);
  CHECK(out ==
        "# HELP dlb_requests_total All.\n# TYPE dlb_requests_total counter\n"
        "dlb_requests_total{class=\"2xx\"} 3\ndlb_requests_total{class=\"5xx\"} 1\n"
        "# HELP dlb_delta Signed.\n# TYPE dlb_delta gauge\ndlb_delta -4\n"
        "# HELP dlb_ratio Ratio.\n# TYPE dlb_ratio gauge\ndlb_ratio 0.5\n"
        "# HELP dlb_healthy Up.\n# TYPE dlb_healthy gauge\ndlb_healthy 1\n"
        "# HELP dlb_latency_seconds Latency.\n# TYPE dlb_latency_seconds summary\n"
        "dlb_latency_seconds{quantile=\"0.5\"} 25\ndlb_latency_seconds{quantile=\"0.95\"} 47.5\n"
        "dlb_latency_seconds{quantile=\"0.99\"} 49.5\ndlb_latency_seconds_sum "
        "2525\ndlb_latency_seconds_count 100\n");
}

TEST_CASE("labelled series stand together under one head", "[metric]") {
  const auto a = std::make_unique<Counters>();
  const auto b = std::make_unique<Counters>();
  b->requests = 9;
  const MetricSeries<Counters> series[] = {{metric_label("backend", "a"), a.get()},
                                           {metric_label("backend", "b"), b.get()}};
  std::string out;
  append_prometheus<Counters>(out, std::span(kRows).first(1), series);
  CHECK(out ==
        "# HELP dlb_requests_total All.\n# TYPE dlb_requests_total counter\n"
        "dlb_requests_total{backend=\"a\",class=\"2xx\"} 3\ndlb_requests_total{backend=\"b\",class=\"2xx\"} "
        "9\n");
}

TEST_CASE("no series, no head", "[metric]") {
  std::string out;
  append_prometheus<Counters>(out, kRows, std::span<const MetricSeries<Counters>>());
  CHECK(out.empty());
}

TEST_CASE("a histogram renders cumulative buckets in seconds", "[metric]") {
  const auto c = std::make_unique<Counters>();
  c->histogram.record(700);
  c->histogram.record(40'000);
  c->histogram.record(100'000'000);
  std::string out;
  append_prometheus(out, kHistogramRows, *c);
  CHECK(out.find("dlb_wait_seconds_bucket{le=\"0.0005\"} 0\n") != std::string::npos);
  CHECK(out.find("dlb_wait_seconds_bucket{le=\"0.001\"} 1\n") != std::string::npos);
  CHECK(out.find("dlb_wait_seconds_bucket{le=\"0.05\"} 2\n") != std::string::npos);
  CHECK(out.find("dlb_wait_seconds_bucket{le=\"30\"} 2\n") != std::string::npos);
  CHECK(out.find("dlb_wait_seconds_bucket{le=\"+Inf\"} 3\n") != std::string::npos);
  CHECK(out.find("dlb_wait_seconds_sum 100.0407\n") != std::string::npos);
  CHECK(out.find("dlb_wait_seconds_count 3\n") != std::string::npos);
}

TEST_CASE("rows render as nested JSON", "[metric]") {
  const auto c = std::make_unique<Counters>();
  c->latency.record(0.25);
  std::string out;
  JsonWriter json(out);
  json.begin_object();
  append_json_members(json, kRows, *c);
  json.end_object();
  CHECK(
      out ==
      R"({"requests":{"total":3,"failed":1,"more":{"delta":-4}},"ratio_percent":50.0,"healthy":true,"twice":2,)"
      R"("latency_ms":{"count":1,"mean":250.00,"p50":250.00,"p95":250.00,"p99":250.00,"max":250.00}})");
}

TEST_CASE("label values are escaped", "[metric]") {
  CHECK(metric_label("a", "x\"y\\z\nw") == "a=\"x\\\"y\\\\z\\nw\"");
  CHECK(metric_label("a", "\xff") == "a=\"\xef\xbf\xbd\"");
}

TEST_CASE("the README table has a line a row", "[metric]") {
  const std::string table = metrics_markdown(kRows, "backend");
  CHECK(table.find("| `dlb_latency_seconds` | summary | seconds | `backend` | `latency_ms` | Latency. |\n") !=
        std::string::npos);
  CHECK(std::count(table.begin(), table.end(), '\n') == static_cast<std::ptrdiff_t>(std::size(kRows)) + 2);
}

TEST_CASE("good rows have no fault", "[metric]") {
  CHECK(metric_row_faults(kRows).empty());
  CHECK(metric_row_faults(kHistogramRows).empty());
}

TEST_CASE("each breach of the naming rules is found", "[metric]") {
  const auto faults = [](std::vector<MetricSpec> specs) {
    std::vector<MetricRow> rows;
    for (const MetricSpec& spec : specs) rows.push_back({spec, nullptr, nullptr});
    return metric_row_faults(rows).size();
  };
  const auto gauge = [](std::string_view name, std::string_view json = {}) {
    return MetricSpec{.name = name, .kind = MetricKind::Gauge, .json = json, .help = "x"};
  };
  CHECK(faults({gauge("dlb_a", "a.b"), gauge("dlb_b", "a.c")}) == 0);
  CHECK(faults({gauge("other_a")}) == 1);
  CHECK(faults({gauge("dlb_A")}) == 1);
  CHECK(faults({gauge("dlb_a_total")}) == 1);
  CHECK(faults({{.name = "dlb_a", .help = "x"}}) == 1);
  CHECK(faults({{.name = "dlb_a_total", .help = ""}}) == 1);
  CHECK(faults({{.name = "dlb_a_total", .help = "a\nb"}}) == 1);
  CHECK(faults({gauge("dlb_wait_ms")}) == 1);
  CHECK(faults({{.name = "dlb_wait", .kind = MetricKind::Gauge, .unit = "seconds", .help = "x"}}) == 1);
  CHECK(faults({gauge("dlb_a"), gauge("dlb_a")}) == 1);
  CHECK(faults({gauge("dlb_a"),
                gauge("dlb_b"),
                {.name = "dlb_a", .kind = MetricKind::Gauge, .labels = "x=\"1\"", .help = "x"}}) == 1);
  CHECK(faults({gauge("dlb_a", "a"), gauge("dlb_b", "a")}) == 1);
  CHECK(faults({gauge("dlb_a", "a.x"), gauge("dlb_b", "b"), gauge("dlb_c", "a.y")}) == 1);
  CHECK(faults({gauge("dlb_a", "a"), gauge("dlb_b", "a.x")}) == 1);
  CHECK(faults({gauge("dlb_b", "a.x"), gauge("dlb_a", "a")}) == 1);
}
