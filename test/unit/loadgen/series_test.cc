// The second-by-second record of a run: rows, stages, gaps, and memory that stays bounded.
#include "loadgen/series.h"

#include <simdjson.h>

#include <algorithm>

#include "common/json_writer.h"
#include "loadgen/csv.h"
#include "test/support/catch.h"

namespace dlb::loadgen {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

OperationResult ok_message(Duration latency) {
  OperationResult r;
  r.latency = latency;
  return r;
}

OperationResult failed(Bucket bucket) {
  OperationResult r;
  r.bucket = bucket;
  return r;
}

struct Rows final : SeriesSink {
  void on_second(const SeriesRow& row, std::string_view stage,
                 const std::vector<std::string>& backends) override {
    rows.push_back(row);
    stages.emplace_back(stage);
    lines.push_back(series_csv_row(row, stage, backends));
  }
  std::vector<SeriesRow> rows;
  std::vector<std::string> stages;
  std::vector<std::string> lines;
};

TEST_CASE("series: a row a second, empty ones too, each result in the second of its end") {
  Rows sink;
  Series series;
  series.set_sink(&sink);
  series.begin_stage("measured", 7, Duration::zero());
  series.on_issued(milliseconds(10));
  series.on_planned(milliseconds(10));
  series.on_result(ok_message(milliseconds(20)), "sys2", milliseconds(999));
  OperationResult slow = ok_message(milliseconds(900));
  slow.slow_reader = true;
  series.on_result(slow, "sys2", milliseconds(999));
  series.on_result(failed(Bucket::ServerError), "sys3", milliseconds(1000));
  series.on_result(ok_message(milliseconds(40)), "sys2", milliseconds(3500));
  series.end_stage(milliseconds(3600));
  series.finish(milliseconds(3600));
  const auto& rows = series.rows();
  REQUIRE(rows.size() == 4);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    CHECK(rows[i].second == static_cast<std::int64_t>(i));
    CHECK(rows[i].stage == 0);
    CHECK(rows[i].users == 7);
    CHECK(sink.rows[i].done() == rows[i].done());
  }
  CHECK(rows[0].ok() == 2);
  CHECK(rows[0].issued == 1);
  CHECK(rows[0].planned == 1);
  CHECK(rows[0].message.p99_ms == Approx(20.0).epsilon(0.01));
  CHECK(rows[1].failed() == 1);
  CHECK(rows[1].message.p50_ms == -1);
  CHECK(rows[1].responses == std::vector<std::uint32_t>{0, 1});
  CHECK(rows[2].done() == 0);
  CHECK(rows[3].responses == std::vector<std::uint32_t>{1});
  CHECK(sink.stages == std::vector<std::string>(4, "measured"));
}

TEST_CASE("series: a second with a change of stages is the first one's; between stages there is none") {
  Series series;
  series.begin_stage("one", 10, Duration::zero());
  series.end_stage(milliseconds(1500));
  series.begin_stage("two", 20, milliseconds(1600));
  series.end_stage(milliseconds(2100));
  series.begin_stage("three", 30, milliseconds(4000));
  series.end_stage(milliseconds(4100));
  series.finish(milliseconds(4100));
  std::vector<int> stages;
  std::vector<std::uint64_t> users;
  for (const SeriesRow& row : series.rows()) {
    stages.push_back(row.stage);
    users.push_back(row.users);
  }
  CHECK(stages == std::vector<int>{0, 0, 1, -1, 2});
  CHECK(users == std::vector<std::uint64_t>{10, 10, 20, 0, 30});
}

