#include "common/option.h"

#include <cmath>

#include "common/rng.h"
#include "test/support/catch.h"
#include "test/support/temp_dir.h"

using namespace dlb;
using namespace std::chrono_literals;

namespace {

struct BackendRow {
  std::string id;
  std::int64_t weight = 1;
  std::vector<std::string> tags;
  std::string place;
};

struct ScaleTable {
  std::int64_t min = 1;
  std::string command;
};

struct Sample {
  std::string listen = ":8080";
  std::int64_t max_inflight = 100;
  double threshold = 75;
  Duration interval = 1s;
  ByteSize buffer = kib(32);
  bool fallback = true;
  std::string policy = "score";
  std::vector<std::string> feed_paths{"/feed"};
  std::string token;
  std::int64_t offset = 0;
  std::vector<BackendRow> backend;
  ScaleTable scale;
};

constexpr std::string_view kPolicies[] = {"score", "least_conn", "round_robin"};
constexpr OptionRow kBackendRows[] = {
    option<&BackendRow::id>("id", {.help = "Name."}),
    option<&BackendRow::weight>("weight", {.min = 0, .max = 1000, .help = "Share."}),
    option<&BackendRow::tags>("tags", {.help = "Any."}),
};
constexpr OptionRow kScaleRows[] = {
    option<&ScaleTable::min>("min", {.min = 1, .max = 8, .help = "Least."}),
    option<&ScaleTable::command>("command", {.help = "What to run."}),
};
constexpr OptionRow kRows[] = {
    option<&Sample::listen>("listen", {.unit = "address", .help = "Public listener."}),
    option<&Sample::max_inflight>(
        "max-inflight",
        {.min = 1, .max = 1000, .unit = "requests", .apply = Apply::Live, .help = "Full load."}),
    option<&Sample::threshold>("threshold", {.min = 0, .max = 100, .apply = Apply::Live, .help = "Score."}),
    option<&Sample::interval>("health-interval", {.min = 1ms, .max = 1h, .help = "Between checks."}),
    option<&Sample::buffer>("buffer-bytes", {.min = 0, .max = mib(1), .help = "Buffer."}),
    option<&Sample::fallback>("panic-fallback", {.help = "Panic."}),
    option<&Sample::policy>("policy", {.choices = kPolicies, .help = "How to pick."}),
    option<&Sample::feed_paths>("feed-paths", {.max = 4, .help = "Feeds."}),
    option<&Sample::token>("token", {.secret = true, .help = "Secret."}),
    option<&Sample::offset>("offset", {.min = -10, .max = 10, .help = "May be negative."}),
    option_tables<&Sample::backend>("backend", kBackendRows, "a backend"),
    option_table<&Sample::scale>("scale", kScaleRows, "scaling"),
};
constexpr OptionTable kTable{.program = "sample", .environment_prefix = "LB_", .rows = kRows};

struct Loaded {
  Sample options;
  Result<LoadedOptions> result = Error{};
};

Loaded load(std::vector<const char*> arguments, std::vector<const char*> environment = {},
            const OptionTable& table = kTable) {
  Loaded loaded;
  arguments.insert(arguments.begin(), "sample");
  environment.push_back(nullptr);
  loaded.result = load_options(table, loaded.options, static_cast<int>(arguments.size()), arguments.data(),
                               environment.data());
  return loaded;
}

std::string error_of(const Loaded& loaded) { return loaded.result ? "no error" : loaded.result.error().text; }

Loaded load_file(const test::TempDir& dir, std::string_view text) {
  const std::string path = dir.write("t.conf", text);
  return load({"-c", path.c_str()});
}

// The error without the folder: `t.conf:1:2: ...`.
std::string file_error(std::string_view text) {
  const test::TempDir dir;
  const std::string error = error_of(load_file(dir, text));
  REQUIRE(error.starts_with(dir.path() + "/"));
  return error.substr(dir.path().size() + 1);
}

}  // namespace

