// The WebSocket codec as bytes: what clients send wrongly, and the answer that each fault gets.
#include "common/ws_frame.h"

#include "common/rng.h"
#include "test/fuzz/ws_checks.h"
#include "test/support/catch.h"

namespace dlb {
namespace {

using fuzz::ws_story;
using fuzz::WsSetting;
using Lines = std::vector<std::string>;

// "01 81 MK E2": hexadecimal, spaces ignored, MK is the mask 00000000.
std::string bytes_of(std::string_view hex) {
  std::string digits;
  for (const char c : hex) {
    if (c == 'M') {
      digits += "00000000";
    } else if (c != ' ' && c != 'K') {
      digits += c;
    }
  }
  std::string out;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    out.push_back(static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16)));
  }
  return out;
}

// The story of the bytes, which must be the same however they are cut in two, and byte by byte.
Lines story_of_bytes(const std::string& bytes, const WsSetting& setting = {}) {
  const Lines whole = ws_story(bytes, bytes.size() + 1, setting).lines;
  for (std::size_t step = 1; step <= bytes.size() && step <= 200; ++step) {
    INFO("cut each " << step << " bytes");
    REQUIRE(ws_story(bytes, step, setting).lines == whole);
  }
  return whole;
}

Lines story(std::string_view hex, const WsSetting& setting = {}) {
  return story_of_bytes(bytes_of(hex), setting);
}

// The code of the failure that ends the story, 0 when it doesn't fail.
int fail_code(std::string_view hex, const WsSetting& setting = {}) {
  const Lines lines = story(hex, setting);
  if (lines.empty() || lines.back().substr(0, 5) != "fail ") return 0;
  return std::stoi(lines.back().substr(5));
}

std::string masked(WsOpcode opcode, std::string_view payload, bool final = true,
                   std::uint32_t mask = 0xA1B2C3D4) {
  std::string out;
  append_masked_ws_frame(out, opcode, payload, mask, final);
  return out;
}

TEST_CASE("CH-01: an unmasked client frame fails by its second byte", "[ws]") {
  CHECK(story("81 02") == Lines{"fail 1002 unmasked client frame"});
  CHECK(story("81 02 68 69") == Lines{"fail 1002 unmasked client frame"});
  CHECK(story("88 00") == Lines{"fail 1002 unmasked client frame"});
  const WsSetting client{WsDecoder::Side::Client, 1000, true};
  CHECK(story("81 02 68 69", client) == Lines{"text hi"});
  CHECK(story("81 82", client) == Lines{"fail 1002 masked server frame"});
}

TEST_CASE("CH-02: UTF-8 is judged over fragments, byte by byte", "[ws]") {
  CHECK(story("01 81 MK E2 00 81 MK 82 80 81 MK AC") == Lines{"text \xE2\x82\xAC"});
  CHECK(fail_code("81 82 MK C3 28") == 1007);
  CHECK(fail_code("01 81 MK E2 80 80 MK") == 1007);
  // The rest of the twenty bytes never comes: the one that can't be right is enough.
  CHECK(fail_code("81 94 MK CE BA E1 BD B9 CF 83 CE BC CE B5 F4 90") == 1007);
  CHECK(story("81 94 MK CE BA E1 BD B9 CF 83 CE BC CE B5 F4").empty());
  CHECK(story("81 83 MK EF BF BF") == Lines{"text \xEF\xBF\xBF"});
  CHECK(fail_code("81 83 MK ED A0 80") == 1007);
  CHECK(fail_code("81 82 MK C0 AF") == 1007);
  CHECK(fail_code("81 84 MK F5 80 80 80") == 1007);
  CHECK(fail_code("81 81 MK 80") == 1007);
  CHECK(story("82 82 MK C3 28") == Lines{"binary \xC3\x28"});
  // Each message begins anew.
  CHECK(story("81 82 MK C3 A4 81 82 MK C3 A4") == Lines{"text \xC3\xA4", "text \xC3\xA4"});
}

