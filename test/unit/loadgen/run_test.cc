// Whole runs in this process: targets, stages, verification, report files, exit codes; and the verifier
// against servers whose feeds have planted faults.
#include "loadgen/run.h"

#include <pthread.h>
#include <signal.h>
#include <simdjson.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "common/json_writer.h"
#include "loadgen/report.h"
#include "test/support/catch.h"
#include "test/unit/loadgen/scripted_server.h"

namespace dlb::loadgen::test {
namespace {

using std::chrono::milliseconds;

// A chat in memory: accepts messages and serves them as the feed.
class FakeChat {
 public:
  enum class Fault { None, Lose, Double, Reorder, Alter, Count, FeedUnavailable, FeedAbsent, FeedEndless };

  explicit FakeChat(Fault fault = Fault::None)
      : server_([this, fault](const Received& r) { return answer(r, fault); }) {}

  std::string url() const { return server_.url(); }
  ScriptedServer& server() { return server_; }
  std::vector<std::string> ids() const { return ids_; }  // call it when no request is under way
  Duration delay{};
  int fail_every = 0;        // each n-th message gets 503
  bool is_balancer = false;  // answers as one, and as its backend sys2; sys10 it tells of is not there

 private:
  struct Row {
    std::string id, name, text;
  };

  Reply answer(const Received& r, Fault fault) {
    const Reply::Then then = r.header("Connection") == "close" ? Reply::Then::Close : Reply::Then::Keep;
    if (is_balancer && r.is_feed()) {
      if (const std::string page = own_page(r.text); !page.empty())
        return Reply{{response(200, page)}, then, {}};
    }
    if (r.is_feed()) {
      ++feeds_;
      if (fault == Fault::FeedAbsent) return Reply{{response(404)}, then, {}};
      if (fault == Fault::FeedEndless) {
        return Reply{{"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n{\"messages\":["},
                     Reply::Then::Hang,
                     {}};
      }
      if (fault == Fault::FeedUnavailable && feeds_ < 3) return Reply{{response(503)}, then, {}};
      return Reply{{response(200, feed(fault))}, then, delay};
    }
    ++messages_;
    if (fail_every > 0 && messages_ % fail_every == 0) return Reply{{response(503)}, then, {}};
    simdjson::dom::parser parser;
    const simdjson::dom::element json = parser.parse(r.text.substr(r.text.find("\r\n\r\n") + 4));
    const std::string id{std::string_view(json["message-id"])};
    if (std::find(ids_.begin(), ids_.end(), id) != ids_.end()) return Reply{{response(200)}, then, delay};
    rows_.push_back(Row{id, std::string(std::string_view(json["client-name"])),
                        std::string(std::string_view(json["msg"]))});
    ids_.push_back(rows_.back().id);
    return Reply{{response(201)}, then, delay};
  }

  std::string own_page(const std::string& request) const {
    const std::string gone = "http://127.0.0.1:" + std::to_string(closed_port());
    if (request.starts_with("GET /lb/status ")) {
      return R"({"policy":"score","backends":[{"id":"sys10","url":")" + gone + R"("},{"id":"sys2","url":")" +
             url() + R"("}]})";
    }
    if (request.starts_with("GET /lb/metrics ")) {
      return R"({"sys1":{"cpu_percent":5},"memory_guard":{"events":0},"rejections":{"memory_guard":0,"connections":0},
                 "backends":[{"id":"sys10","score":7,"cpu_percent":9},{"id":"sys2","score":8,"cpu_percent":1}]})";
    }
    if (request.starts_with("GET /internal/stats ")) return R"({"backend-id":"sys2","cpu_percent":3})";
    if (request.starts_with("GET /metrics?format=json ")) return R"({"process":{"cpu_seconds":1}})";
    return "";
  }

  std::string feed(Fault fault) const {
    std::vector<Row> rows = rows_;
    if (rows.size() > 4) {
      if (fault == Fault::Lose) rows.erase(rows.begin() + 2);
      if (fault == Fault::Double) rows.insert(rows.begin() + 3, rows[1]);
      if (fault == Fault::Alter) rows[2].text.pop_back();
    }
    std::string text;
    JsonWriter json(text);
    json.begin_object().key("messages").begin_array();
    std::size_t sequence = 1;
    for (const Row& row : rows) {
      std::size_t shown = sequence++;
      if (fault == Fault::Reorder && shown == 3) shown = 1;
      json.begin_object().field("message-id", row.id).field("client-name", row.name).field("msg", row.text);
      json.field("sequence", shown).end_object();
    }
    json.end_array().field("count", rows.size() + (fault == Fault::Count ? 1 : 0)).end_object();
    return text;
  }

  std::vector<Row> rows_;
  std::vector<std::string> ids_;
  int messages_ = 0;
  int feeds_ = 0;
  ScriptedServer server_;
};

