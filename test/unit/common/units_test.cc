#include "common/units.h"

#include "common/rng.h"
#include "test/support/catch.h"

using namespace dlb;
using namespace std::chrono_literals;

TEST_CASE("durations are read as people write them", "[units]") {
  CHECK(parse_duration("500ms").value() == 500ms);
  CHECK(parse_duration("1s").value() == 1s);
  CHECK(parse_duration("2m").value() == 2min);
  CHECK(parse_duration("1h").value() == 1h);
  CHECK(parse_duration("1d").value() == 24h);
  CHECK(parse_duration("250us").value() == 250us);
  CHECK(parse_duration("7ns").value() == 7ns);
  CHECK(parse_duration("1h30m").value() == 90min);
  CHECK(parse_duration("1.5s").value() == 1500ms);
  CHECK(parse_duration("0.25ms").value() == 250us);
  CHECK(parse_duration("0").value() == 0s);
  CHECK(parse_duration("0s").value() == 0s);
}

TEST_CASE("text that is no duration is refused", "[units]") {
  for (const char* text :
       {"",        "s",   "1",   "15",   "-1s",  "+1s",   "1 s",   "1sec", "1S",
        "s1",      "1.s", ".5s", "1s1h", "1s1s", "1..5s", "0.1ns", "1e3s", "99999999999999999999s",
        "300000d", "1s ", "\x80"}) {
    INFO(text);
    CHECK_FALSE(parse_duration(text).has_value());
  }
  CHECK(parse_duration("15").error().text.find("15s") != std::string::npos);
}

TEST_CASE("a formatted duration reads back as itself", "[units]") {
  CHECK(format_duration(90s) == "90s");
  CHECK(format_duration(1h) == "1h");
  CHECK(format_duration(1500ms) == "1500ms");
  CHECK(format_duration(0s) == "0");
  Rng rng(1);
  for (int i = 0; i < 20'000; ++i) {
    const Duration value(static_cast<std::int64_t>(rng.next() >> (1 + rng.below(63))));
    INFO(value.count());
    REQUIRE(parse_duration(format_duration(value)).value() == value);
  }
}

TEST_CASE("sizes are read in bytes and binary units", "[units]") {
  CHECK(parse_byte_size("0").value().bytes == 0);
  CHECK(parse_byte_size("4096").value() == kib(4));
  CHECK(parse_byte_size("32KiB").value() == kib(32));
  CHECK(parse_byte_size("160MiB").value() == mib(160));
  CHECK(parse_byte_size("2GiB").value() == mib(2048));
  CHECK(parse_byte_size("10B").value().bytes == 10);
  CHECK(parse_byte_size("10 KiB").value() == kib(10));
}

TEST_CASE("text that is no size is refused", "[units]") {
  for (const char* text :
       {"", "KiB", "1KB", "1K", "-1", "1.5MiB", "0x10", "99999999999GiB", "18446744073709551616", "1 2"}) {
    INFO(text);
    CHECK_FALSE(parse_byte_size(text).has_value());
  }
}

TEST_CASE("a formatted size reads back as itself", "[units]") {
  CHECK(format_byte_size(kib(32)) == "32KiB");
  CHECK(format_byte_size({1000}) == "1000");
  Rng rng(2);
  for (int i = 0; i < 20'000; ++i) {
    const ByteSize value{rng.next() >> (1 + rng.below(63))};
    INFO(value.bytes);
    REQUIRE(parse_byte_size(format_byte_size(value)).value() == value);
  }
}