TEST_CASE("CH-04: close codes", "[ws]") {
  CHECK(story("88 80 MK") == Lines{"close 1005 "});
  for (const char* code : {"03E8", "03E9", "03EA", "03EB", "03EF", "03F0", "03F1", "03F2", "03F3", "03F4",
                           "03F5", "03F6", "0BB8", "0FA0", "1387"}) {
    INFO(code);
    CHECK(story(std::string("88 82 MK ") + code) ==
          Lines{"close " + std::to_string(std::stoi(code, nullptr, 16)) + " "});
  }
  for (const char* code :
       {"03ED", "03EE", "03F7", "0000", "03E7", "07D0", "03EC", "03F8", "0BB7", "1388", "FFFF"}) {
    INFO(code);
    CHECK(fail_code(std::string("88 82 MK ") + code) == 1002);
  }
  CHECK(fail_code("88 81 MK 03") == 1002);
  CHECK(fail_code("88 84 MK 03E8 FFFF") == 1007);
  CHECK(story("88 84 MK 03E8 C3A4") == Lines{"close 1000 \xC3\xA4"});
  CHECK_FALSE(ws_close_code_valid(1005));
  CHECK_FALSE(ws_close_code_valid(1006));
  CHECK_FALSE(ws_close_code_valid(1015));
}

TEST_CASE("CH-05: control frames stand between fragments and hold 125 bytes", "[ws]") {
  CHECK(story("89 84 MK 70696E67") == Lines{"ping ping"});
  CHECK(story("8A 80 MK") == Lines{"pong "});
  CHECK(story("01 81 MK 61 89 81 MK 70 80 81 MK 62") == Lines{"ping p", "text ab"});
  CHECK(fail_code("89 FE") == 1002);
  CHECK(fail_code("09 80") == 1002);
  const std::string long_ping(125, 'x');
  CHECK(story_of_bytes(masked(WsOpcode::Ping, long_ping)) == Lines{"ping " + long_ping});
}

TEST_CASE("CH-11: reserved bits and opcodes", "[ws]") {
  CHECK(fail_code("C1 82 MK 6869") == 1002);
  CHECK(fail_code("C1") == 1002);
  CHECK(fail_code("A1") == 1002);
  CHECK(fail_code("91") == 1002);
  for (const char* opcode : {"83", "84", "85", "86", "87", "8B", "8C", "8D", "8E", "8F"}) {
    INFO(opcode);
    CHECK(fail_code(opcode) == 1002);
  }
}

TEST_CASE("fragments come in their order", "[ws]") {
  CHECK(fail_code("80 80 MK") == 1002);
  CHECK(fail_code("01 81 MK 61 81 81 MK 62") == 1002);
  CHECK(fail_code("81 81 MK 61 00 81 MK 62") == 1002);
  CHECK(story("01 80 MK 00 80 MK 80 80 MK") == Lines{"text "});
  CHECK(story("02 81 MK 61 80 81 MK 62 81 81 MK 63") == Lines{"binary ab", "text c"});
}

TEST_CASE("lengths are minimal, their top bit clear, and the limit holds from the header alone", "[ws]") {
  CHECK(fail_code("81 FE 00 7D") == 1002);
  CHECK(fail_code("81 FF 00 00 00 00 00 00 FF FF") == 1002);
  CHECK(fail_code("82 FF 80") == 1002);
  CHECK(fail_code("81 FF 7F FF FF FF FF FF FF FF") == 1009);
  const WsSetting small{WsDecoder::Side::Server, 130, true};
  CHECK(fail_code("81 FE 00 83", small) == 1009);
  CHECK(story("81 FE 00 82", small).empty());
  // 100 and 31 bytes: the second header breaks the sum.
  const std::string first = masked(WsOpcode::Text, std::string(100, 'a'), false);
  const std::string fits = masked(WsOpcode::Continuation, std::string(30, 'b'));
  const std::string breaks = masked(WsOpcode::Continuation, std::string(31, 'b')).substr(0, 2);
  CHECK(story_of_bytes(first + fits + first + fits, small).size() == 2);
  CHECK(story_of_bytes(first + breaks, small) == Lines{"fail 1009 message too big"});
}