TEST_CASE("series: memory is bounded, nothing is lost, and the sink has every second") {
  Rows sink;
  Series series(8);
  series.set_sink(&sink);
  series.begin_stage("measured", 1, Duration::zero());
  for (int second = 0; second < 37; ++second) {
    series.on_issued(seconds(second));
    series.on_result(ok_message(milliseconds(second + 1)), "b", seconds(second));
  }
  series.finish(milliseconds(36900));
  CHECK(sink.rows.size() == 37);
  const auto& rows = series.rows();
  CHECK(rows.size() <= 8);
  CHECK(series.step_seconds() == 8);
  std::uint64_t done = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    CHECK(rows[i].second == static_cast<std::int64_t>(i) * series.step_seconds());
    CHECK(rows[i].done() == rows[i].issued);
    done += rows[i].done();
  }
  CHECK(done == 37);
  CHECK(rows[0].message.p99_ms == Approx(8.0).epsilon(0.01));  // the highest of its seconds
}

TEST_CASE("series: more backends than columns share the last one") {
  Series series;
  series.begin_stage("measured", 1, Duration::zero());
  for (std::size_t i = 0; i < Series::kMaxBackends * 2; ++i) {
    series.on_result(ok_message(milliseconds(1)), "b" + std::to_string(i), milliseconds(1));
  }
  series.finish(milliseconds(1));
  CHECK(series.backends().size() == Series::kMaxBackends);
  CHECK(series.backends().back() == "other");
  const SeriesRow& row = series.rows().front();
  CHECK(row.responses.back() == Series::kMaxBackends + 1);
  CHECK(row.answers == Series::kMaxBackends * 2);
}

TEST_CASE("series: as JSON every list has an element a row, null where nothing was measured") {
  Series series;
  series.begin_stage("a \"quoted\" one", 3, Duration::zero());
  OperationResult r = ok_message(milliseconds(5));
  r.intended_latency = milliseconds(9);
  series.on_result(r, "sys2", milliseconds(1));
  series.on_result(failed(Bucket::TimeOut), "", milliseconds(1200));
  series.finish(milliseconds(1200));
  std::string text;
  JsonWriter json(text);
  series_json(json, series);
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  REQUIRE(parser.parse(text).get(root) == simdjson::SUCCESS);
  for (const auto field : simdjson::dom::object(root)) {
    if (field.value.is_array()) CHECK(simdjson::dom::array(field.value).size() == 2);
  }
  CHECK(std::string_view(root["stage"].at(1)) == "a \"quoted\" one");
  CHECK(double(root["intended_p50_ms"].at(0)) == Approx(9.0).epsilon(0.01));
  CHECK(root["p50_ms"].at(1).is_null());
  CHECK(std::int64_t(root["failed"].at(1)) == 1);
  CHECK(std::int64_t(root["buckets"]["time_out"].at(1)) == 1);
  CHECK(root["buckets"]["5xx"].error() != simdjson::SUCCESS);
  CHECK(std::int64_t(root["backends"]["sys2"].at(0)) == 1);
}

TEST_CASE("series: rows of the file have the columns of its header") {
  Rows sink;
  Series series;
  series.set_sink(&sink);
  series.begin_stage("ramp, up", 3, Duration::zero());
  series.on_result(ok_message(milliseconds(5)), "sys2", milliseconds(1));
  series.on_result(ok_message(milliseconds(5)), "sys3", milliseconds(1));
  series.finish(milliseconds(1));
  REQUIRE(sink.lines.size() == 1);
  const std::string header = series_csv_header();
  const std::string& row = sink.lines.front();
  CHECK(row.starts_with("1,0,\"ramp, up\",3,"));
  CHECK(row.ends_with(",2,sys2=1 sys3=1\n"));
  CHECK(std::count(row.begin(), row.end(), ',') == std::count(header.begin(), header.end(), ',') + 1);
}

TEST_CASE("csv: what must be quoted is, and what is not known is empty") {
  std::string text;
  CsvRow(text).text("plain").text("a,b").text("say \"hi\"").number(-3.0, 1, true).number(2.5, 2).end();
  CHECK(text == "plain,\"a,b\",\"say \"\"hi\"\"\",,2.50\n");
}

}  // namespace
}  // namespace dlb::loadgen
