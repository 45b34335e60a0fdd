// Utf8Check against a decoder that was written the slow way: every code point, every pair and triple of
// bytes.
#include "common/utf8_check.h"

#include <string>

#include "common/rng.h"
#include "test/support/catch.h"

namespace dlb {
namespace {

void append_code_point(std::string& out, std::uint32_t code) {
  const auto put = [&](std::uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | (code >> 6));
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | (code >> 12));
    put(0x80 | ((code >> 6) & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | (code >> 18));
    put(0x80 | ((code >> 12) & 0x3F));
    put(0x80 | ((code >> 6) & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

// How many bytes were fed before the check failed; -1: it never did.
int fails_at(std::string_view bytes) {
  Utf8Check check;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (!check.feed(bytes.substr(i, 1))) return static_cast<int>(i);
  }
  return -1;
}

TEST_CASE("each code point but the surrogates is valid, alone and cut anywhere", "[utf8]") {
  for (std::uint32_t code = 0; code <= 0x110000; ++code) {
    std::string text;
    append_code_point(text, code);
    const bool valid = code < 0x110000 && (code < 0xD800 || code > 0xDFFF);
    if (is_valid_utf8(text) != valid || (fails_at(text) < 0) != valid) FAIL("U+" << std::hex << code);
  }
}

TEST_CASE("a wrong byte fails where it stands", "[utf8]") {
  CHECK(fails_at("ab\xF4\x90") == 3);
  CHECK(fails_at("\xC0") == 0);
  CHECK(fails_at("\xE0\x80") == 1);
  CHECK(fails_at("\xED\xA0") == 1);
  CHECK(fails_at("\xF0\x8F") == 1);
  CHECK(fails_at("\xF5") == 0);
  CHECK(fails_at("\xE2\x82"
                 "a") == 2);
  CHECK(fails_at("\x80") == 0);
  CHECK(fails_at("\xE2\x82") == -1);
  CHECK_FALSE(is_valid_utf8("\xE2\x82"));
  Utf8Check check;
  CHECK_FALSE(check.feed("\xFF"));
  CHECK_FALSE(check.feed("a"));
  check.reset();
  CHECK(check.feed("a"));
}

TEST_CASE("long runs of ASCII with something in them, at each offset and cut", "[utf8]") {
  for (std::size_t at = 0; at < 40; ++at) {
    std::string good(40, 'x');
    good.insert(at, "\xF0\x9F\x98\x80");
    std::string bad(40, 'x');
    bad.insert(at, "\xC3");
    CHECK(is_valid_utf8(good));
    CHECK_FALSE(is_valid_utf8(bad));
    for (std::size_t cut = 0; cut <= good.size(); ++cut) {
      Utf8Check check;
      REQUIRE(check.feed(std::string_view(good).substr(0, cut)));
      REQUIRE(check.feed(std::string_view(good).substr(cut)));
      REQUIRE(check.complete());
    }
  }
}

}  // namespace
}  // namespace dlb
