// What balancer and backends say of themselves: read, joined, kept in bounded memory, summed up, and judged.
#include <simdjson.h>

#include <algorithm>
#include <cmath>

#include "common/json_writer.h"
#include "loadgen/system_record.h"
#include "loadgen/system_sample.h"
#include "loadgen/verdict.h"
#include "test/support/catch.h"

namespace dlb::loadgen {
namespace {

constexpr std::string_view kStatus =
    R"({"status":"ok","policy":"score","backends":[{"id":"sys2","url":"http://127.0.0.1:6001","score":6.4},
        {"id":"sys3","url":"http://127.0.0.1:6002"},{"id":7}]})";
constexpr std::string_view kBalancer =
    R"({"requests":{"total":10,"in_progress":2},"queue":{"waiting":3},
        "rejections":{"queue_timeout":0,"queue_full":0,"memory_guard":4,"connections":5},
        "memory_guard":{"on":false,"events":1,"socket_bytes":-1},
        "sys1":{"cpu_percent":32.7,"process_cpu_seconds":0.10,"rss_bytes":1000,"memory":{"total_bytes":2000}},
        "uptime_seconds":9.4,
        "backends":[{"id":"sys2","in_flight":6,"score":6.4,"cpu_percent":25.5,"memory":{"total_percent":0.1}}]})";
constexpr std::string_view kStats =
    R"({"backend-id":"sys2","cpu_percent":35.62,"memory":{"total_bytes":24268800,"working_set_bytes":null},
        "requests":{"in_flight":4,"total":34},"feed_cache":{"rows":12,"bytes":100,"chunks":1}})";
constexpr std::string_view kMetrics =
    R"({"backend-id":"sys2","process":{"cpu_seconds":0.25},"uptime_seconds":3})";

TEST_CASE("systems: what is said is read, what is not stays unknown") {
  SystemReader reader;
  std::vector<BackendPlace> places;
  REQUIRE(reader.status(kStatus, places));
  REQUIRE(places.size() == 2);
  CHECK(places[1].id == "sys3");
  CHECK(places[1].url == "http://127.0.0.1:6002");

  Figures balancer = unknown_figures();
  std::vector<BackendView> views;
  REQUIRE(reader.balancer(kBalancer, balancer, views));
  CHECK(at(balancer, Figure::CpuPercent) == 32.7);
  CHECK(at(balancer, Figure::MemoryTotalBytes) == 2000);
  CHECK(at(balancer, Figure::RejectedConnectionsTotal) == 5);
  CHECK(std::isnan(at(balancer, Figure::SocketBytes)));  // -1 is not known
  CHECK(std::isnan(at(balancer, Figure::Score)));
  REQUIRE(views.size() == 1);

  Figures backend = unknown_figures();
  std::string id;
  REQUIRE(reader.stats(kStats, backend, id));
  REQUIRE(reader.metrics(kMetrics, backend));
  CHECK(id == "sys2");
  CHECK(at(backend, Figure::CpuPercent) == 35.62);
  CHECK(at(backend, Figure::ProcessCpuSeconds) == 0.25);
  CHECK(std::isnan(at(backend, Figure::MemoryWorkingSetBytes)));

  add_view(backend, views[0].figures, true);
  CHECK(at(backend, Figure::Score) == 6.4);
  CHECK(at(backend, Figure::BalancerInFlight) == 6);
  CHECK(at(backend, Figure::ActiveRequests) == 4);             // its own
  CHECK(std::isnan(at(backend, Figure::MemoryTotalPercent)));  // not from elsewhere: it was asked
  Figures unasked = unknown_figures();
  add_view(unasked, views[0].figures, false);
  CHECK(at(unasked, Figure::CpuPercent) == 25.5);
  CHECK(at(unasked, Figure::ActiveRequests) == 6);
}