TEST_CASE("without any source the defaults are in force", "[option]") {
  const Loaded loaded = load({});
  REQUIRE(loaded.result.has_value());
  CHECK(loaded.result->action == OptionAction::Run);
  CHECK(loaded.options.max_inflight == 100);
  CHECK_FALSE(loaded.result->given("max-inflight"));
}

TEST_CASE("every type is read from the file", "[option]") {
  const test::TempDir dir;
  const Loaded loaded =
      load_file(dir,
                "listen = \":1\"\nmax-inflight = 7\nthreshold = 12.5\nhealth-interval = \"250ms\"\n"
                "buffer-bytes = 4096\npanic-fallback = false\npolicy = \"least_conn\"\n"
                "feed-paths = [\"/a\", \"/b,c\"]\noffset = -3\n"
                "[[backend]]\nid = \"x\"\nweight = 4\n\n[[backend]]\nid = \"y\"\ntags = [\"q\"]\n"
                "[scale]\nmin = 3\n");
  REQUIRE(error_of(loaded) == "no error");
  const Sample& o = loaded.options;
  CHECK(o.listen == ":1");
  CHECK(o.max_inflight == 7);
  CHECK(o.threshold == 12.5);
  CHECK(o.interval == 250ms);
  CHECK(o.buffer == kib(4));
  CHECK_FALSE(o.fallback);
  CHECK(o.policy == "least_conn");
  CHECK(o.feed_paths == std::vector<std::string>{"/a", "/b,c"});
  CHECK(o.offset == -3);
  REQUIRE(o.backend.size() == 2);
  CHECK(o.backend[0].weight == 4);
  CHECK(o.backend[0].place == dir.file("t.conf") + ":10");
  CHECK(o.backend[1].id == "y");
  CHECK(o.backend[1].place == dir.file("t.conf") + ":14");
  CHECK(o.scale.min == 3);
  CHECK(loaded.result->place("scale-min") == dir.file("t.conf") + ":18:7");
}

TEST_CASE("every type is read from the command line in each of its forms", "[option]") {
  const Loaded loaded = load({"--listen", ":2", "-max-inflight", "8", "--threshold=1.5", "--health-interval",
                              "2m", "-buffer-bytes=64KiB", "--panic-fallback=false", "--policy",
                              "round_robin", "--feed-paths", "/a, /b", "--offset", "-5", "--scale-min", "2"});
  REQUIRE(error_of(loaded) == "no error");
  CHECK(loaded.options.listen == ":2");
  CHECK(loaded.options.max_inflight == 8);
  CHECK(loaded.options.threshold == 1.5);
  CHECK(loaded.options.interval == 2min);
  CHECK(loaded.options.buffer == kib(64));
  CHECK_FALSE(loaded.options.fallback);
  CHECK(loaded.options.policy == "round_robin");
  CHECK(loaded.options.feed_paths == std::vector<std::string>{"/a", "/b"});
  CHECK(loaded.options.offset == -5);
  CHECK(loaded.options.scale.min == 2);
}

TEST_CASE("a switch takes a value or none", "[option]") {
  CHECK_FALSE(load({"--panic-fallback", "false"}).options.fallback);
  CHECK_FALSE(load({"--panic-fallback", "off"}).options.fallback);
  CHECK(load({"--panic-fallback=true"}).options.fallback);
  const Loaded bare = load({"--panic-fallback=0", "--panic-fallback", "--max-inflight", "3"});
  CHECK(bare.options.fallback);
  CHECK(bare.options.max_inflight == 3);
  CHECK(error_of(load({"--panic-fallback=maybe"})).starts_with("--panic-fallback: \"maybe\""));
}

TEST_CASE("command line wins over environment over file over default", "[option]") {
  const test::TempDir dir;
  const std::string path = dir.write("t.conf", "max-inflight = 2\nthreshold = 2\nlisten = \"file\"\n");
  const Loaded loaded =
      load({"--max-inflight", "4", "-c", path.c_str()},
           {"LB_MAX_INFLIGHT=3", "LB_THRESHOLD=3", "LB_UNKNOWN=1", "MAX_INFLIGHT=9", "BROKEN"});
  REQUIRE(error_of(loaded) == "no error");
  CHECK(loaded.options.max_inflight == 4);
  CHECK(loaded.options.threshold == 3);
  CHECK(loaded.options.listen == "file");
  CHECK(loaded.options.policy == "score");
  CHECK(loaded.result->source("max-inflight") == OptionSource::CommandLine);
  CHECK(loaded.result->source("threshold") == OptionSource::Environment);
  CHECK(loaded.result->source("listen") == OptionSource::File);
  CHECK(loaded.result->source("policy") == OptionSource::Default);
}

