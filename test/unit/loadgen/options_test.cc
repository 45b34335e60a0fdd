#include "loadgen/options.h"

#include <fstream>
#include <iterator>

#include "loadgen/chat_options.h"
#include "loadgen/compare_options.h"
#include "loadgen/target.h"
#include "test/support/catch.h"

namespace dlb::loadgen {
namespace {

struct Loaded {
  Options options;
  std::string error;
};

Loaded load(std::vector<const char*> arguments, std::vector<const char*> environment = {}) {
  arguments.insert(arguments.begin(), "loadgen");
  environment.push_back(nullptr);
  Loaded result;
  const auto loaded = load_options(kOptionTable, result.options, static_cast<int>(arguments.size()),
                                   arguments.data(), environment.data());
  if (!loaded) {
    result.error = loaded.error().text;
    return result;
  }
  const auto finished = finish_options(*loaded, result.options);
  if (!finished) result.error = finished.error().text;
  return result;
}

TEST_CASE("options come in both forms, and from the environment") {
  const Loaded one =
      load({"-url", "http://a:1,http://b:2", "-users", "200", "-requests", "20000", "-feed-percent", "5",
            "-verify-feed", "-connection-mode", "no-keepalive", "-interval-min", "10ms", "-interval-max",
            "20ms", "-out-dir", "x", "-experiment", "e-1"});
  CHECK(one.error.empty());
  CHECK(one.options.url == std::vector<std::string>{"http://a:1", "http://b:2"});
  CHECK(one.options.users == 200);
  CHECK(one.options.requests == 20000);
  CHECK(one.options.feed_percent == 5);
  CHECK(one.options.verify_feed);
  CHECK(one.options.mode == ConnectionMode::NoKeepAlive);
  CHECK(one.options.interval_max == std::chrono::milliseconds(20));
  const Loaded other =
      load({"--users", "7", "--duration", "3s"}, {"LOADGEN_USERS=9", "LOADGEN_MESSAGE_MAX=99"});
  CHECK(other.error.empty());
  CHECK(other.options.users == 7);
  CHECK(other.options.message_max == 99);
  CHECK(other.options.requests == 0);
}

TEST_CASE("defaults depend on what is given") {
  CHECK(load({}).options.requests == 10000);
  CHECK(load({"-message-min", "1000"}).options.message_max == 1000);
  CHECK(load({"-message-max", "10"}).options.message_min == 10);
  CHECK(load({"-interval-min", "1s"}).options.interval_max == std::chrono::seconds(1));
  CHECK(load({"-verify-urls", "http://a:1"}).options.verify_feed);
  CHECK(load({"-connection-mode", "auto"}).options.mode == ConnectionMode::Reuse);
}

TEST_CASE("what makes no sense is refused, with the option named") {
  const auto names = [](const Loaded& loaded, const char* option) {
    return loaded.error.find(option) != std::string::npos;
  };
  CHECK(names(load({"-message-min", "20", "-message-max", "10"}), "message-min"));
  CHECK(names(load({"-interval-min", "2s", "-interval-max", "1s"}), "interval-min"));
  CHECK(names(load({"-response-read-delay", "10s"}), "response-read-delay"));
  CHECK(names(load({"-experiment", "../x"}), "experiment"));
  CHECK(names(load({"-max-errors", "many"}), "max-errors"));
  CHECK(names(load({"-max-errors", "101%"}), "max-errors"));
  CHECK(names(load({"-users", "0"}), "users"));
  CHECK(names(load({"-connection-mode", "sometimes"}), "connection-mode"));
  CHECK(names(load({"-userz", "1"}), "users"));
  CHECK(names(load({"-seed", "9007199254740993"}), "seed"));
  CHECK(names(load({"-verify-urls", ",,,"}), "verify-urls"));
  CHECK(names(load({"-rate", "100", "-interval-min", "1ms"}), "interval-max"));
  CHECK(names(load({"-rate", "0.0001"}), "rate"));
  CHECK(names(load({"-rate", "1", "-arrival", "odd"}), "arrival"));
  CHECK(names(load({"-fail", "p99(post, intended)<1s"}), "only with a rate"));
  CHECK(load({"-rate", "1", "-fail", "p99(post, intended)<1s"}).options.thresholds.at(0).intended);
}

TEST_CASE("the README holds the option table as --help-markdown prints it") {
  Options options;
  const char* const arguments[] = {"loadgen", "--help-markdown"};
  const char* const environment[] = {nullptr};
  const auto loaded = load_options(kOptionTable, options, 2, arguments, environment);
  REQUIRE(loaded.has_value());
  std::ifstream file("loadgen/README.md");
  const std::string readme{std::istreambuf_iterator<char>(file), {}};
  REQUIRE_FALSE(readme.empty());
  CHECK(readme.find(loaded->help) != std::string::npos);

  ChatOptions chat;
  const char* const chat_arguments[] = {"chat", "--help-markdown"};
  const auto chat_loaded = load_options(kChatOptionTable, chat, 2, chat_arguments, environment);
  REQUIRE(chat_loaded.has_value());
  CHECK(readme.find(chat_loaded->help) != std::string::npos);

  CompareOptions compare;
  const char* const compare_arguments[] = {"loadgen", "compare", "--help-markdown"};
  const auto compare_loaded = load_options(kCompareOptionTable, compare, 3, compare_arguments, environment);
  REQUIRE(compare_loaded.has_value());
  CHECK(readme.find(compare_loaded->help) != std::string::npos);
}

TEST_CASE("chat options: a name is needed, and is one that the server takes") {
  const auto fault = [](std::vector<const char*> arguments) {
    ChatOptions options;
    const char* const environment[] = {nullptr};
    arguments.insert(arguments.begin(), "chat");
    const auto loaded = load_options(kChatOptionTable, options, static_cast<int>(arguments.size()),
                                     arguments.data(), environment);
    if (!loaded) return loaded.error().text;
    const auto finished = finish_chat_options(*loaded, options);
    return finished ? std::string() : finished.error().text;
  };
  const std::string long_name(64, 'x');
  CHECK(fault({"--username", "Alice"}).empty());
  CHECK(fault({"--username", long_name.c_str()}).empty());
  CHECK_FALSE(fault({}).empty());
  CHECK_FALSE(fault({"--username", (long_name + "x").c_str()}).empty());
  CHECK_FALSE(fault({"--username", "a\nb"}).empty());
  CHECK_FALSE(fault({"--username", "a\xc2\x85"}).empty());
  CHECK_FALSE(fault({"--username", "\xff"}).empty());
  CHECK_FALSE(fault({"--username", "A", "--insecure", "--ca", "x"}).empty());
}

TEST_CASE("thresholds: commas, semicolons and repetition add up; an error names option and column") {
  const Loaded several = load({"-fail", "p99(post)<50ms,errors<0.1%", "-fail", "rate > 10; 5xx==0"});
  CHECK(several.error.empty());
  CHECK(several.options.fail ==
        std::vector<std::string>{"p99(post)<50ms", "errors<0.1%", "rate > 10", "5xx==0"});
  CHECK(several.options.thresholds.size() == 4);
  CHECK_FALSE(several.options.verify_feed);
  CHECK(several.options.error_limit.allows(100, 100));
  CHECK_FALSE(load({"-fail", "errors<5", "-max-errors", "2"}).options.error_limit.allows(3, 100));
  CHECK_FALSE(load({"-fail", "rate>5"}).options.error_limit.allows(1, 100));
  CHECK(load({"-fail", "lost==0"}).options.verify_feed);
  for (const char* none : {"", "  "}) {
    CHECK(load({"-fail", none}).error.empty());
    CHECK(load({"-fail", none}).options.thresholds.empty());
  }
  const std::string error = load({"-fail", "errors<1,p97(post)<1s"}).error;
  CHECK(error.find("--fail") != std::string::npos);
  CHECK(error.find("column 10") != std::string::npos);
}

TEST_CASE("the error limit is a number or a share of what was done") {
  CHECK(parse_error_limit("0")->allows(0, 100));
  CHECK_FALSE(parse_error_limit("0")->allows(1, 100));
  CHECK(parse_error_limit("3")->allows(3, 3));
  CHECK_FALSE(parse_error_limit("3")->allows(4, 1000));
  CHECK(parse_error_limit("0.5%")->allows(5, 1000));
  CHECK_FALSE(parse_error_limit("0.5%")->allows(6, 1000));
  for (const char* bad : {"", "%", "-1", "x", "1x", "1%%", "nan"})
    CHECK_FALSE(parse_error_limit(bad).has_value());
}

TEST_CASE("base urls") {
  const auto target = parse_target("http://127.0.0.1:8080/prefix/");
  REQUIRE(target.has_value());
  CHECK(target->host == "127.0.0.1:8080");
  CHECK(target->base_path == "/prefix");
  CHECK(target->address.port() == 8080);
  CHECK(parse_target("127.0.0.1:81")->base_path.empty());
  CHECK(parse_target("HTTP://127.0.0.1")->address.port() == 80);
  CHECK(parse_target("http://[::1]:6001")->address.port() == 6001);
  CHECK(parse_target("http://[::1]")->address.port() == 80);
  for (const char* bad :
       {"", "http://", "http://:80", "ftp://127.0.0.1:1", "http://127.0.0.1:1/?x", "http://127.0.0.1:1/#x",
        "http://u@127.0.0.1:1", "http://127.0.0.1:x", "http://a b:1", "http://127.0.0.1:70000"}) {
    INFO(bad);
    CHECK_FALSE(parse_target(bad).has_value());
  }
}

}  // namespace
}  // namespace dlb::loadgen