// Blocks what a run handles, and gives the test its signals back at the end.
struct BlockedSignals {
  BlockedSignals() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    ::pthread_sigmask(SIG_BLOCK, &set, &before);
  }
  ~BlockedSignals() { ::pthread_sigmask(SIG_SETMASK, &before, nullptr); }
  sigset_t before{};
};

struct Folder {
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "loadgen-test-XXXXXX").string();
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    path = pattern;
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string path;

  std::string read(const std::string& name) const {
    std::ifstream file(std::filesystem::path(path) / name);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  std::vector<std::string> json_files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      if (entry.path().extension() == ".json") names.push_back(entry.path().filename().string());
    }
    return names;
  }
};

struct RunBench {
  RunBench() {
    options.users = 4;
    options.requests = 60;
    options.seed = 5;
    options.metrics_interval = std::chrono::hours(1);
    options.out_dir = folder.path;
    options.experiment = "test";
    options.verify_feed = true;
  }

  ExitCode execute() {
    std::vector<Target> targets;
    for (const std::string& url : options.url) targets.push_back(*parse_target(url));
    std::vector<Target> verify;
    for (const std::string& url : options.verify_urls) verify.push_back(*parse_target(url));
    char* bytes = nullptr;
    std::size_t size = 0;
    std::FILE* out = ::open_memstream(&bytes, &size);
    Run run(options, targets, verify, *sampler_plan(options, targets, verify, false), out);
    const ExitCode code = run.execute();
    std::fclose(out);
    printed.assign(bytes, size);
    std::free(bytes);
    return code;
  }

  simdjson::dom::element report() {
    const auto files = folder.json_files();
    REQUIRE(files.size() == 1);
    text = folder.read(files.front());
    simdjson::dom::element json;
    REQUIRE(parser.parse(text).get(json) == simdjson::SUCCESS);
    return json;
  }

  BlockedSignals signals;
  Folder folder;
  Options options;
  std::string printed;
  std::string text;
  simdjson::dom::parser parser;
};

TEST_CASE("a good run passes, is verified, and leaves its files") {
  FakeChat chat;
  RunBench bench;
  bench.options.url = {chat.url()};
  bench.options.feed_percent = 20;
  bench.options.max_errors = "0";
  CHECK(bench.execute() == ExitCode::Passed);
  CHECK(bench.printed.find("buckets: ok 60 ") != std::string::npos);
  CHECK(bench.printed.find(": verified, ") != std::string::npos);
  CHECK(bench.printed.find("FAILED") == std::string::npos);
  const auto json = bench.report();
  CHECK(std::int64_t(json["schema"]) == kReportSchema);
  CHECK(std::int64_t(json["exit_code"]) == 0);
  CHECK(std::int64_t(json["operations"]["planned"]) == 60);
  CHECK(std::int64_t(json["operations"]["buckets"]["ok"]) == 60);
  CHECK(std::int64_t(json["config"]["seed"]) == 5);
  CHECK(bool(json["verification"]["passed"]));
  CHECK(std::int64_t(json["verification"]["feed"]["found"]) ==
        std::int64_t(json["operations"]["message"]["issued"]));
  CHECK(std::int64_t(json["verification"]["feed"]["rows"]) == static_cast<std::int64_t>(chat.ids().size()));
  std::int64_t sum = 0;
  for (const auto field : simdjson::dom::object(json["operations"]["buckets"]))
    sum += std::int64_t(field.value);
  CHECK(sum == 60);

  // A second run appends a row and writes a file of its own.
  bench.options.seed = 6;
  CHECK(bench.execute() == ExitCode::Passed);
  CHECK(bench.folder.json_files().size() == 2);
  const std::string csv = bench.folder.read("summary.csv");
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 3);
  const std::string header = csv.substr(0, csv.find('\n'));
  std::size_t from = 0;
  for (int line = 0; line < 3; ++line) {
    const std::size_t end = csv.find('\n', from);
    const std::string row = csv.substr(from, end - from);
    CHECK(std::count(row.begin(), row.end(), ',') == std::count(header.begin(), header.end(), ','));
    from = end + 1;
  }
}

