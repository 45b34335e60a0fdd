// The verdict on a run: which exit code wins, and what the reports say of an open run.
#include "loadgen/report.h"

#include <simdjson.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "test/support/catch.h"

namespace dlb::loadgen {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// 100 ok messages of 20 ms in 2 s of an open model, taken up `lag` late.
struct OpenRun {
  explicit OpenRun(Duration lag = {}) {
    result.options.rate = 50;
    result.options.arrival = "poisson";
    result.elapsed = seconds(2);
    result.cpu_seconds = 0.1;
    OperationResult r;
    r.backend = kNoBackend;
    r.latency = milliseconds(20);
    r.intended_latency = milliseconds(20) + lag;
    for (int i = 0; i < 100; ++i) {
      result.total.taken_up(lag);
      result.total.issued(r.operation_class);
      result.total.record(r);
    }
  }

  void add_failed_operation() {
    OperationResult r;
    r.bucket = Bucket::TimeOut;
    r.backend = kNoBackend;
    result.total.issued(r.operation_class);
    result.total.record(r);
  }
  // A feed that was read, with so many messages lost.
  void add_verification(std::uint64_t lost) {
    Verification verification;
    verification.feed.fetched = true;
    verification.feed.summary.faults.lost = lost;
    result.verification = verification;
  }
  ExitCode code() const { return exit_code(result); }