TEST_CASE("the environment has the program's prefix, or none", "[option]") {
  CHECK(environment_name("LB_", "max-inflight") == "LB_MAX_INFLIGHT");
  CHECK(environment_name("", "database-url") == "DATABASE_URL");
  OptionTable bare = kTable;
  bare.environment_prefix = "";
  CHECK(load({}, {"MAX_INFLIGHT=9"}, bare).options.max_inflight == 9);
}

TEST_CASE("an empty variable empties a text and leaves a number alone", "[option]") {
  const Loaded loaded = load({}, {"LB_LISTEN=", "LB_MAX_INFLIGHT=", "LB_FEED_PATHS="});
  REQUIRE(loaded.result.has_value());
  CHECK(loaded.options.listen.empty());
  CHECK(loaded.options.feed_paths.empty());
  CHECK(loaded.options.max_inflight == 100);
}

TEST_CASE("a list given several times on the command line adds up", "[option]") {
  CHECK(load({"--feed-paths", "/a", "--feed-paths", "/b,/c"}).options.feed_paths ==
        std::vector<std::string>{"/a", "/b", "/c"});
}

TEST_CASE("errors of the file name file, line, column, key and remedy", "[option]") {
  CHECK(file_error("max-inflght = 3\n") ==
        "t.conf:1:1: max-inflght: unknown option; did you mean max-inflight?");
  CHECK(file_error("\n  thresold = 3\n")
            .starts_with("t.conf:2:3: thresold: unknown option; did you mean threshold?"));
  CHECK(file_error("max-inflight = 1001") ==
        "t.conf:1:16: max-inflight: 1001 is out of range, use 1 to 1000");
  CHECK(file_error("max-inflight = \"7\"") ==
        "t.conf:1:16: max-inflight: expected an integer, found a string; write max-inflight = 1");
  CHECK(file_error("listen = 8080").starts_with("t.conf:1:10: listen: expected a string, found an integer"));
  CHECK(file_error("health-interval = 5").find("has no unit, write 5s") != std::string::npos);
  CHECK(file_error("health-interval = \"2h\"").find("out of range, use 1ms to 1h") != std::string::npos);
  CHECK(file_error("buffer-bytes = \"2MiB\"").find("out of range, use 0 to 1MiB") != std::string::npos);
  CHECK(file_error("buffer-bytes = -1").starts_with("t.conf:1:16: buffer-bytes: expected a size"));
  CHECK(file_error("policy = \"leastconn\"").find("did you mean \"least_conn\"?") != std::string::npos);
  CHECK(file_error("threshold = nan").starts_with("t.conf:1:13: threshold:"));
  CHECK(file_error("feed-paths = [\"a\", 2]")
            .starts_with("t.conf:1:14: feed-paths: expected an array of strings"));
  CHECK(file_error("feed-paths = [\"a\", \"b\", \"c\", \"d\", \"e\"]").find("5 items is out of range") !=
        std::string::npos);
  CHECK(file_error("panic-fallback = 1").starts_with("t.conf:1:18: panic-fallback: expected true or false"));
  CHECK(file_error("listen = 2026-01-01").find("found a date or time") != std::string::npos);
  CHECK(file_error("[[backend]]\nid = \"a\"\n[[backend]]\nwait = 3\n") ==
        "t.conf:4:1: backend.wait: unknown option; did you mean backend.weight?");
  CHECK(file_error("[[backend]]\nweight = 1001\n")
            .starts_with("t.conf:2:10: backend.weight: 1001 is out of range"));
  CHECK(file_error("[backend]\nid = \"a\"\n").find("[[backend]]") != std::string::npos);
  CHECK(file_error("backend = \"a\"\n").find("[[backend]]") != std::string::npos);
  CHECK(file_error("backend = [\"a\"]\n").find("[[backend]]") != std::string::npos);
  CHECK(file_error("scale = 1\n").find("[scale]") != std::string::npos);
  CHECK(file_error("[scale]\nmin = 9\n") == "t.conf:2:7: scale.min: 9 is out of range, use 1 to 8");
  CHECK(file_error("a = \n").starts_with("t.conf:1:"));
}