TEST_CASE("a run leaves its series, and rows a stage and kind") {
  FakeChat chat;
  RunBench bench;
  bench.options.url = {chat.url()};
  bench.options.feed_percent = 20;
  CHECK(bench.execute() == ExitCode::Passed);
  const std::string stem =
      bench.folder.json_files().front().substr(0, bench.folder.json_files().front().size() - 5);
  CHECK(bench.folder.read(stem + "-series.csv").starts_with("schema,second,"));
  CHECK_FALSE(std::filesystem::exists(bench.folder.path + "/" + stem + "-metrics.csv"));  // nobody to ask
  const auto json = bench.report();
  std::int64_t done = 0;
  for (const auto value : simdjson::dom::array(json["series"]["done"])) done += std::int64_t(value);
  CHECK(done == 60);
  CHECK(simdjson::dom::array(json["systems"]).size() == 0);
  CHECK(json["verdict"].error() != simdjson::SUCCESS);
  const std::string operations = bench.folder.read("operation-summary.csv");
  CHECK(operations.find(",test,measured,message,4,,") != std::string::npos);
  CHECK(operations.find(",test,measured,feed,4,,") != std::string::npos);
  CHECK(operations.find(",test,measured,all,4,60,60,0,60,60,60,0,0,0,0,") != std::string::npos);
  const std::string heads = bench.folder.read("header-acceptance.csv");
  CHECK(heads.find(",100.0000,100.0000,") != std::string::npos);
}

TEST_CASE("balancer and backends are asked; one that does not answer is shown as the balancer sees it") {
  FakeChat chat;
  chat.is_balancer = true;
  RunBench bench;
  bench.options.url = {chat.url()};
  CHECK(bench.execute() == ExitCode::Passed);
  const auto json = bench.report();
  std::vector<std::string> seen;
  for (const auto system : simdjson::dom::array(json["systems"])) {
    seen.push_back(std::string(std::string_view(system["name"])) + " " +
                   std::string(std::string_view(system["id"])) + " " +
                   std::string(std::string_view(system["source"])));
    CHECK(std::int64_t(system["samples"]) == 2);  // before and behind the stage
    CHECK(std::int64_t(system["missed"]) == 0);
  }
  CHECK(seen == std::vector<std::string>{"Sys1 lb direct", "Sys2 sys2 direct", "Sys3 sys10 balancer"});
  CHECK(double(json["systems"].at(0)["cpu_percent"]["mean"]) == 5);
  CHECK(double(json["systems"].at(1)["cpu_percent"]["mean"]) == 3);
  CHECK(double(json["systems"].at(1)["score"]["mean"]) == 8);
  CHECK(double(json["systems"].at(2)["cpu_percent"]["mean"]) == 9);
  CHECK(std::int64_t(json["connections"]["stray_bytes"]) == 0);
  CHECK(std::int64_t(json["operations"]["done"]) == 60);
  bench.options.lb_url = "none";
  bench.options.seed = 6;
  bench.options.out_dir = "";
  CHECK(bench.execute() == ExitCode::Passed);
}

TEST_CASE("a ladder of the leaderboard says why it is not promotable, and exits 3") {
  FakeChat chat;
  chat.is_balancer = true;
  RunBench bench;
  bench.options.url = {chat.url()};
  bench.options.profile = "leaderboard-static";
  bench.options.requests = 20;
  CHECK(bench.execute() == ExitCode::NotVerified);
  const auto json = bench.report();
  CHECK_FALSE(bool(json["verdict"]["promotable"]));
  REQUIRE(simdjson::dom::array(json["verdict"]["reasons"]).size() == 1);
  CHECK(std::string_view(json["verdict"]["reasons"].at(0)) ==
        "options change what the profile is defined as");
  CHECK(bench.printed.find("NOT PROMOTABLE: options change what the profile is defined as\n") !=
        std::string::npos);
}

