// The rules of a message's parts, against every sequence of up to three bytes that matters and the tables of
// Unicode.
#include "backend/message_rules.h"

#include <simdjson.h>

#include <set>
#include <string>

#include "common/rng.h"
#include "test/support/catch.h"

namespace dlb::backend {
namespace {

TEST_CASE("counts code points and agrees with a second UTF-8 validator") {
  CHECK(shape_of("").valid_utf8);
  CHECK(shape_of("a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80").characters == 4);
  CHECK(shape_of("\xEF\xBF\xBF").valid_utf8);
  CHECK(shape_of("\xF4\x8F\xBF\xBF").valid_utf8);
  // Eight bytes at a time or one by one: the same, wherever a special byte stands.
  for (std::size_t length = 0; length < 20; ++length) {
    for (std::size_t at = 0; at < length; ++at) {
      for (int byte = 0; byte < 256; ++byte) {
        std::string text(length, 'a');
        text[at] = static_cast<char>(byte);
        const TextShape shape = shape_of(text);
        const bool ascii = byte < 0x80;
        REQUIRE(shape.valid_utf8 == ascii);
        if (ascii) REQUIRE(shape.characters == length);
        REQUIRE(shape.has_control == (ascii && (byte < 0x20 || byte == 0x7F)));
        REQUIRE(shape.has_nul == (byte == 0));
      }
    }
  }
  Rng rng(7);
  const unsigned char edges[] = {0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF,
                                 0xE0, 0xE1, 0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF};
  for (int round = 0; round < 200'000; ++round) {
    std::string text;
    for (std::uint64_t length = 1 + rng.below(6); length > 0; --length) {
      text.push_back(static_cast<char>(edges[rng.below(sizeof edges)]));
    }
    CAPTURE(text);
    REQUIRE(shape_of(text).valid_utf8 == simdjson::validate_utf8(text.data(), text.size()));
  }
}

TEST_CASE("control characters are C0, DEL and C1 and nothing else") {
  CHECK(shape_of(std::string(1, '\0')).has_nul);
  for (const char* text : {"\x01", "\x1F", "\x7F", "\xC2\x80", "\xC2\x85", "\xC2\x9F"}) {
    CHECK(shape_of(text).has_control);
    CHECK_FALSE(shape_of(text).has_nul);
  }
  for (const char* text : {" ", "~", "\xC2\xA0", "\xE2\x80\xA8", "\xEF\xBB\xBF"}) {
    CHECK_FALSE(shape_of(text).has_control);
  }
}

TEST_CASE("CH-18 an id far over its limit is refused without decoding it all") {
  const std::string id(10'000'000, 'x');
  const auto error = check_message_id(id);
  REQUIRE(error);
  CHECK(error->status == 400);
  CHECK(error->detail.size() < 100);
}

TEST_CASE("CH-20 text is limited in bytes, not characters") {
  CHECK_FALSE(check_message_text(std::string(kMessageMaxBytes, 'a')));
  REQUIRE(check_message_text(std::string(kMessageMaxBytes + 1, 'a')));
  CHECK(check_message_text(std::string(kMessageMaxBytes + 1, 'a'))->status == 413);
  CHECK(check_message_text(std::string(kMessageMaxBytes + 1, 'a'))->code == "too_large");
}

TEST_CASE("made ids are version 4 UUIDs") {
  CHECK(uuid_v4(0, 0) == "00000000-0000-4000-8000-000000000000");
  CHECK(uuid_v4(UINT64_MAX, UINT64_MAX) == "ffffffff-ffff-4fff-bfff-ffffffffffff");
  CHECK(uuid_v4(0x0123456789abcdef, 0x0123456789abcdef) == "01234567-89ab-4def-8123-456789abcdef");
  CHECK_FALSE(check_message_id(uuid_v4(1, 2)));
}

}  // namespace
}  // namespace dlb::backend