TEST_CASE("errors of command line and environment name flag and variable", "[option]") {
  CHECK(error_of(load({"--max-inflite", "3"})) ==
        "--max-inflite: unknown option; did you mean --max-inflight?");
  CHECK(error_of(load({"--max-inflight", "0"})) == "--max-inflight: 0 is out of range, use 1 to 1000");
  CHECK(
      error_of(load({"--max-inflight", "1.5"})).starts_with("--max-inflight: \"1.5\" is not a whole number"));
  CHECK(error_of(load({"--max-inflight", ""})).starts_with("--max-inflight: "));
  CHECK(error_of(load({"--max-inflight"})) == "--max-inflight: needs a value: --max-inflight N");
  CHECK(error_of(load({"--threshold", "inf"})).starts_with("--threshold: "));
  CHECK(error_of(load({"-c"})).starts_with("-c: needs"));
  CHECK(error_of(load({"stray"})).find("unexpected argument") != std::string::npos);
  CHECK(error_of(load({}, {"LB_THRESHOLD=many"})) == "LB_THRESHOLD: \"many\" is not a number");
  CHECK(error_of(load({"--listen", "\xff"})).starts_with("--listen: "));
}

TEST_CASE("whole numbers are compared with their bounds exactly", "[option]") {
  struct Seeds {
    std::int64_t seed = 0;
    std::int64_t any = 0;
  };
  static constexpr OptionRow rows[] = {
      option<&Seeds::seed>("seed", {.min = -9007199254740992.0, .max = 9007199254740992.0, .help = "x"}),
      option<&Seeds::any>("any", {.min = -1e30, .help = "x"}),
  };
  const OptionTable table{.program = "s", .rows = rows};
  const auto good = [&](const char* flag) {
    Seeds seeds;
    const char* argv[] = {"s", flag};
    return load_options(table, seeds, 2, argv, nullptr).has_value();
  };
  CHECK(good("--seed=9007199254740992"));
  CHECK_FALSE(good("--seed=9007199254740993"));
  CHECK(good("--seed=-9007199254740992"));
  CHECK_FALSE(good("--seed=-9007199254740993"));
  CHECK(good("--any=9223372036854775807"));
  CHECK(good("--any=-9223372036854775808"));
}

TEST_CASE("a list of commas names nothing and is refused, a blank one is empty", "[option]") {
  struct Lists {
    std::vector<std::string> urls = {"a"};
  };
  static constexpr OptionRow rows[] = {option<&Lists::urls>("urls", {.help = "x"})};
  const OptionTable table{.program = "s", .rows = rows};
  for (const auto& [flag, right] : {std::pair("--urls=,,,", false), std::pair("--urls= ", true),
                                    std::pair("--urls=", true), std::pair("--urls=,b,", true)}) {
    Lists lists;
    const char* argv[] = {"s", flag};
    const auto loaded = load_options(table, lists, 2, argv, nullptr);
    CHECK(loaded.has_value() == right);
    if (!right) CHECK(loaded.error().text == "--urls: \",,,\" names nothing");
  }
}

