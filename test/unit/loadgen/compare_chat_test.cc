// What `loadgen compare` says of users of the chat: figures, what subscribers got wrong, and sides without a
// chat.
#include "loadgen/compare_chat.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <optional>

#include "test/support/catch.h"

namespace dlb::loadgen {
namespace {

struct Chat {
  double deliveries = 5000;
  double p99 = 40;
  int accepted = 1500;
  int missed = 0, duplicated = 0, unsettled = 0;
};

std::string json_of(const Chat& c) {
  return fmt::format(
      R"({{"passed":{},"subscribers":100,"accepted":{},"deliveries_per_second":{},"missed":{},"duplicated":{},)"
      R"("reordered":0,"altered":0,"phantom":0,"contradicted":0,"resets":0,"unsettled":{},)"
      R"("fanout_ms":{{"count":{},"p50":5,"p90":8,"p95":9,"p99":{}}},"groups":[]}})",
      c.missed + c.duplicated + c.unsettled == 0, c.accepted, c.deliveries, c.missed, c.duplicated,
      c.unsettled, 100 * c.accepted, c.p99);
}

// A run of an HTTP load, with or without subscribers; `seconds` of a series.
ComparedRun run_of(const std::optional<Chat>& chat, const std::string& name = "a.json", int seconds = 0) {
  std::string list = "[";
  for (int i = 0; i < seconds; ++i) list += fmt::format("{},", 1000 + 20 * (i % 4));
  list += "1]";
  auto run = read_compared_run(
      fmt::format(
          R"({{"schema":2,"operations":{{"done":20000,"failed":0,"throughput_per_second":1000,"message":)"
          R"({{"latency_ms":{{"count":19000,"p50":10,"p95":20,"p99":40}}}}}},"series":{{"ok":{0}}},)"
          R"("chat":{1}}})",
          list, chat ? json_of(*chat) : "null"),
      name);
  REQUIRE(run.has_value());
  return std::move(*run);
}

// Three repetitions, a little apart.
std::vector<ComparedRun> side(const Chat& chat, std::string_view name = "a") {
  std::vector<ComparedRun> runs;
  for (const double wobble : {0.99, 1.0, 1.02}) {
    Chat one = chat;
    one.deliveries *= wobble;
    one.p99 *= wobble;
    runs.push_back(run_of(one, fmt::format("{}{}.json", name, runs.size() + 1)));
  }
  return runs;
}

const FigureVerdict* find(const CompareResult& result, std::string_view name) {
  const auto found = std::ranges::find(result.figures, name, &FigureVerdict::name);
  return found == result.figures.end() ? nullptr : &*found;
}

const FigureVerdict& figure(const CompareResult& result, std::string_view name) {
  INFO(name);
  const FigureVerdict* const found = find(result, name);
  REQUIRE(found != nullptr);
  return *found;
}

bool warns(const CompareResult& result, std::string_view part) {
  return std::ranges::any_of(result.warnings,
                             [&](const std::string& one) { return one.find(part) != one.npos; });
}

TEST_CASE("compare chat: repetitions, each way") {
  const auto a = side({});
  const CompareResult same = compare(a, side({}), {});
  CHECK(same.overall == Verdict::Same);
  CHECK(same.chat == ChatSides::Both);
  CHECK(same.warnings.empty());
  for (const char* name : {"deliveries", "fan-out p50", "fan-out p95", "fan-out p99", "chat missed",
                           "chat duplicated", "chat reordered", "chat altered", "chat phantom"}) {
    CHECK(figure(same, name).verdict == Verdict::Same);
  }
  CHECK(find(same, "chat not right") == nullptr);

  const CompareResult slow = compare(a, side({.p99 = 80}), {});
  CHECK(slow.overall == Verdict::Worse);
  CHECK(figure(slow, "fan-out p99").verdict == Verdict::Worse);
  CHECK(figure(slow, "fan-out p99").estimate.value == Approx(2));
  CHECK(figure(slow, "fan-out p99").adjusted_p > figure(slow, "fan-out p99").estimate.p);  // one of several
  CHECK(figure(compare(a, side({.deliveries = 8000}), {}), "deliveries").verdict == Verdict::Better);
  CHECK(compare(a, side({.p99 = 42}), {}).overall == Verdict::Same);  // within --run-spread
}

TEST_CASE("compare chat: a percentile needs ten messages beyond it, however many got each of them") {
  const CompareResult result = compare(side({.accepted = 999}), side({.p99 = 400, .accepted = 999}), {});
  CHECK(figure(result, "fan-out p99").verdict == Verdict::NotJudged);
  CHECK(figure(result, "fan-out p99").reason == "under 10 messages beyond it in a run");
  CHECK(figure(result, "fan-out p95").verdict == Verdict::Same);
  CHECK(compare(side({.accepted = 1000}), side({.p99 = 400, .accepted = 1000}), {}).overall ==
        Verdict::Worse);
}

TEST_CASE("compare chat: a side that is not right is never the same or better") {
  const Chat wrong{.deliveries = 9000, .p99 = 4, .missed = 3};
  const auto good = side({});
  const auto bad = side(wrong, "b");
  const CompareResult worse = compare(good, bad, {});
  CHECK(worse.overall == Verdict::Worse);
  CHECK(figure(worse, "chat missed").verdict == Verdict::Worse);
  CHECK(figure(worse, "chat missed").b == 3);
  CHECK(figure(worse, "chat not right").verdict == Verdict::Worse);
  for (const char* name : {"deliveries", "fan-out p99"}) {
    CHECK(figure(worse, name).verdict == Verdict::NotJudged);
    CHECK_FALSE(figure(worse, name).reason.empty());
  }
  CHECK(warns(worse, "the chat of B is not right in 3 of 3 runs; b1.json: missed 3"));
  CHECK(figure(compare(good, side({.p99 = 90, .missed = 3}), {}), "fan-out p99").verdict == Verdict::Worse);

  const CompareResult better = compare(bad, good, {});
  CHECK(better.overall == Verdict::Better);
  CHECK(figure(better, "fan-out p99").verdict == Verdict::NotJudged);

  const CompareResult fewer = compare(bad, side({.p99 = 1, .missed = 1}), {});
  CHECK(fewer.overall == Verdict::NotJudged);
  CHECK(figure(fewer, "chat missed").verdict == Verdict::NotJudged);
  const CompareResult otherwise = compare(side({.missed = 3}), side({.duplicated = 2}), {});
  CHECK(otherwise.overall == Verdict::NotJudged);  // each is right in what the other is wrong in
  CHECK(compare_text(fewer, bad, bad, {}).find("no verdict: a side that is not right") != std::string::npos);
  CHECK(compare(bad, bad, {}).overall == Verdict::NotJudged);
  CHECK(compare(bad, side({.missed = 9}), {}).overall == Verdict::Worse);

  auto once = side({});
  once[1].chat->passed = false;  // away at the end
  once[1].chat->unsettled = 2;
  const CompareResult some = compare(good, once, {});
  CHECK(some.overall == Verdict::Worse);
  CHECK(figure(some, "chat not right").b == Approx(1.0 / 3));
  CHECK(warns(some, "in 1 of 3 runs; a2.json: away or behind at the end 2"));
}

TEST_CASE("compare chat: one run a side has no seconds of the chat") {
  const std::vector<ComparedRun> a = {run_of(Chat{}, "a.json", 20)};
  const CompareResult same = compare(a, a, {});
  CHECK(same.by_seconds);
  CHECK(same.judged > 0);
  CHECK(same.overall == Verdict::Same);
  for (const char* name : {"deliveries", "fan-out p50", "fan-out p99"}) {
    CHECK(figure(same, name).verdict == Verdict::NotJudged);
    CHECK(figure(same, name).reason.find("no seconds of the chat") != std::string::npos);
  }
  CHECK(compare_text(same, a, a, {})
            .find("note: deliveries, fan-out p50, fan-out p95, fan-out p99 not judged: one "
                  "run a side") != std::string::npos);
  // Ten times as slow is not the same, if nobody can say what it is.
  const std::vector<ComparedRun> slow = {run_of(Chat{.p99 = 400}, "b.json", 20)};
  const CompareResult open = compare(a, slow, {});
  CHECK(open.overall == Verdict::NotJudged);
  CHECK(compare_text(open, a, slow, {}).find("the chat's figures, which could not, are apart") !=
        std::string::npos);
  const std::vector<ComparedRun> wrong = {run_of(Chat{.duplicated = 1}, "b.json", 20)};
  CHECK(compare(a, wrong, {}).overall == Verdict::Worse);
  CHECK(compare(wrong, a, {}).overall == Verdict::Better);
}

TEST_CASE("compare chat: a run whose subscribers got nothing is never the same") {
  auto b = side({});
  b[1].chat->deliveries = 0;
  b[1].chat->fanout.count = 0;
  const CompareResult result = compare(side({}), b, {});
  CHECK(result.overall == Verdict::NotJudged);
  CHECK(figure(result, "deliveries").verdict == Verdict::NotJudged);
  CHECK(warns(result, "a2.json: no subscriber got a message"));
}

TEST_CASE("compare chat: fan-out from another moment is another figure") {
  auto b = side({.p99 = 80});
  for (ComparedRun& run : b) run.chat->published = true;
  const CompareResult result = compare(side({}), b, {});
  CHECK(figure(result, "fan-out p99").verdict == Verdict::NotJudged);
  CHECK(figure(result, "fan-out p99").reason.starts_with("with publishers it is from the intended time"));
  CHECK(figure(result, "deliveries").verdict == Verdict::Same);
}

TEST_CASE("compare chat: a side without a chat is named in text and JSON") {
  const auto a = side({});
  std::vector<ComparedRun> b = a;
  for (ComparedRun& run : b) run.chat.reset();
  b[0].name = "b1.json";
  const CompareResult result = compare(a, b, {});
  constexpr std::string_view kWhy = "the chat is not compared: b1.json and 2 more had no users of it";
  CHECK(result.chat == ChatSides::Some);
  CHECK(result.chat_reason == kWhy);
  CHECK(result.overall == Verdict::Same);  // of what both have
  CHECK(find(result, "deliveries") == nullptr);
  CHECK(compare_text(result, a, b, {}).find("note: " + std::string(kWhy)) != std::string::npos);
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  REQUIRE(parser.parse(compare_json(result, a, b, {})).get(root) == simdjson::SUCCESS);
  CHECK_FALSE(bool(root["chat"]["compared"]));
  CHECK(std::string_view(root["chat"]["reason"]) == kWhy);
  const CompareResult neither = compare(b, b, {});
  CHECK(neither.chat == ChatSides::None);
  CHECK(compare_json(neither, b, b, {}).find(R"("chat":null)") != std::string::npos);

  // What is wrong stays wrong beside a side that can't be.
  const auto wrong = side({.missed = 1});
  CHECK(compare(b, wrong, {}).overall == Verdict::Worse);
  CHECK(compare(wrong, b, {}).overall == Verdict::NotJudged);
}

TEST_CASE("compare chat: the verdicts as JSON") {
  const auto a = side({});
  const auto b = side({.p99 = 400, .accepted = 500});
  const CompareResult result = compare(a, b, {});
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  REQUIRE(parser.parse(compare_json(result, a, b, {})).get(root) == simdjson::SUCCESS);
  CHECK(bool(root["chat"]["compared"]));
  bool seen = false;
  for (const simdjson::dom::element one : root["figures"].get_array()) {
    if (std::string_view(one["name"]) != "fan-out p99") continue;
    seen = true;
    CHECK(std::string_view(one["verdict"]) == "not judged");
    CHECK(std::string_view(one["reason"]) == "under 10 messages beyond it in a run");
  }
  CHECK(seen);
}

}  // namespace
}  // namespace dlb::loadgen