TEST_CASE("the same seed again: the same ids, answered and found once") {
  FakeChat first;
  FakeChat second;
  RunBench bench;
  for (FakeChat* chat : {&first, &second}) {
    bench.options.url = {chat->url()};
    CHECK(bench.execute() == ExitCode::Passed);
  }
  auto a = first.ids();
  auto b = second.ids();
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  CHECK(a == b);
}

TEST_CASE("planted faults in the feed fail the run") {
  const auto [fault, field] = GENERATE(table<FakeChat::Fault, std::string>({
      {FakeChat::Fault::Lose, "lost"},
      {FakeChat::Fault::Double, "duplicated"},
      {FakeChat::Fault::Alter, "altered"},
      {FakeChat::Fault::Reorder, "out_of_order"},
  }));
  FakeChat chat(fault);
  RunBench bench;
  bench.options.url = {chat.url()};
  CHECK(bench.execute() == ExitCode::NotVerified);
  const auto json = bench.report();
  CHECK_FALSE(bool(json["verification"]["passed"]));
  CHECK(bench.printed.find("FAILED: the feed is not verified") != std::string::npos);
  CHECK(std::int64_t(json["verification"]["feed"][field]) == 1);
  CHECK(std::int64_t(json["exit_code"]) == 3);
  CHECK(std::int64_t(json["operations"]["buckets"]["ok"]) == 60);
  CHECK(simdjson::dom::array(json["verification"]["feed"]["examples"]).size() >= 1);
}

TEST_CASE("a wrong count fails the run") {
  FakeChat chat(FakeChat::Fault::Count);
  RunBench bench;
  bench.options.url = {chat.url()};
  CHECK(bench.execute() == ExitCode::NotVerified);
  CHECK(bool(bench.report()["verification"]["feed"]["wrong_count"]));
}

TEST_CASE("without verification nobody reads the feed") {
  FakeChat chat(FakeChat::Fault::Lose);
  RunBench bench;
  bench.options.url = {chat.url()};
  bench.options.verify_feed = false;
  CHECK(bench.execute() == ExitCode::Passed);
  CHECK(bench.report()["verification"].is_null());
}

TEST_CASE("a feed that is away for a moment is asked for again") {
  FakeChat chat(FakeChat::Fault::FeedUnavailable);
  RunBench bench;
  bench.options.url = {chat.url()};
  CHECK(bench.execute() == ExitCode::Passed);
}

TEST_CASE("a feed that does not end is given up, and the run is not verified") {
  FakeChat chat(FakeChat::Fault::FeedEndless);
  RunBench bench;
  bench.options.url = bench.options.verify_urls = {chat.url()};
  bench.options.verify_timeout = milliseconds(100);
  CHECK(bench.execute() == ExitCode::NotVerified);
  CHECK(bench.printed.find(": NOT CHECKED, the feed had not ended after 100ms\n") != std::string::npos);
}

TEST_CASE("failed messages are ambiguous, and counted against max-errors") {
  FakeChat chat;
  chat.fail_every = 10;
  RunBench bench;
  bench.options.url = {chat.url()};
  const auto [limit, code] = GENERATE(table<std::string, ExitCode>({{"0", ExitCode::NotVerified},
                                                                    {"5", ExitCode::NotVerified},
                                                                    {"6", ExitCode::Passed},
                                                                    {"9.9%", ExitCode::NotVerified},
                                                                    {"10%", ExitCode::Passed}}));
  bench.options.max_errors = limit;
  bench.options.error_limit = *parse_error_limit(limit);
  CHECK(bench.execute() == code);
  const auto json = bench.report();
  CHECK(std::int64_t(json["operations"]["failed"]) == 6);
  CHECK(std::int64_t(json["operations"]["message"]["statuses"]["503"]) == 6);
  CHECK(std::int64_t(json["verification"]["ambiguous"]) == 6);
  CHECK(bool(json["verification"]["passed"]));
}

TEST_CASE("a threshold that does not hold fails the run, and the report says which") {
  FakeChat chat;
  RunBench bench;
  bench.options.url = {chat.url()};
  bench.options.thresholds = *parse_thresholds("errors==0,lost==0,max(post)<0");
  CHECK(bench.execute() == ExitCode::NotVerified);
  const auto json = bench.report();
  CHECK(bool(json["thresholds"].at(0)["held"]));
  CHECK(bool(json["thresholds"].at(1)["held"]));
  CHECK_FALSE(bool(json["thresholds"].at(2)["held"]));
  CHECK(bench.printed.find("  pass  lost==0 ") != std::string::npos);
  CHECK(bench.printed.find("FAILED: max(post)<0: ") != std::string::npos);
}

