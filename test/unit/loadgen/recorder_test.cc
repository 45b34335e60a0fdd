#include "loadgen/recorder.h"

#include <map>

#include "common/rng.h"
#include "test/support/catch.h"

namespace dlb::loadgen {
namespace {

OperationResult result(OperationClass operation_class, Bucket bucket) {
  OperationResult r;
  r.operation_class = operation_class;
  r.bucket = bucket;
  r.backend = kNoBackend;
  return r;
}

TEST_CASE("whatever happens, the buckets sum to the plan") {
  Rng rng(99);
  for (int round = 0; round < 200; ++round) {
    Recorder recorder;
    const std::uint64_t planned = rng.below(300);
    const std::uint64_t issued = rng.below(planned + 1);
    const bool plan_known = rng.below(2) == 0;
    if (plan_known) recorder.set_planned(planned);
    std::uint64_t failed = 0;
    for (std::uint64_t i = 0; i < issued; ++i) {
      const auto c = static_cast<OperationClass>(rng.below(kOperationClasses));
      const auto bucket = static_cast<Bucket>(rng.below(kBuckets - 1));
      if (bucket != Bucket::Ok && bucket != Bucket::Interrupted) ++failed;
      recorder.issued(c);
      recorder.record(result(c, bucket));
    }
    recorder.close();
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < kBuckets; ++i) sum += recorder.in(static_cast<Bucket>(i));
    REQUIRE(sum == (plan_known ? planned : issued));
    REQUIRE(recorder.planned() == sum);
    REQUIRE(recorder.done() == issued);
    REQUIRE(recorder.failed() == failed);
    REQUIRE(recorder.not_issued() == (plan_known ? planned - issued : 0));
  }
}

TEST_CASE("every end of an exchange has its bucket") {
  const auto message = [](ExchangeEnd end, int status) {
    return bucket_of(OperationClass::Message, end, status);
  };
  CHECK(message(ExchangeEnd::Complete, 200) == Bucket::Ok);
  CHECK(message(ExchangeEnd::Complete, 201) == Bucket::Ok);
  CHECK(bucket_of(OperationClass::Feed, ExchangeEnd::Complete, 200) == Bucket::Ok);
  CHECK(bucket_of(OperationClass::Feed, ExchangeEnd::Complete, 201) == Bucket::OtherSuccess);
  for (int status = 100; status < 700; ++status) {
    const Bucket bucket = message(ExchangeEnd::Complete, status);
    const Bucket expected = status == 200 || status == 201  ? Bucket::Ok
                            : status >= 200 && status < 300 ? Bucket::OtherSuccess
                            : status >= 300 && status < 400 ? Bucket::Redirect
                            : status >= 400 && status < 500 ? Bucket::ClientError
                            : status >= 500 && status < 600 ? Bucket::ServerError
                                                            : Bucket::Malformed;
    CHECK(bucket == expected);
    // A status that was read of a response that wasn't whole decides nothing.
    CHECK(message(ExchangeEnd::ShortBody, status) == Bucket::ShortBody);
    CHECK(message(ExchangeEnd::TimedOut, status) == Bucket::TimeOut);
  }
  CHECK(message(ExchangeEnd::ConnectFailed, 0) == Bucket::Connect);
  CHECK(message(ExchangeEnd::Reset, 0) == Bucket::Reset);
  CHECK(message(ExchangeEnd::Malformed, 0) == Bucket::Malformed);
}

TEST_CASE("latencies are of ok operations only") {
  Recorder recorder;
  OperationResult r = result(OperationClass::Message, Bucket::Ok);
  r.status = 201;
  r.latency = std::chrono::microseconds(1500);
  r.header_latency = std::chrono::microseconds(1200);
  recorder.issued(r.operation_class);
  recorder.record(r);
  r.bucket = Bucket::ServerError;
  r.status = 503;
  r.latency = std::chrono::microseconds(10);
  recorder.issued(r.operation_class);
  recorder.record(r);
  const ClassTotals& totals = recorder.of(OperationClass::Message);
  CHECK(totals.latency_us.count() == 1);
  CHECK(totals.latency_us.max() == 1500);
  CHECK(totals.header_us.max() == 1200);
  CHECK(totals.statuses[101] == 1);
  CHECK(totals.statuses[403] == 1);
}

TEST_CASE("shares are kept by name, and a flood of names in one place") {
  Recorder recorder;
  const std::uint32_t a = recorder.backend_index("a");
  const std::uint32_t b = recorder.backend_index("b");
  CHECK(a != b);
  CHECK(recorder.backend_index("a") == a);
  for (std::size_t i = 0; i < Recorder::kMaxBackends * 2; ++i)
    recorder.backend_index("x" + std::to_string(i));
  CHECK(recorder.backends().size() == Recorder::kMaxBackends + 1);
  CHECK(recorder.backends().back().name == "other");
  CHECK(recorder.backend_index("b") == b);
}

TEST_CASE("a backend's name is kept with escapes, and is one however often it comes") {
  Recorder recorder;
  const std::uint32_t odd = recorder.backend_index("a\xff\xfe\x9b\xe2\x80\xae\x1b[31m");
  recorder.backend_index("b");
  CHECK(recorder.backend_index("a\xff\xfe\x9b\xe2\x80\xae\x1b[31m") == odd);
  REQUIRE(recorder.backends().size() == 2);
  CHECK(recorder.backends()[odd].name == "a\\xff\\xfe\\x9b\\u{202e}\\x1b[31m");
  recorder.close();
  Recorder total;
  total.merge(recorder);
  CHECK(total.backends()[odd].name == recorder.backends()[odd].name);
}

TEST_CASE("the interval starts anew, the totals go on") {
  Recorder recorder;
  OperationResult r = result(OperationClass::Feed, Bucket::Ok);
  r.backend = recorder.backend_index("a");
  for (int i = 0; i < 3; ++i) {
    recorder.issued(r.operation_class);
    recorder.record(r);
  }
  CHECK(recorder.interval().done == 3);
  CHECK(recorder.interval().responses == std::vector<std::uint64_t>{3});
  recorder.reset_interval();
  CHECK(recorder.interval().done == 0);
  CHECK(recorder.interval().latency_us.count() == 0);
  CHECK(recorder.interval().responses == std::vector<std::uint64_t>{0});
  CHECK(recorder.done() == 3);
}

TEST_CASE("recorders of stages, merged, say what one recorder of all would have said") {
  Rng rng(5);
  Recorder all;
  Recorder merged;
  for (int stage = 0; stage < 4; ++stage) {
    Recorder part;
    part.set_planned(120);
    for (int i = 0; i < 100; ++i) {
      OperationResult r = result(static_cast<OperationClass>(rng.below(kOperationClasses)),
                                 static_cast<Bucket>(rng.below(kBuckets - 1)));
      r.status = 503;
      r.err = static_cast<int>(rng.below(3));
      r.latency = std::chrono::milliseconds(rng.below(1000));
      const std::string backend = "sys" + std::to_string(2 + rng.below(3) + static_cast<unsigned>(stage));
      for (Recorder* recorder : {&all, &part}) {
        r.backend = recorder->backend_index(backend);
        recorder->issued(r.operation_class);
        recorder->record(r);
      }
    }
    part.close();
    merged.merge(part);
  }
  all.set_planned(480);
  all.close();
  for (std::size_t i = 0; i < kBuckets; ++i) {
    CHECK(merged.in(static_cast<Bucket>(i)) == all.in(static_cast<Bucket>(i)));
  }
  CHECK(merged.planned() == 480);
  CHECK(merged.failed() == all.failed());
  for (const auto which : {OperationClass::Message, OperationClass::Feed}) {
    CHECK(merged.of(which).statuses == all.of(which).statuses);
    for (const double percent : {0.0, 50.0, 99.0, 100.0}) {
      CHECK(merged.of(which).latency_us.percentile(percent) == all.of(which).latency_us.percentile(percent));
    }
  }
  REQUIRE(merged.backends().size() == 6);
  for (std::size_t i = 0; i < 6; ++i) {
    const BackendShare& share = merged.backends()[i];
    const BackendShare& expected = all.backends()[all.backend_index(share.name)];
    CHECK(share.responses == expected.responses);
    CHECK(share.latency_us_sum == expected.latency_us_sum);
  }
  CHECK(std::map(merged.errnos().begin(), merged.errnos().end()) ==
        std::map(all.errnos().begin(), all.errnos().end()));
}

}  // namespace
}  // namespace dlb::loadgen
