#include "common/log.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "common/fd.h"
#include "common/json_writer.h"
#include "common/log_repeats.h"
#include "common/rng.h"
#include "test/support/catch.h"

using namespace dlb;
using namespace std::chrono_literals;

namespace {

std::atomic<std::int64_t> fake_now_ns{0};
TimePoint fake_now() { return TimePoint(Duration(fake_now_ns.load())); }
std::int64_t fake_wall_us() { return 1'789'048'800'123'456; }

struct Pipe {
  Fd read_end;
  Fd write_end;
  explicit Pipe(int bytes = 0) {
    int fds[2];
    REQUIRE(::pipe2(fds, O_CLOEXEC) == 0);
    read_end = Fd(fds[0]);
    write_end = Fd(fds[1]);
    if (bytes > 0) REQUIRE(::fcntl(fds[1], F_SETPIPE_SZ, bytes) >= 0);
  }
  // Everything that is in the pipe now.
  std::string drain() const {
    std::string text;
    pollfd ready{read_end.get(), POLLIN, 0};
    while (::poll(&ready, 1, 0) == 1 && (ready.revents & POLLIN) != 0) {
      char block[8192];
      const ssize_t got = ::read(read_end.get(), block, sizeof block);
      if (got <= 0) break;
      text.append(block, static_cast<std::size_t>(got));
    }
    return text;
  }
};

// A log into a pipe with stopped clocks.
struct Fixture {
  Pipe pipe{1 << 20};
  LogConfig config;
  Fixture() {
    config.fd = pipe.write_end.get();
    config.wall_us = &fake_wall_us;
    config.now = &fake_now;
    fake_now_ns = 1;
  }
  std::string text(Log& log) const {
    REQUIRE(log.flush(10s));
    return pipe.drain();
  }
};

std::size_t count_of(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

constexpr std::string_view kTime = "2026-09-10T14:00:00.123456+00:00";

}  // namespace

TEST_CASE("a line has level, message and fields as text", "[log]") {
  Fixture f;
  Log log(f.config);
  log.info("backend up", {{"backend", "sys2"},
                          {"ms", 12},
                          {"neg", -3},
                          {"big", 18446744073709551615U},
                          {"share", 0.5},
                          {"ok", true},
                          {"text", "two words"},
                          {"empty", ""},
                          {"quote", std::string("a\"b")}});
  CHECK(f.text(log) ==
        "ts=" + std::string(kTime) +
            " level=info msg=\"backend up\" backend=sys2 ms=12 neg=-3 big=18446744073709551615 "
            "share=0.5 ok=true text=\"two words\" empty=\"\" quote=\"a\\\"b\"\n");
}

TEST_CASE("a line has level, message and fields as JSON", "[log]") {
  Fixture f;
  f.config.format = LogFormat::Json;
  Log log(f.config);
  log.error("connect failed", {{"backend", "sys2"}, {"ms", 12}, {"share", 0.5}, {"ok", false}});
  CHECK(f.text(log) == "{\"ts\":\"" + std::string(kTime) +
                           "\",\"level\":\"error\",\"msg\":\"connect failed\",\"backend\":\"sys2\",\"ms\":12,"
                           "\"share\":0.5,\"ok\":false}\n");
}

TEST_CASE("one field of two texts is a field", "[log]") {
  Fixture f;
  Log log(f.config);
  log.info("x", {{"key", "value"}});
  CHECK(f.text(log).find(" key=value\n") != std::string::npos);
}

TEST_CASE("lines under the level are not written", "[log]") {
  Fixture f;
  Log log(f.config);
  log.debug("hidden");
  log.set_level(LogLevel::Warn);
  CHECK_FALSE(log.enabled(LogLevel::Info));
  log.info("hidden");
  log.warn("seen");
  CHECK(f.text(log).find("hidden") == std::string::npos);
}

TEST_CASE("no input breaks the line or steers the terminal", "[log]") {
  Rng rng(31);
  for (const LogFormat format : {LogFormat::Text, LogFormat::Json}) {
    Fixture f;
    f.config.format = format;
    Log log(f.config);
    for (int i = 0; i < 300; ++i) {
      std::string value;
      for (std::uint64_t n = rng.below(40); n > 0; --n) value += static_cast<char>(rng.below(256));
      if (i == 0) value = "\x1b[31m\r\nlevel=error \xc2\x9b \x7f";
      log.info(value, {{"value", value}});
      const std::string line = f.text(log);
      REQUIRE(is_valid_utf8(line));
      REQUIRE(line.find('\n') == line.size() - 1);
      for (std::size_t at = 0; at + 1 < line.size(); ++at) {
        const auto byte = static_cast<unsigned char>(line[at]);
        REQUIRE(byte >= 0x20);
        REQUIRE(byte != 0x7F);
        const bool is_c1 = byte == 0xC2 && static_cast<unsigned char>(line[at + 1]) < 0xA0;
        REQUIRE_FALSE(is_c1);
      }
    }
  }
}

TEST_CASE("long values are cut at a character", "[log]") {
  Fixture f;
  Log log(f.config);
  std::string value = "x";
  for (int i = 0; i < 5000; ++i) value += "\xe2\x82\xac";
  log.info("long", {{"value", value}});
  const std::string line = f.text(log);
  CHECK(line.size() < 2300);
  CHECK(is_valid_utf8(line));
  CHECK(line.find("\xef\xbf\xbd") == std::string::npos);
  CHECK(line.find("...\"") != std::string::npos);
}

TEST_CASE("a repeated error is held back and its count shown with the next one", "[log]") {
  Fixture f;
  f.config.repeat_limit = 3;
  f.config.repeat_interval = 1s;
  Log log(f.config);
  for (int i = 0; i < 15; ++i) log.error("connect failed", {{"try", i}});
  const std::string first = f.text(log);
  CHECK(count_of(first, "connect failed") == 3);
  CHECK(first.find("suppressed") == std::string::npos);
  CHECK(log.suppressed() == 12);
  fake_now_ns += Duration(1s).count();
  log.error("connect failed", {{"try", 99}});
  CHECK(f.text(log).find("try=99 suppressed=12\n") != std::string::npos);
  log.error("connect failed", {{"try", 100}});
  CHECK(f.text(log).find("try=100\n") != std::string::npos);
}

TEST_CASE("other messages, levels and keys are not held back with it", "[log]") {
  Fixture f;
  f.config.repeat_limit = 1;
  Log log(f.config);
  log.error("a");
  log.error("a");
  log.warn("a");
  log.error("b");
  log.error("a", {log_key("backend", "x")});
  log.error("a", {log_key("backend", "y")});
  log.error("a", {log_key("backend", "y")});
  for (int i = 0; i < 5; ++i) log.info("a");
  CHECK(count_of(f.text(log), "\n") == 10);
  CHECK(log.suppressed() == 2);
}

TEST_CASE("a count without a next line is told at the end", "[log]") {
  Fixture f;
  f.config.repeat_limit = 1;
  {
    Log log(f.config);
    for (int i = 0; i < 8; ++i) log.error("connect failed");
  }
  CHECK(f.pipe.drain().find(
            "level=error msg=\"repeated lines suppressed\" of=\"connect failed\" suppressed=7\n") !=
        std::string::npos);
}

TEST_CASE("repeat counts are told exactly once each under random keys", "[log]") {
  Rng rng(32);
  LogRepeats repeats(2, 10ns);
  std::uint64_t suppressed = 0;
  std::uint64_t told = 0;
  TimePoint now{};
  for (int i = 0; i < 100'000; ++i) {
    now += Duration(static_cast<std::int64_t>(rng.below(3)));
    std::optional<LogRepeats::Held> evicted;
    const auto verdict =
        repeats.judge(rng.below(2000) * 0x9e3779b97f4a7c15U, LogLevel::Warn, "m", now, evicted);
    if (evicted) told += evicted->suppressed;
    if (verdict)
      told += *verdict;
    else
      ++suppressed;
    if (rng.below(1000) == 0)
      repeats.sweep(now, false, [&](const LogRepeats::Held& held) { told += held.suppressed; });
  }
  for (int i = 0; i < 50; ++i) {
    std::optional<LogRepeats::Held> evicted;
    if (!repeats.judge(7, LogLevel::Warn, "m", now, evicted)) ++suppressed;
    if (evicted) told += evicted->suppressed;
  }
  repeats.sweep(now, true, [&](const LogRepeats::Held& held) { told += held.suppressed; });
  CHECK(suppressed > 0);
  CHECK(told == suppressed);
}

TEST_CASE("a reader that has stopped costs lines, not time, and the loss is told", "[log]") {
  Pipe pipe(4096);
  LogConfig config;
  config.fd = pipe.write_end.get();
  config.max_lines = 100;
  Log log(config);
  const TimePoint start = monotonic_now();
  for (int i = 0; i < 20'000; ++i)
    log.info("a line of some length that fills the pipe in the end", {{"i", i}});
  CHECK(monotonic_now() - start < 5s);
  const std::uint64_t dropped = log.dropped();
  CHECK(dropped > 10'000);
  CHECK_FALSE(log.flush(1ms));

  // The reader wakes up: what was accepted arrives, and the number of lost lines, in one report or several.
  std::string text;
  const auto told = [&] {
    static constexpr std::string_view kReport = "level=warn msg=\"log lines dropped\" count=";
    std::uint64_t sum = 0;
    for (std::size_t at = text.find(kReport); at != std::string::npos; at = text.find(kReport, at + 1)) {
      sum += std::strtoull(text.c_str() + at + kReport.size(), nullptr, 10);
    }
    return sum;
  };
  pollfd ready{pipe.read_end.get(), POLLIN, 0};
  while ((told() < dropped || !text.ends_with('\n')) && ::poll(&ready, 1, 10'000) == 1) text += pipe.drain();
  CHECK(told() == dropped);
  CHECK(text.find("i=0\n") != std::string::npos);
}

TEST_CASE("destruction ends in bounded time when nobody reads", "[log]") {
  Pipe pipe(4096);
  LogConfig config;
  config.fd = pipe.write_end.get();
  config.flush_limit = 50ms;
  const TimePoint start = monotonic_now();
  {
    Log log(config);
    for (int i = 0; i < 500; ++i)
      log.info("a line of some length that fills the pipe in the end", {{"i", i}});
  }
  CHECK(monotonic_now() - start < 5s);
}

TEST_CASE("destruction writes what is waiting", "[log]") {
  Fixture f;
  {
    Log log(f.config);
    for (int i = 0; i < 500; ++i) log.info("line", {{"i", i}});
  }
  CHECK(count_of(f.pipe.drain(), "\n") == 500);
}

TEST_CASE("a closed reader is counted, not a signal", "[log]") {
  Pipe pipe;
  LogConfig config;
  config.fd = pipe.write_end.get();
  Log log(config);
  pipe.read_end.reset();
  log.info("into the void");
  CHECK(log.flush(10s));
  CHECK(log.dropped() == 1);
}

TEST_CASE("lines of many threads stay whole and in order", "[log]") {
  Fixture f;
  f.config.max_lines = 100'000;
  f.config.max_bytes = 1 << 24;
  std::string text;
  constexpr int kThreads = 4;
  constexpr int kLines = 500;
  {
    Log log(f.config);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&log, t] {
        for (int i = 0; i < kLines; ++i) log.info("line", {{"thread", t}, {"i", i}});
      });
    }
    for (std::thread& thread : threads) thread.join();
    REQUIRE(log.flush(10s));
    CHECK(log.dropped() == 0);
    text = f.pipe.drain();
  }
  CHECK(count_of(text, "\n") == kThreads * kLines);
  for (int t = 0; t < kThreads; ++t) {
    std::size_t at = 0;
    for (int i = 0; i < kLines; ++i) {
      const std::string line =
          " level=info msg=\"line\" thread=" + std::to_string(t) + " i=" + std::to_string(i) + "\n";
      at = text.find(line, at);
      REQUIRE(at != std::string::npos);
    }
  }
}

TEST_CASE("levels and formats have names", "[log]") {
  CHECK(parse_log_level("debug") == LogLevel::Debug);
  CHECK(parse_log_level("error") == LogLevel::Error);
  CHECK_FALSE(parse_log_level("loud").has_value());
  CHECK(parse_log_format("json") == LogFormat::Json);
  CHECK_FALSE(parse_log_format("xml").has_value());
}
