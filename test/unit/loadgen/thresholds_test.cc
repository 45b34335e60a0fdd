// The grammar of -fail, and what holds.
#include "loadgen/thresholds.h"

#include <simdjson.h>

#include "common/json_writer.h"
#include "test/support/catch.h"

namespace dlb::loadgen {
namespace {

void record_many(Recorder& recorder, OperationClass which, Bucket bucket, int latency_ms, int times) {
  OperationResult r;
  r.operation_class = which;
  r.bucket = bucket;
  r.backend = kNoBackend;
  r.latency = std::chrono::milliseconds(latency_ms);
  for (int i = 0; i < times; ++i) {
    recorder.issued(which);
    recorder.record(r);
  }
}

// 980 posts of 10 ms, 10 of 100 ms, 5 timed out, 5 with 5xx; 100 feeds of 40 ms; 1100 done in 2 s.
struct JudgedRun {
  JudgedRun() {
    record_many(recorder, OperationClass::Message, Bucket::Ok, 10, 980);
    record_many(recorder, OperationClass::Message, Bucket::Ok, 100, 10);
    record_many(recorder, OperationClass::Message, Bucket::TimeOut, 0, 5);
    record_many(recorder, OperationClass::Message, Bucket::ServerError, 0, 5);
    record_many(recorder, OperationClass::Feed, Bucket::Ok, 40, 100);
  }

  ThresholdVerdict verdict(std::string_view text, const FeedFaults* faults = nullptr) const {
    const auto parsed = parse_thresholds(text);
    REQUIRE(parsed.has_value());
    REQUIRE(parsed->size() == 1);
    return judge(*parsed, Measured{recorder, std::chrono::seconds(2), faults}).front();
  }
  bool held(std::string_view text) const { return verdict(text).held; }

  Recorder recorder;
};

TEST_CASE("thresholds: what a list of them says") {
  const auto parsed = parse_thresholds(" p99( post ) < 1.5s,errors<=0.1% ; lost == 0,5xx<3;rate>100");
  REQUIRE(parsed.has_value());
  REQUIRE(parsed->size() == 5);
  const Threshold& latency = parsed->at(0);
  CHECK(latency.text == "p99( post ) < 1.5s");
  CHECK(latency.quantity == Quantity::Latency);
  CHECK(latency.statistic == Statistic::P99);
  CHECK(latency.operation_class == OperationClass::Message);
  CHECK(latency.comparison == Comparison::Less);
  CHECK(latency.limit == 1500);
  const Threshold& errors = parsed->at(1);
  CHECK((errors.quantity == Quantity::Errors && errors.share && errors.limit == 0.1));
  CHECK(errors.comparison == Comparison::AtMost);
  CHECK((parsed->at(2).quantity == Quantity::Lost && parsed->at(2).comparison == Comparison::Equal));
  CHECK((parsed->at(3).bucket == Bucket::ServerError && !parsed->at(3).share && parsed->at(3).limit == 3));
  CHECK((parsed->at(4).quantity == Quantity::Rate && parsed->at(4).comparison == Comparison::Greater));
  CHECK(parse_thresholds("")->empty());
  CHECK(need_verification(*parsed));
  CHECK_FALSE(need_verification(*parse_thresholds("errors==0")));
  for (std::size_t i = 0; i < kBuckets; ++i) {
    CHECK(parse_thresholds(std::string(bucket_name(static_cast<Bucket>(i))) + "<1%").has_value());
  }
}

TEST_CASE("thresholds: an error names the column") {
  const auto [text, column] = GENERATE(table<std::string, int>({{"p98(post)<1ms", 1},
                                                                {"p99<1ms", 4},
                                                                {"p99(posts)<1ms", 5},
                                                                {"p99(post<1ms", 9},
                                                                {"p99(post)=1ms", 10},
                                                                {"p99(post)<50", 11},
                                                                {"p99(post)<", 11},
                                                                {"p99(post)<-1ms", 11},
                                                                {"errors<0.1%,lost<1%", 18},
                                                                {"errors<101%", 8},
                                                                {"errors<nan", 8},
                                                                {"errors<1 2", 8},
                                                                {"rate>fast", 6},
                                                                {"errors<1;", 10},
                                                                {"errors<1,,rate>1", 10},
                                                                {"errors 1", 8}}));
  INFO(text);
  const auto parsed = parse_thresholds(text);
  REQUIRE_FALSE(parsed.has_value());
  INFO(parsed.error().text);
  CHECK(parsed.error().text.find("column " + std::to_string(column) + ": ") != std::string::npos);
}

TEST_CASE("thresholds: what holds and what does not") {
  const JudgedRun run;
  CHECK(run.held("p50(post)<10.1ms"));
  CHECK_FALSE(run.held("p50(post)<9ms"));
  CHECK(run.held("p95(post)<11ms"));
  CHECK(run.held("p999(post)>99ms"));
  CHECK(run.held("max(post)==100ms"));
  CHECK(run.held("p50(feed)>=39ms"));
  CHECK(run.held("p95(all)<41ms"));
  CHECK_FALSE(run.held("p95(all)<39ms"));
  CHECK(run.held("mean(feed)==40ms"));
  CHECK(run.held("errors<=10"));
  CHECK_FALSE(run.held("errors<10"));
  CHECK(run.held("errors<1%"));
  CHECK_FALSE(run.held("errors<0.9%"));
  CHECK(run.held("time_out==5"));
  CHECK(run.held("5xx<0.5%"));
  CHECK_FALSE(run.held("reset>0"));
  CHECK(run.held("rate==545"));
  CHECK_FALSE(run.held("rate>545"));
}

TEST_CASE("thresholds: what was not measured does not hold") {
  const JudgedRun run;
  FeedFaults faults;
  faults.lost = 2;
  CHECK(run.verdict("lost==2", &faults).held);
  CHECK(run.verdict("altered==0", &faults).held);
  CHECK_FALSE(run.held("lost==0"));
  CHECK_FALSE(run.verdict("lost>=0").value.has_value());
  const Recorder empty;
  const auto verdicts =
      judge(*parse_thresholds("p99(post)<1h,errors<1%,rate>=0"), Measured{empty, Duration::zero(), nullptr});
  for (const ThresholdVerdict& verdict : verdicts) CHECK_FALSE(verdict.held);
  CHECK(value_text(verdicts[0]) == "not measured");
}

TEST_CASE("thresholds: the table and the report") {
  const JudgedRun run;
  const auto verdicts = judge(*parse_thresholds("max(post)<50ms,errors<1%,lost==0"),
                              Measured{run.recorder, std::chrono::seconds(2), nullptr});
  CHECK(thresholds_text(verdicts) ==
        "thresholds:\n"
        "  FAIL  max(post)<50ms  100.000 ms\n"
        "  pass  errors<1%       0.9091%\n"
        "  FAIL  lost==0         not measured\n");
  CHECK(thresholds_text({}).empty());
  std::string text;
  JsonWriter json(text);
  thresholds_json(json, verdicts);
  simdjson::dom::parser parser;
  const simdjson::dom::element array = parser.parse(text);
  CHECK(bool(array.at(1)["held"]));
  CHECK(double(array.at(0)["value"]) == 100);
  CHECK(std::string_view(array.at(0)["unit"]) == "ms");
  CHECK(array.at(2)["value"].is_null());
}

}  // namespace
}  // namespace dlb::loadgen