  RunResult result;
};

TEST_CASE("exit code: what holds passes, what does not is 3") {
  OpenRun run;
  CHECK(run.code() == ExitCode::Passed);
  run.result.options.thresholds = *parse_thresholds("max(post)<=20ms, ok==100, rate==50");
  CHECK(run.code() == ExitCode::Passed);
  run.result.options.thresholds = *parse_thresholds("max(post)<20ms");
  CHECK(run.code() == ExitCode::NotVerified);
  OpenRun failed;
  failed.add_failed_operation();
  CHECK(failed.code() == ExitCode::NotVerified);
}

TEST_CASE("exit code: an invalid run judges no figures, but a wrong feed or answer stays one") {
  OpenRun run(milliseconds(30));
  CHECK(run.code() == ExitCode::Invalid);
  run.result.options.thresholds = *parse_thresholds("max(post)<20ms");
  CHECK(run.code() == ExitCode::Invalid);
  run.add_verification(0);
  CHECK(run.code() == ExitCode::Invalid);
  run.add_verification(1);
  CHECK(run.code() == ExitCode::NotVerified);
  OpenRun mixed(milliseconds(30));
  mixed.result.total.mismatched_answer();
  CHECK(mixed.code() == ExitCode::NotVerified);
}

TEST_CASE("exit code: files that grow and fail count when all else holds") {
  OpenRun run;
  run.result.files_failed = true;
  CHECK(run.code() == ExitCode::Failed);
  CHECK(report_json(run.result).find(R"("exit_code":1)") != std::string::npos);
  run.add_failed_operation();
  CHECK(run.code() == ExitCode::NotVerified);
}

TEST_CASE("invalid: stages too short to be judged are judged together") {
  OpenRun run;
  for (int i = 0; i < 4; ++i) {
    StageResult& stage = run.result.stages.emplace_back();
    stage.ran = true;
    stage.elapsed = milliseconds(500);
    stage.cpu_seconds = 0.49;
  }
  run.result.elapsed = seconds(20);  // with what was between them
  run.result.cpu_seconds = 1;
  CHECK(invalid_reasons(run.result).empty());
  run.result.cpu_seconds = 4 * 0.49;
  REQUIRE(invalid_reasons(run.result).size() == 1);
  CHECK(invalid_reasons(run.result).front().starts_with("all stages together: the generator was busy"));
  CHECK(run.code() == ExitCode::Invalid);
}

TEST_CASE("the configuration in the report has what a comparison needs, and where keys are") {
  OpenRun run;
  run.result.options.fail = {"lost<=2", "p99(post)<1s"};
  run.result.options.verify_feed = true;
  run.result.options.subscribers = 7;
  const std::string json = report_json(run.result);
  for (const char* part : {R"("fail":"lost<=2,p99(post)<1s")", R"("verify_feed":true)", R"("subscribers":7)",
                           R"("insecure":false)", R"("metrics_interval_seconds":1)"}) {
    INFO(part);
    CHECK(json.find(part) != std::string::npos);
  }
}

TEST_CASE("exit code: an interrupted run says so before anything else") {
  OpenRun run(milliseconds(30));
  run.add_verification(1);
  run.result.interrupted = true;
  CHECK(run.code() == ExitCode::Interrupted);
}

TEST_CASE("thresholds on the feed look at the worst of all feeds, and need all of them") {
  OpenRun run;
  run.result.options.thresholds = *parse_thresholds("lost<=2");
  CHECK_FALSE(judge_thresholds(run.result).front().value.has_value());
  run.add_verification(1);
  CheckedFeed worse = run.result.verification->feed;
  worse.summary.faults.lost = 3;
  run.result.verification->backends = {worse};
  CHECK(judge_thresholds(run.result).front().value == 3);
  run.result.verification->backends.front().fetched = false;
  CHECK_FALSE(judge_thresholds(run.result).front().held);
}

TEST_CASE("the reports of an open run have both latencies, the lag, and why it is invalid") {
  OpenRun run(milliseconds(30));
  run.result.total.found_queue_full();
  simdjson::dom::parser parser;
  simdjson::dom::element json;
  const std::string text = report_json(run.result);
  REQUIRE(parser.parse(text).get(json) == simdjson::SUCCESS);
  CHECK(double(json["operations"]["message"]["latency_ms"]["max"]) == 20);
  CHECK(double(json["operations"]["message"]["intended_latency_ms"]["max"]) == 50);
  CHECK(double(json["generator"]["schedule_lag_ms"]["max"]) == 30);
  CHECK(double(json["generator"]["cpu_share"]) == 0.05);
  CHECK(double(json["config"]["rate"]) == 50);
  CHECK(std::int64_t(json["operations"]["queue_full"]) == 1);
  CHECK(simdjson::dom::array(json["invalid"]).size() == 1);
  CHECK(std::int64_t(json["exit_code"]) == 4);
  const std::string printed = report_text(run.result);
  CHECK(printed.find("reuse, 50 a second (poisson)\n") != std::string::npos);
  CHECK(printed.find("\n  from the intended time ") != std::string::npos);
  CHECK(printed.find("\nNOTE: 1 operations were not issued") != std::string::npos);
  CHECK(printed.find("\nINVALID: the generator was late") != std::string::npos);
}

TEST_CASE("the headline of several stages names them") {
  OpenRun run;
  run.result.options.stages = "users=10; users=20; users=15";
  for (const std::int64_t users : {10, 20, 15}) run.result.stages.emplace_back().plan.users = users;
  CHECK(report_text(run.result).find(": 3 stages, 10 to 20 users, seed ") != std::string::npos);
  run.result.stages.resize(1);
  CHECK(report_text(run.result).find(": 1 stage, 10 users, seed ") != std::string::npos);
}

TEST_CASE("the printed share is of the largest backends") {
  OpenRun run;
  for (int i = 0; i < 20; ++i) {
    OperationResult r;
    r.backend = run.result.total.backend_index("b" + std::to_string(i));
    for (int j = 0; j <= i; ++j) {
      run.result.total.issued(r.operation_class);
      run.result.total.record(r);
    }
  }
  const std::string printed = report_text(run.result);
  CHECK(printed.find("\nshare: b19 20 (6.5%) b18 19 (6.1%)") != std::string::npos);
  CHECK(printed.find(" b4 5 (1.6%) … and 4 more\n") != std::string::npos);
}

std::size_t count_of(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST_CASE("the page has the report in it as data that ends no script, and lets nothing be loaded") {
  OpenRun run;
  run.result.options.url = {"http://x/</script><script>alert(1)</script>"};
  const std::string json = report_json(run.result);
  const std::string page = report_html(run.result, json);
  CHECK(count_of(page, "</script>") == 2);
  CHECK(page.find("default-src 'none'") != std::string::npos);
  CHECK(page.find("frame-ancestors") == std::string::npos);
  CHECK(count_of(page, "src=") == 0);
  const std::size_t from = page.find("id=\"data\">") + 10;
  const std::string data = page.substr(from, page.find("</script>", from) - from);
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  REQUIRE(parser.parse(data).get(root) == simdjson::SUCCESS);
  CHECK(std::string_view(root["report"]["config"]["url"].at(0)) == run.result.options.url.front());
  CHECK(std::int64_t(root["report"]["operations"]["message"]["latency_ms"]["count"]) == 100);
  const simdjson::dom::array curve = root["curves"]["message"];
  CHECK(curve.size() > 10);
  CHECK(double(curve.at(0).at(0)) == 0);
  CHECK(double(curve.at(curve.size() - 1).at(0)) == 100);
  CHECK(double(curve.at(curve.size() - 1).at(1)) == 20);
  CHECK(simdjson::dom::array(root["curves"]["feed"]).size() == 0);
}

TEST_CASE("the page has the chat's curves with a chat only, each from its own times") {
  const auto curves = [](const RunResult& result) {
    const std::string page = report_html(result, report_json(result));
    const std::size_t from = page.find("\"curves\":");
    REQUIRE(from != std::string::npos);
    return page.substr(from + 9, page.find("</script>", from) - from - 10);
  };
  OpenRun run;
  CHECK(curves(run.result).find("fanout") == std::string::npos);
  run.result.chat = std::make_unique<ChatResult>();
  for (int i = 0; i < 100; ++i) run.result.chat->fanout_us.record(5'000);
  run.result.chat->delivery_us.record(3'000);
  run.result.chat->join_us.record(9'000);
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  REQUIRE(parser.parse(curves(run.result)).get(root) == simdjson::SUCCESS);
  const auto last = [&](const char* name) {
    const simdjson::dom::array points = root[name];
    return points.size() == 0 ? 0 : double(points.at(points.size() - 1).at(1));
  };
  CHECK(simdjson::dom::array(root["fanout"]).size() > 10);
  CHECK(last("fanout") == Approx(5).epsilon(0.01));
  CHECK(last("after_ack") == Approx(3).epsilon(0.01));
  CHECK(last("join") == Approx(9).epsilon(0.01));
  CHECK(last("catch_up") == 0);
}

TEST_CASE("rows of the files that runs share have the columns of their headers") {
  OpenRun run;
  run.add_verification(0);
  run.result.options.url = {"http://a", "http://b"};
  run.result.total.close();
  StageResult stage;
  stage.plan.name = "measured";
  stage.recorder = run.result.total;
  run.result.stages.push_back(stage);
  const auto fields = [](const std::string& line) {  // one quoted field with one comma in it
    return std::count(line.begin(), line.end(), ',') - (line.find('"') == std::string::npos ? 0 : 1);
  };
  CHECK(fields(summary_row(run.result)) == fields(summary_header()));
  for (const auto& [header, rows] :
       {std::pair{operation_summary_header(), operation_summary_rows(run.result)},
        std::pair{header_acceptance_header(), header_acceptance_rows(run.result)}}) {
    CHECK(count_of(rows, "\n") >= 1);
    CHECK(static_cast<std::size_t>(fields(rows)) ==
          static_cast<std::size_t>(fields(header)) * count_of(rows, "\n"));
  }
}

}  // namespace
}  // namespace dlb::loadgen