TEST_CASE("errors quote the begin of what is too long", "[option]") {
  std::string text = "x";
  for (int i = 0; i < 1000; ++i) text += "\xc3\xbc";
  const std::string cut = text.substr(0, 199) + "…";
  CHECK(error_of(load({"--max-inflight", text.c_str()})) ==
        "--max-inflight: \"" + cut + "\" is not a whole number");
  for (const char* option : {"--threshold", "--health-interval", "--policy", "--buffer-bytes"}) {
    const std::string error = error_of(load({option, text.c_str()}));
    CHECK(error.size() < 400);
  }
  CHECK(error_of(load({text.c_str()})).size() < 300);
  CHECK(error_of(load({("--" + text).c_str()})).size() < 300);
  const std::string line = LoadedOptions().at("url", "\"" + text + "\" is no url").text;
  CHECK(line.starts_with("url: \"xü"));
  CHECK(line.ends_with("ü\" is no url"));
  CHECK(line.size() < 450);
}

TEST_CASE("a secret's text is never quoted", "[option]") {
  struct Secrets {
    std::int64_t number = 1;
    Duration time = 1s;
    std::string text = "a";
  };
  static constexpr OptionRow rows[] = {
      option<&Secrets::number>("number", {.min = 1, .max = 10, .secret = true, .help = "x"}),
      option<&Secrets::time>("time", {.secret = true, .help = "x"}),
      option<&Secrets::text>("text", {.choices = kPolicies, .secret = true, .help = "x"}),
  };
  const OptionTable table{.program = "s", .rows = rows};
  for (const char* flag : {"--number=hunter2", "--time=hunter2", "--text=hunter2", "--number=1000000"}) {
    Secrets secrets;
    const char* argv[] = {"s", flag};
    const auto result = load_options(table, secrets, 2, argv, nullptr);
    REQUIRE_FALSE(result.has_value());
    CHECK(result.error().text.find("hunter2") == std::string::npos);
    CHECK(result.error().text.find("1000000") == std::string::npos);
  }
}

TEST_CASE("rules across fields get the place of a value", "[option]") {
  const test::TempDir dir;
  const std::string path = dir.write("t.conf", "\nthreshold = 3\n");
  const Loaded loaded = load({"-c", path.c_str(), "--listen=x"}, {"LB_OFFSET=1"});
  CHECK(loaded.result->at("threshold", "is too low").text == path + ":2:13: threshold: is too low");
  CHECK(loaded.result->at("listen", "is odd").text == "--listen: is odd");
  CHECK(loaded.result->at("offset", "is odd").text == "LB_OFFSET: is odd");
  CHECK(loaded.result->at("backend", "is missing").text == path + ": backend: is missing");
  CHECK(load({}).result->at("backend", "is missing").text == "backend: is missing");
}

TEST_CASE("help and version win over broken options", "[option]") {
  CHECK(load({"--nonsense", "--help"}).result->action == OptionAction::Help);
  CHECK(load({"--help", "-c", "/nonexistent"}).result->action == OptionAction::Help);
  CHECK(load({"--version", "-t"}).result->action == OptionAction::Version);
  CHECK(load({"-t"}).result->action == OptionAction::Check);
  CHECK(load({"--print-config"}).result->action == OptionAction::PrintConfig);
}

TEST_CASE("help shows every option with its default, the README table too", "[option]") {
  const Loaded plain = load({"--help", "--max-inflight", "5"});
  const Loaded table = load({"--help-markdown"});
  for (const OptionRow& row : kRows) {
    if (row.type == OptionType::Table || row.type == OptionType::Tables) continue;
    CHECK(plain.result->help.find("--" + std::string(row.name) + " ") != std::string::npos);
    CHECK(table.result->help.find("`" + std::string(row.name) + "`") != std::string::npos);
  }
  CHECK(plain.result->help.find("default: 100  (requests, 1 to 1000)") != std::string::npos);
  CHECK(plain.result->help.find("--scale-min") != std::string::npos);
  CHECK(plain.result->help.find("[[backend]]") != std::string::npos);
  CHECK(table.result->help.find("score \\| least_conn") != std::string::npos);
}