TEST_CASE("feeds of backends must be byte-equal") {
  FakeChat chat;
  RunBench bench;
  bench.options.url = {chat.url()};
  SECTION("they are") {
    bench.options.verify_urls = {chat.url(), chat.url()};
    CHECK(bench.execute() == ExitCode::Passed);
    const auto json = bench.report();
    CHECK(bool(json["verification"]["backends_equal"]));
    CHECK(simdjson::dom::array(json["verification"]["backends"]).size() == 2);
  }
  SECTION("they are not") {
    FakeChat other;
    bench.options.verify_urls = {chat.url(), other.url()};
    CHECK(bench.execute() == ExitCode::NotVerified);
    CHECK_FALSE(bool(bench.report()["verification"]["backends_equal"]));
  }
}

TEST_CASE("nothing listens at the target: usage error, and no file") {
  RunBench bench;
  bench.options.url = {"http://127.0.0.1:" + std::to_string(closed_port())};
  CHECK(bench.execute() == ExitCode::Usage);
  CHECK(bench.folder.json_files().empty());
}

TEST_CASE("files that can't be written fail a run that passed") {
  FakeChat chat;
  RunBench bench;
  bench.options.url = {chat.url()};
  bench.options.out_dir = "/proc/nowhere";
  CHECK(bench.execute() == ExitCode::Failed);
  bench.options.out_dir = "";
  CHECK(bench.execute() == ExitCode::Passed);
}

TEST_CASE("a signal ends the run with a report of what was done") {
  FakeChat chat;
  RunBench bench;
  bench.options.url = {chat.url()};
  bench.options.requests = 1'000'000;
  bench.options.interval_min = bench.options.interval_max = milliseconds(5);
  std::thread killer([&chat, self = ::pthread_self()] {
    while (chat.server().requests().size() < 20) std::this_thread::yield();
    ::pthread_kill(self, SIGTERM);
  });
  CHECK(bench.execute() == ExitCode::Interrupted);
  killer.join();
  const auto json = bench.report();
  CHECK(bool(json["interrupted"]));
  CHECK(std::int64_t(json["exit_code"]) == 130);
  CHECK(std::int64_t(json["operations"]["done"]) >= 16);
  CHECK(std::int64_t(json["operations"]["buckets"]["not_issued"]) > 0);
  CHECK(json["verification"].is_null());
}

TEST_CASE("a run that a signal ends in its warm-up is dated, too") {
  FakeChat chat;
  RunBench bench;
  bench.options.url = {chat.url()};
  bench.options.warmup = std::chrono::seconds(60);
  bench.options.interval_min = bench.options.interval_max = milliseconds(5);
  std::thread killer([&chat, self = ::pthread_self()] {
    while (chat.server().requests().size() < 20) std::this_thread::yield();
    ::pthread_kill(self, SIGTERM);
  });
  CHECK(bench.execute() == ExitCode::Interrupted);
  killer.join();
  CHECK_FALSE(std::string_view(bench.report()["started"]).starts_with("1970"));
}

TEST_CASE("a signal while nobody has answered yet cuts the operations, and the report is whole") {
  ScriptedServer server([](const Received&) { return Reply{{}, Reply::Then::Keep, {}}; });
  RunBench bench;
  bench.options.url = {server.url()};
  std::thread killer([&server, self = ::pthread_self()] {
    while (server.requests().size() < 4) std::this_thread::yield();
    ::pthread_kill(self, SIGHUP);
  });
  CHECK(bench.execute() == ExitCode::Interrupted);
  killer.join();
  const auto json = bench.report();
  CHECK(std::int64_t(json["operations"]["buckets"]["interrupted"]) == 4);
  CHECK(std::int64_t(json["operations"]["buckets"]["not_issued"]) == 56);
}