TEST_CASE("systems: names are kept with escapes") {
  SystemReader reader;
  Figures figures = unknown_figures();
  std::string id;
  REQUIRE(reader.stats(R"({"backend-id":"s\u001b[2J"})", figures, id));
  CHECK(id == "s\\x1b[2J");
}

TEST_CASE("systems: what is no answer of theirs is refused") {
  SystemReader reader;
  Figures figures = unknown_figures();
  std::vector<BackendPlace> places;
  std::vector<BackendView> views;
  std::string id;
  for (const std::string_view body :
       {"", "{", "[]", "3", "null", "{\"messages\":[],\"count\":0}", "\xff\xff"}) {
    CHECK_FALSE(reader.status(body, places));
    CHECK_FALSE(reader.balancer(body, figures, views));
    CHECK_FALSE(reader.stats(body, figures, id));
    CHECK_FALSE(reader.metrics(body, figures));
  }
  CHECK(places.empty());
}

TEST_CASE("systems: rows have the columns of their header, and each pointer is well-formed") {
  Figures figures = unknown_figures();
  at(figures, Figure::CpuPercent) = 12.34;
  MetricsRow row{0, 1.5, "static-250", "Sys2", "a,b", "direct", &figures};
  const std::string header = metrics_csv_header();
  const std::string text = metrics_csv_row(row);
  CHECK(text.starts_with("1,1970-01-01T00:00:00.000000+00:00,1.500,static-250,Sys2,\"a,b\",direct,12.3,,"));
  CHECK(std::count(text.begin(), text.end(), ',') == std::count(header.begin(), header.end(), ',') + 1);
  for (const SystemColumn& column : system_columns()) {
    CHECK_FALSE(column.name.empty());
    for (const std::string_view pointer : {column.balancer, column.stats, column.metrics, column.view}) {
      CHECK((pointer.empty() || pointer.front() == '/'));
    }
  }
}

TEST_CASE("systems: numbers in ids count as numbers") {
  CHECK(natural_less("sys2", "sys10"));
  CHECK_FALSE(natural_less("sys10", "sys2"));
  CHECK(natural_less("a", "b"));
  CHECK(natural_less("sys", "sys1"));
  CHECK(natural_less("sys02", "sys3"));
  CHECK(natural_less("sys02", "sys2") != natural_less("sys2", "sys02"));
  CHECK_FALSE(natural_less("x", "x"));
}

TEST_CASE("systems: CPU of a process is what it used in between, unless it is another process") {
  Figures before = unknown_figures();
  Figures after = unknown_figures();
  CHECK(std::isnan(process_cpu_percent(before, after, std::chrono::seconds(1))));
  at(before, Figure::ProcessCpuSeconds) = 1;
  at(after, Figure::ProcessCpuSeconds) = 2;
  CHECK(process_cpu_percent(before, after, std::chrono::seconds(2)) == 50);
  CHECK(std::isnan(process_cpu_percent(before, after, Duration::zero())));
  CHECK(std::isnan(process_cpu_percent(after, before, std::chrono::seconds(2))));
}

Figures sample(double cpu, double uptime) {
  Figures figures = unknown_figures();
  at(figures, Figure::CpuPercent) = cpu;
  at(figures, Figure::UptimeSeconds) = uptime;
  return figures;
}

TEST_CASE("systems: mean and maximum are of all samples, points are bounded") {
  SystemRecord record("Sys1", "lb", "http://lb", 8);
  for (int i = 0; i < 37; ++i) record.add(i, sample(i, i));
  CHECK(record.samples() == 37);
  CHECK(record.summary(0).count == 37);
  CHECK(record.summary(0).max == 36);
  CHECK(record.summary(0).sum == 36 * 37 / 2);
  CHECK(record.summary(1).count == 0);
  REQUIRE(record.points().size() <= 8);
  CHECK(record.points()[0].elapsed_seconds == 0);
  CHECK(static_cast<double>(record.points()[0].values[0]) == Approx(3.5));
  CHECK(record.points()[1].elapsed_seconds == 8);
  CHECK_FALSE(record.restarted());
  record.add(40, sample(1, 2));
  CHECK(record.restarted());

  std::string text;
  JsonWriter json(text);
  systems_json(json, {record});
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  REQUIRE(parser.parse(text).get(root) == simdjson::SUCCESS);
  CHECK(std::string_view(root.at(0)["name"]) == "Sys1");
  CHECK(double(root.at(0)["cpu_percent"]["max"]) == 36);
  CHECK(root.at(0)["rss_bytes"].is_null());
  CHECK(simdjson::dom::array(root.at(0)["series"]["cpu_percent"]).size() == record.points().size());
}

// A run of two stages that may be handed in.
struct GoodRun {
  GoodRun() {
    for (const std::string name : {"lb", "sys2", "sys3"}) {
      SystemRecord record("Sys" + std::to_string(systems.size() + 1), name, "", 4);
      Figures figures = sample(10, 1);
      if (name == "lb") {
        for (const Figure counter :
             {Figure::GuardEventsTotal, Figure::RejectedMemoryTotal, Figure::RejectedConnectionsTotal}) {
          at(figures, counter) = 7;  // from before the run
        }
      }
      record.add(0, figures);
      record.add(1, figures);
      systems.push_back(record);
    }
    facts.stages = {{"static-250", true, false, 100, 100, 0}, {"static-500", true, false, 100, 100, 0}};
    facts.feed_read = facts.feed_passed = true;
    facts.systems = &systems;
    facts.ended_seconds = 1;
  }
  std::vector<std::string> reasons() const { return judge_run(facts).reasons; }

  std::vector<SystemRecord> systems;
  RunFacts facts;
};

TEST_CASE("verdict: a run without a flaw is promotable, and each flaw alone is a reason") {
  GoodRun run;
  CHECK(run.reasons().empty());
  CHECK(verdict_text(judge_run(run.facts)) == "PROMOTABLE\n");
  const auto only = [&](std::string_view reason) {
    REQUIRE(run.reasons().size() == 1);
    CHECK(run.reasons().front() == reason);
  };
  SECTION("a stage behind a stop") {
    run.facts.stages[1].ran = false;
    only("stage static-500 did not run");
  }
  SECTION("a window") {
    run.facts.stages[0].hit_window = true;
    only("stage static-250 hit its window");
  }
  SECTION("a failed operation") {
    run.facts.stages[0].ok = 98;
    run.facts.stages[0].failed = 1;
    only("stage static-250: 98 of 100 operations succeeded (1 failed, 1 not issued)");
  }
  SECTION("no stage") {
    run.facts.stages.clear();
    only("no stage ran");
  }
  SECTION("interrupted") {
    run.facts.interrupted = true;
    only("the run was interrupted");
  }
  SECTION("options") {
    run.facts.altered = true;
    only("options change what the profile is defined as");
  }
  SECTION("the generator") {
    run.facts.valid = false;
    only("the generator was the bottleneck");
  }
  SECTION("answers of others") {
    run.facts.mismatched_answers = 2;
    only("2 answers named another message's id");
  }
  SECTION("the feed was not read") {
    run.facts.feed_read = false;
    only("the feed was not read");
  }
  SECTION("the feed is wrong") {
    run.facts.feed_passed = false;
    only("the feed is not verified");
  }
  SECTION("no metrics") {
    run.systems.clear();
    only("there are no metrics of balancer and backends");
  }
  SECTION("no metrics of one") {
    run.systems[2] = SystemRecord("Sys3", "sys3", "", 4);
    only("there are no metrics of Sys3 (sys3)");
  }
  SECTION("a balancer that was asked only before the load's end") {
    run.facts.ended_seconds = 1.5;
    only("the balancer did not tell its counters after the load");
  }
  SECTION("a backend that was, too") {
    run.facts.ended_seconds = 2;
    run.systems[0].add(2, run.systems[0].latest());
    CHECK(run.reasons().empty());
  }
  SECTION("missed samples") {
    for (int second = 2; second < 8; ++second) run.systems[1].add(second, run.systems[1].latest());
    run.systems[1].missed();
    run.systems[1].missed();
    CHECK(run.reasons().empty());  // 2 of 10
    run.systems[1].missed();
    only("3 of 11 samples of Sys2 (sys2) were missed");
  }
  SECTION("counters of the balancer") {
    const auto [counter, reason] = GENERATE(table<Figure, std::string>({
        {Figure::GuardEventsTotal, "the balancer's memory guard went on 2 times"},
        {Figure::RejectedMemoryTotal, "the balancer refused 2 requests for want of memory"},
        {Figure::RejectedConnectionsTotal, "the balancer refused 2 connections"},
    }));
    Figures figures = run.systems[0].latest();
    at(figures, counter) += 2;
    run.systems[0].add(2, figures);
    only(reason);
  }
  SECTION("a balancer that does not tell") {
    Figures figures = run.systems[0].latest();
    at(figures, Figure::RejectedMemoryTotal) = std::numeric_limits<double>::quiet_NaN();
    run.systems[0].add(2, figures);
    only("the balancer does not tell rejected_memory_total");
  }
  SECTION("a balancer that was started anew") {
    Figures figures = run.systems[0].latest();
    at(figures, Figure::UptimeSeconds) = 0;
    run.systems[0].add(2, figures);
    only("the balancer was started anew during the run");
  }
}

TEST_CASE("verdict: reasons in text and JSON") {
  RunVerdict verdict;
  verdict.reasons = {"one", "two"};
  CHECK(verdict_text(verdict) == "NOT PROMOTABLE: one\nNOT PROMOTABLE: two\n");
  std::string text;
  JsonWriter json(text);
  verdict_json(json, verdict);
  CHECK(text == R"({"promotable":false,"reasons":["one","two"]})");
}

}  // namespace
}  // namespace dlb::loadgen