TEST_CASE("commands are words of the program", "[option]") {
  static constexpr std::string_view commands[] = {"verify", "compare"};
  OptionTable table = kTable;
  table.commands = commands;
  const Loaded compare =
      load({"--max-inflight", "3", "compare", "a.json", "--offset", "1", "b.json"}, {}, table);
  REQUIRE(error_of(compare) == "no error");
  CHECK(compare.result->command == "compare");
  CHECK(compare.result->operands == std::vector<std::string>{"a.json", "b.json"});
  CHECK(compare.options.offset == 1);
  CHECK(load({}, {}, table).result->command.empty());
  CHECK(error_of(load({"compair"}, {}, table)).find("did you mean \"compare\"?") != std::string::npos);
  CHECK(load({"compare", "--", "--odd.json"}, {}, table).result->operands ==
        std::vector<std::string>{"--odd.json"});
}

TEST_CASE("a secret is left out of the printed configuration", "[option]") {
  Loaded loaded = load({"--token", "hunter2"});
  const std::string text = print_config(kTable, loaded.options);
  CHECK(text.find("hunter2") == std::string::npos);
  CHECK(text.find("# token is a secret") != std::string::npos);
}

TEST_CASE("the printed configuration loads to the same values", "[option]") {
  const test::TempDir dir;
  Rng rng(21);
  const auto random_text = [&] {
    static const std::string kPieces[] = {"a", "/x", "\"",       "\\", "\n", "\x7f",
                                          "#", "'",  "\xc3\xa9", " ",  "=",  "\x01"};
    std::string text;
    for (std::uint64_t n = rng.below(6); n > 0; --n) text += kPieces[rng.below(std::size(kPieces))];
    return text;
  };
  for (int round = 0; round < 200; ++round) {
    Sample before;
    before.listen = random_text();
    before.max_inflight = static_cast<std::int64_t>(rng.between(1, 1000));
    before.threshold = rng.below(4) == 0 ? static_cast<double>(rng.below(100)) : rng.unit() * 100;
    before.interval = Duration(static_cast<std::int64_t>(rng.between(1'000'000, 3'600'000'000'000)));
    before.buffer.bytes = rng.below(1 << 20);
    before.fallback = rng.below(2) == 0;
    before.policy = kPolicies[rng.below(3)];
    before.feed_paths.clear();
    for (std::uint64_t n = rng.below(4); n > 0; --n) before.feed_paths.push_back(random_text());
    before.offset = static_cast<std::int64_t>(rng.below(21)) - 10;
    for (std::uint64_t n = rng.below(4); n > 0; --n) {
      before.backend.push_back(
          {random_text(), static_cast<std::int64_t>(rng.below(1000)), {random_text()}, ""});
    }
    before.scale.min = static_cast<std::int64_t>(rng.between(1, 8));
    before.scale.command = random_text();

    const std::string text = print_config(kTable, before);
    INFO(text);
    Loaded after = load_file(dir, text);
    REQUIRE(error_of(after) == "no error");
    REQUIRE(print_config(kTable, after.options) == text);
    REQUIRE(after.options.listen == before.listen);
    REQUIRE(after.options.threshold == before.threshold);
    REQUIRE(after.options.interval == before.interval);
    REQUIRE(after.options.buffer == before.buffer);
    REQUIRE(after.options.feed_paths == before.feed_paths);
    REQUIRE(after.options.backend.size() == before.backend.size());
    for (std::size_t i = 0; i < before.backend.size(); ++i) {
      REQUIRE(after.options.backend[i].id == before.backend[i].id);
      REQUIRE(after.options.backend[i].weight == before.backend[i].weight);
      REQUIRE(after.options.backend[i].tags == before.backend[i].tags);
    }
    REQUIRE(after.options.scale.command == before.scale.command);
    REQUIRE(changed_options(kTable, before, after.options).empty());
  }
}

TEST_CASE("changed options are named, tables as a whole", "[option]") {
  Sample before;
  Sample after;
  after.max_inflight = 5;
  after.scale.min = 2;
  after.backend.emplace_back();
  const auto changed = changed_options(kTable, before, after);
  REQUIRE(changed.size() == 3);
  CHECK(changed[0].name == "max-inflight");
  CHECK(changed[0].row->spec.apply == Apply::Live);
  CHECK(changed[1].name == "scale-min");
  CHECK(changed[2].name == "backend");
}