TEST_CASE("a sound binary frame is 1003 where only text is spoken, a faulty one 1002", "[ws]") {
  const WsSetting text_only{WsDecoder::Side::Server, 1000, false};
  CHECK(fail_code("82 81 MK 61", text_only) == 1003);
  CHECK(fail_code("82 01 61", text_only) == 1002);
  CHECK(fail_code("82 FF 80", text_only) == 1002);
  CHECK(fail_code("82 FE 00 05", text_only) == 1002);
  CHECK(story("81 81 MK 61", text_only) == Lines{"text a"});
}

TEST_CASE("masking is the same by words and by bytes, at each size and offset", "[ws]") {
  Rng rng(7);
  for (std::size_t size = 0; size <= 70; ++size) {
    for (std::size_t cut = 0; cut <= size; ++cut) {
      std::string plain;
      for (std::size_t i = 0; i < size; ++i) plain.push_back(static_cast<char>(rng.next()));
      char key[4] = {0x11, 0x7F, static_cast<char>(0xF3), 0x05};
      std::uint32_t mask = 0;
      std::memcpy(&mask, key, sizeof mask);
      std::string expected = plain;
      for (std::size_t i = 0; i < size; ++i) expected[i] = static_cast<char>(expected[i] ^ key[i % 4]);
      const std::uint32_t next = ws_mask({plain.data(), cut}, mask);
      ws_mask({plain.data() + cut, size - cut}, next);
      REQUIRE(plain == expected);
    }
  }
}

TEST_CASE("what one side writes the other reads, at every border of the lengths", "[ws]") {
  for (const std::size_t size : {0U, 1U, 7U, 8U, 125U, 126U, 127U, 65535U, 65536U, 70001U}) {
    INFO(size);
    std::string text;
    while (text.size() < size) text.push_back(static_cast<char>('a' + text.size() % 26));
    const std::string wire = masked(WsOpcode::Text, text);
    CHECK(ws_story(wire, 4096, {}).lines == Lines{"text " + text});
    const WsSetting client{WsDecoder::Side::Client, 1 << 20, true};
    CHECK(ws_story(WsFrame::text(text)->bytes(), 4096, client).lines == Lines{"text " + text});
    CHECK(ws_story(WsFrame::binary(text)->bytes(), 4096, client).lines == Lines{"binary " + text});
  }
}

TEST_CASE("frames as they go on the wire", "[ws]") {
  CHECK(WsFrame::close(1002, "")->bytes() == bytes_of("88 02 03EA"));
  CHECK(WsFrame::close(ws_close::kNone, "")->bytes() == bytes_of("88 00"));
  CHECK(WsFrame::pong("ping")->bytes() == bytes_of("8A 04 70696E67"));
  CHECK(WsFrame::ping("")->bytes() == bytes_of("89 00"));
  CHECK(WsFrame::text("hi")->bytes() == bytes_of("81 02 6869"));
  // 61 two-byte code points fit; the cut does not split the 62nd.
  std::string long_reason = "a";
  for (int i = 0; i < 100; ++i) long_reason += "\xC3\xA4";
  const WsFramePtr close = WsFrame::close(1008, long_reason);
  CHECK(close->size() == 2 + 2 + 123);
  const WsSetting client{WsDecoder::Side::Client, 1000, true};
  CHECK(ws_story(close->bytes(), 4096, client).failed == false);
}

TEST_CASE("random streams tell the same story however they are cut", "[ws]") {
  Rng rng(20);
  for (int round = 0; round < 300; ++round) {
    std::string wire(1, static_cast<char>(rng.below(8) & ~1U));
    for (std::uint64_t frame = 0; frame < 1 + rng.below(6); ++frame) {
      const auto opcode = static_cast<WsOpcode>(rng.below(10) == 0 ? rng.below(16) : rng.below(3));
      std::string payload;
      for (std::uint64_t i = 0; i < rng.below(140); ++i) {
        payload.push_back(static_cast<char>(rng.below(40) == 0 ? rng.next() : 'a' + rng.below(26)));
      }
      append_masked_ws_frame(wire, opcode, payload, static_cast<std::uint32_t>(rng.next()),
                             rng.below(2) == 0);
    }
    if (rng.below(4) == 0) wire[rng.below(wire.size())] ^= static_cast<char>(1U << rng.below(8));
    fuzz::check_ws_frames(wire);
  }
}

}  // namespace
}  // namespace dlb