TEST_CASE("a warm-up isn't counted, but its messages are verified") {
  FakeChat chat;
  RunBench bench;
  bench.options.url = {chat.url()};
  bench.options.warmup = milliseconds(50);
  CHECK(bench.execute() == ExitCode::Passed);
  const auto json = bench.report();
  CHECK(std::int64_t(json["operations"]["done"]) == 60);
  CHECK(chat.ids().size() > 60);
  CHECK(std::int64_t(json["verification"]["accepted"]) == static_cast<std::int64_t>(chat.ids().size()));
}

TEST_CASE("a cool-down isn't counted and has no rows, but its messages are verified") {
  FakeChat chat;
  RunBench bench;
  bench.options.url = {chat.url()};
  bench.options.cooldown = milliseconds(50);
  CHECK(bench.execute() == ExitCode::Passed);
  const auto json = bench.report();
  CHECK(double(json["config"]["cooldown_seconds"]) == 0.05);
  CHECK(std::int64_t(json["operations"]["done"]) == 60);
  CHECK(chat.ids().size() > 60);
  CHECK(std::int64_t(json["verification"]["accepted"]) == static_cast<std::int64_t>(chat.ids().size()));
  std::int64_t done = 0;
  for (const auto rows : simdjson::dom::array(json["series"]["done"])) done += std::int64_t(rows);
  CHECK(done == 60);
}

// The users of each stage, and whether it ran.
std::vector<std::pair<std::int64_t, bool>> stages_of(simdjson::dom::element json) {
  std::vector<std::pair<std::int64_t, bool>> stages;
  for (const auto stage : simdjson::dom::array(json["stages"])) {
    stages.emplace_back(std::int64_t(stage["users"]), bool(stage["ran"]));
  }
  return stages;
}

TEST_CASE("a ladder's stages are reported one by one and together; repeated messages are there once") {
  FakeChat chat;
  RunBench bench;
  bench.options.url = {chat.url()};
  bench.options.profile = "duplicate-breakpoint";
  bench.options.requests = 20;
  CHECK(bench.execute() == ExitCode::Passed);
  CHECK(chat.ids().size() == 20);
  const auto json = bench.report();
  CHECK(stages_of(json) == std::vector<std::pair<std::int64_t, bool>>{{200, true},
                                                                      {350, true},
                                                                      {500, true},
                                                                      {750, true},
                                                                      {1000, true},
                                                                      {1500, true},
                                                                      {2000, true},
                                                                      {2500, true}});
  CHECK(std::int64_t(json["operations"]["buckets"]["ok"]) == 160);
  CHECK(std::int64_t(json["operations"]["message"]["statuses"]["201"]) == 20);
  CHECK(std::int64_t(json["stages"].at(0)["operations"]["message"]["statuses"]["201"]) == 20);
  CHECK(std::int64_t(json["stages"].at(7)["operations"]["message"]["statuses"]["200"]) == 20);
  CHECK(std::int64_t(json["verification"]["accepted"]) == 20);
  CHECK(bench.printed.find("\nbreakpoint-2500 ") != std::string::npos);
}

TEST_CASE("a breakpoint ladder ends behind a stage with too many errors; what did not run is not_issued") {
  FakeChat chat;
  chat.fail_every = 2;
  RunBench bench;
  bench.options.url = {chat.url()};
  bench.options.profile = "leaderboard-paired-v2";
  bench.options.requests = 20;
  CHECK(bench.execute() == ExitCode::NotVerified);
  const auto json = bench.report();
  const auto stages = stages_of(json);
  REQUIRE(stages.size() == 12);
  for (std::size_t i = 0; i < stages.size(); ++i) CHECK(stages[i].second == (i <= 4));
  CHECK(std::int64_t(json["operations"]["planned"]) == 240);
  CHECK(std::int64_t(json["operations"]["buckets"]["ok"]) == 50);
  CHECK(std::int64_t(json["operations"]["buckets"]["5xx"]) == 50);
  CHECK(std::int64_t(json["operations"]["buckets"]["not_issued"]) == 140);
  CHECK(bench.printed.find("breakpoint-2500  not run\n") != std::string::npos);
}

TEST_CASE("more descriptors than the hard limit allows is an error that says what to do") {
  CHECK(raise_descriptor_limit(64).has_value());
  const auto refused = raise_descriptor_limit(std::uint64_t{1} << 40);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().text.find("hard limit") != std::string::npos);
}

}  // namespace
}  // namespace dlb::loadgen::test
