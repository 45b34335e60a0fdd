// What `loadgen compare` reads, refuses and concludes, from reports as loadgen writes them.
#include "loadgen/compare.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <limits>

#include "test/support/catch.h"

namespace dlb::loadgen {
namespace {

struct Report {
  int count = 19000;
  double throughput = 1000;
  double p99 = 40;
  int failed = 0;
  int users = 100;
  std::string invalid = "[]";
  std::string series = "null";
  std::string verification = "null";
};

std::string json_of(const Report& r) {
  return fmt::format(
      R"({{"schema":2,"experiment":"x","interrupted":false,"invalid":{},"verification":{},)"
      R"("config":{{"url":["http://a"],"users":{},"seed":7}},"operations":{{"done":20000,"failed":{},)"
      R"("throughput_per_second":{},"message":{{"latency_ms":{{"count":{},"p50":10.5,"p95":20.5,"p99":{}}},)"
      R"("intended_latency_ms":{{"count":0,"p50":0,"p95":0,"p99":0}}}},)"
      R"("feed":{{"latency_ms":{{"count":0,"p50":0,"p95":0,"p99":0}}}}}},"series":{},"later":[1,{{}}]}})",
      r.invalid, r.verification, r.users, r.failed, r.throughput, r.count, r.p99, r.series);
}

ComparedRun run_of(const Report& r, const std::string& name = "a.json") {
  auto run = read_compared_run(json_of(r), name);
  REQUIRE(run.has_value());
  return std::move(*run);
}

// Three repetitions whose throughput and p99 are `factor` times those of the first side, and a little apart.
std::vector<ComparedRun> side(double throughput, double p99, Report base = {}) {
  std::vector<ComparedRun> runs;
  for (const double wobble : {0.99, 1.0, 1.02}) {
    base.throughput = 1000 * throughput * wobble;
    base.p99 = 40 * p99 * wobble;
    runs.push_back(run_of(base));
  }
  return runs;
}

const FigureVerdict& figure(const CompareResult& result, std::string_view name) {
  const auto found = std::ranges::find(result.figures, name, &FigureVerdict::name);
  REQUIRE(found != result.figures.end());
  return *found;
}

std::string numbers(double base, double step, int count, bool with_null = false) {
  std::string text = "[";
  for (int i = 0; i < count; ++i) text += fmt::format("{:.3f},", base * (1 + 0.05 * (i % 4)) + step * i);
  return text + (with_null ? "null]" : "1]");  // the last second is a part of one
}

std::string series_json(double ok, double p99) {
  return fmt::format(R"({{"ok":{0},"done":{0},"failed":{1},"p50_ms":{2},"p95_ms":{2},"p99_ms":{3}}})",
                     numbers(ok, 0, 20), numbers(0, 0, 20), numbers(10, 0, 20, true),
                     numbers(p99, 0, 20, true));
}

TEST_CASE("compare: a report is read, what is unknown passed over") {
  Report report;
  report.invalid = R"(["late"])";
  report.verification = R"({"passed":false})";
  report.series = series_json(1000, 40);
  const ComparedRun run = run_of(report);
  CHECK((run.schema == 2 && run.throughput == 1000 && run.done == 20000));
  CHECK((run.message.count == 19000 && run.message.ms[2] == 40));
  CHECK(run.feed.count == 0);
  CHECK(run.invalid == std::vector<std::string>{"late"});
  CHECK(run.verified == false);
  CHECK(run.config.at("users") == "100");
  CHECK(run.series.message[2].size() == 21);
  report.series = R"({"step_seconds":2,"stage":["a",null,"b"],"ok":[10,7,20],"feed_p99_ms":[1,null,null]})";
  const ComparedRun staged = run_of(report);
  CHECK(staged.series.ok == std::vector<double>{5, 10});
  CHECK(staged.series.feed[2].size() == 2);
  CHECK(!read_compared_run("{", "x").has_value());
  CHECK(!read_compared_run(R"({"schema":2})", "x").has_value());
  CHECK(!read_compared_run(R"([])", "x").has_value());
}

TEST_CASE("compare: a damaged report is refused, not read as zeros") {
  Report report;
  report.verification = R"({"passed":"true"})";
  CHECK(run_of(report).verified == false);
  report.verification = R"({})";
  CHECK(run_of(report).verified == false);
  const std::string sound = json_of({});
  const auto error_of = [&](std::string_view from, std::string_view to) {
    std::string json = sound;
    const std::size_t at = json.find(from);
    REQUIRE(at != std::string::npos);
    const auto run = read_compared_run(json.replace(at, from.size(), to), "x");
    return run ? std::string() : run.error().text;
  };
  CHECK(error_of("\"p50\":", "\"p50\":-") == "x: damaged: a \"p50\" in it is no figure of loadgen");
  CHECK(error_of("\"count\":", "\"count\":1.5,\"x\":").find("\"count\"") != std::string::npos);
  CHECK(error_of("\"later\":", "\"chat\":{\"passed\":true,\"missed\":[]},\"later\":").find("\"missed\"") !=
        std::string::npos);
  CHECK(error_of("\"later\":", "\"chat\":{\"passed\":true,\"missed\":0},\"later\":").empty());
}

TEST_CASE("compare: other schemas and INVALID or interrupted runs are refused") {
  std::vector<ComparedRun> runs = {run_of({})};
  CHECK(refusals(runs, 2, false).empty());
  CHECK(refusals(runs, 3, true).size() == 1);
  Report report;
  report.invalid = R"(["late"])";
  runs = {run_of(report)};
  CHECK(refusals(runs, 2, false).size() == 1);
  CHECK(refusals(runs, 2, true).empty());
  runs = {run_of({})};
  runs[0].interrupted = true;
  CHECK(refusals(runs, 2, false).size() == 1);
}

TEST_CASE("compare: repetitions, each way") {
  const auto a = side(1, 1);
  CHECK(compare(a, side(1, 1), {}).overall == Verdict::Same);
  const CompareResult worse = compare(a, side(1, 1.6), {});
  CHECK(worse.overall == Verdict::Worse);
  CHECK(figure(worse, "message p99").verdict == Verdict::Worse);
  CHECK(figure(worse, "throughput").verdict == Verdict::Same);
  CHECK(figure(worse, "message p99").estimate.value == Approx(1.6));
  CHECK(compare(a, side(1.4, 1), {}).overall == Verdict::Better);
  CHECK(compare(a, side(1.4, 1.6), {}).overall == Verdict::Mixed);
  CHECK(compare(a, side(1.4, 1.6), {}).warnings.empty());
  CHECK(
      std::ranges::none_of(worse.figures, [](const FigureVerdict& f) { return f.name.starts_with("feed"); }));
  CompareSettings many;
  many.comparisons = 10000;
  CHECK(compare(a, side(1, 1.1), many).overall == Verdict::Same);
}

TEST_CASE("compare: a percentile with few operations beyond it is shown and not judged") {
  Report few;
  few.count = 999;
  const auto a = side(1, 1, few);
  const CompareResult result = compare(a, side(1, 5, few), {});
  CHECK(figure(result, "message p99").verdict == Verdict::NotJudged);
  CHECK(figure(result, "message p99").estimate.value == Approx(5));
  CHECK(figure(result, "message p95").verdict == Verdict::Same);
  CHECK(result.overall == Verdict::Same);
  few.count = 1000;
  CHECK(compare(side(1, 1, few), side(1, 5, few), {}).overall == Verdict::Worse);
}

TEST_CASE("compare: a change under min-change is none, however sure") {
  std::vector<ComparedRun> a(6, run_of({}));
  Report slower;
  slower.p99 = 40.6;
  std::vector<ComparedRun> b(6, run_of(slower));
  CompareSettings sure;
  sure.run_spread = 0;
  CHECK(figure(compare(a, b, sure), "message p99").adjusted_p < 0.01);
  CHECK(compare(a, b, sure).overall == Verdict::Same);
  CompareSettings strict = sure;
  strict.min_change = 0.01;
  CHECK(compare(a, b, strict).overall == Verdict::Worse);
}

TEST_CASE("compare: errors and a feed that is not verified are worse") {
  Report failing;
  failing.failed = 300;
  const CompareResult errors = compare(side(1, 1), side(1, 1, failing), {});
  CHECK(errors.overall == Verdict::Worse);
  CHECK(figure(errors, "errors").estimate.value == Approx(1.5));
  Report lost;
  lost.verification = R"({"passed":false})";
  CHECK(compare(side(1, 1), side(1, 1, lost), {}).overall == Verdict::Worse);
  CHECK(compare(side(1, 1, lost), side(1, 1), {}).overall == Verdict::Better);
}

TEST_CASE("compare: one run a side by its seconds") {
  Report base;
  base.series = series_json(1000, 40);
  Report slow = base;
  slow.series = series_json(1000, 80);
  const std::vector<ComparedRun> a = {run_of(base)};
  const std::vector<ComparedRun> b = {run_of(slow)};
  const CompareResult result = compare(a, b, {});
  CHECK(result.by_seconds);
  CHECK(result.overall == Verdict::Worse);
  CHECK(figure(result, "message p99 a second").estimate.value == Approx(2));
  CHECK(figure(result, "message p50 a second").verdict == Verdict::Same);
  CHECK(figure(result, "message p99").verdict == Verdict::NotJudged);
  CHECK(compare(a, a, {}).overall == Verdict::Same);
  const std::vector<ComparedRun> without = {run_of({})};
  const CompareResult nothing = compare(without, without, {});
  CHECK(nothing.judged == 0);
  CHECK(nothing.overall == Verdict::NotJudged);
  CHECK(nothing.warnings.size() == 1);
}

// Of twenty seconds, `still` without an answer, one behind the other or `step` apart.
ComparedRun with_a_stall(ComparedRun run, std::size_t still, std::size_t step = 1) {
  for (std::size_t i = 0; i < still * step; i += step) {
    run.series.ok[i] = run.series.done[i] = 0;
    for (auto& percentile : run.series.message) percentile[i] = std::numeric_limits<double>::quiet_NaN();
  }
  return run;
}

TEST_CASE("compare: a side that stood still is never the same") {
  Report base;
  base.series = series_json(1000, 40);
  const std::vector<ComparedRun> a = {run_of(base)};
  const std::vector<ComparedRun> half = {with_a_stall(a[0], 10, 2)};
  const CompareResult worse = compare(a, half, {});
  CHECK(figure(worse, "throughput").verdict == Verdict::Worse);
  CHECK(figure(worse, "message p99 a second").verdict == Verdict::NotJudged);
  CHECK(worse.overall == Verdict::Worse);
  CHECK(compare(half, a, {}).overall == Verdict::Better);

  const std::vector<ComparedRun> two = {with_a_stall(a[0], 2)};  // too little for the throughput
  for (const bool turned : {false, true}) {
    const CompareResult open = turned ? compare(two, a, {}) : compare(a, two, {});
    CHECK(figure(open, "message p99 a second").verdict == Verdict::NotJudged);
    CHECK(open.overall == Verdict::NotJudged);
    REQUIRE(open.warnings.size() == 1);
    CHECK(open.warnings[0].find("2 of 20 seconds") != std::string::npos);
    CHECK(compare_text(open, a, two, {}).find("no difference") == std::string::npos);
  }
  CHECK(compare(two, two, {}).overall == Verdict::Same);  // rare operations: both have such seconds

  base.series = series_json(1000, 80);  // what was answered beside the stall was slower, too
  const std::vector<ComparedRun> slow = {with_a_stall(run_of(base), 2)};
  CHECK(figure(compare(a, slow, {}), "message p99 a second").verdict == Verdict::Worse);
  base.series = series_json(1000, 20);
  const std::vector<ComparedRun> quick = {with_a_stall(run_of(base), 2)};
  CHECK(figure(compare(a, quick, {}), "message p99 a second").verdict == Verdict::NotJudged);
}

TEST_CASE("compare: a repetition without an answer is never the same") {
  auto b = side(1, 1);
  b[1].throughput = 0;
  b[1].message.count = 0;
  const CompareResult result = compare(side(1, 1), b, {});
  CHECK(result.overall == Verdict::NotJudged);
  CHECK(!result.warnings.empty());
}

TEST_CASE("compare: says when the configurations differ, and prints it all") {
  Report other;
  other.users = 200;
  const auto a = side(1, 1);
  const auto b = side(1, 1.6, other);
  const CompareResult result = compare(a, b, {});
  REQUIRE(result.warnings.size() == 1);
  CHECK(result.warnings[0] == "configurations differ: users is 100 in A and 200 in B");
  const std::string text = compare_text(result, a, b, {});
  CHECK(text.find("message p99") != std::string::npos);
  CHECK(text.find("worse") != std::string::npos);
  CHECK(text.find("users is 100 in A") != std::string::npos);
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  REQUIRE(parser.parse(compare_json(result, a, b, {})).get(root) == simdjson::SUCCESS);
  CHECK(std::string_view(root["verdict"]) == "worse");
  CHECK(root["figures"].get_array().size() == result.figures.size());
}

}  // namespace
}  // namespace dlb::loadgen
