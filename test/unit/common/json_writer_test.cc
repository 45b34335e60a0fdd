#include "common/json_writer.h"

#include <cmath>
#include <limits>

#include "common/rng.h"
#include "test/support/catch.h"

using namespace dlb;

namespace {

std::string json_string(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

// A second opinion on UTF-8: decodes code points the plain way.
bool plain_utf8_check(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto first = static_cast<unsigned char>(text[i]);
    int more = 0;
    std::uint32_t code = first;
    if (first >= 0xF0)
      more = 3, code = first & 0x07;
    else if (first >= 0xE0)
      more = 2, code = first & 0x0F;
    else if (first >= 0xC0)
      more = 1, code = first & 0x1F;
    else if (first >= 0x80)
      return false;
    if (first >= 0xF8) return false;
    for (int k = 1; k <= more; ++k) {
      if (i + static_cast<std::size_t>(k) >= text.size()) return false;
      const auto next = static_cast<unsigned char>(text[i + static_cast<std::size_t>(k)]);
      if ((next & 0xC0) != 0x80) return false;
      code = (code << 6) | (next & 0x3F);
    }
    static constexpr std::uint32_t kLeast[] = {0, 0x80, 0x800, 0x10000};
    if (code < kLeast[more] || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return false;
    i += static_cast<std::size_t>(more) + 1;
  }
  return true;
}

// Decodes a JSON string of our own making; empty optional when it is no valid one.
bool decode(std::string_view json, std::string& out) {
  if (json.size() < 2 || json.front() != '"' || json.back() != '"') return false;
  json = json.substr(1, json.size() - 2);
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (c == '"' || static_cast<unsigned char>(c) < 0x20) return false;
    if (c != '\\') {
      out += c;
      continue;
    }
    if (++i >= json.size()) return false;
    switch (json[i]) {
      case 'n':
        out += '\n';
        break;
      case 't':
        out += '\t';
        break;
      case 'r':
        out += '\r';
        break;
      case 'b':
        out += '\b';
        break;
      case 'f':
        out += '\f';
        break;
      case '"':
        out += '"';
        break;
      case '\\':
        out += '\\';
        break;
      case 'u':
        if (i + 4 >= json.size()) return false;
        out += static_cast<char>(std::stoi(std::string(json.substr(i + 1, 4)), nullptr, 16));
        i += 4;
        break;
      default:
        return false;
    }
  }
  return true;
}

std::string random_bytes(Rng& rng) {
  // Pieces that meet the edges of the validator, in random order and cut at random places.
  static const std::string kPieces[] = {"a",
                                        "\"",
                                        "\\",
                                        "\n",
                                        std::string(1, '\0'),
                                        "\x1f",
                                        "\x7f",
                                        "\xc3\xa9",
                                        "\xe2\x82\xac",
                                        "\xf0\x9f\x98\x80",
                                        "\xed\xa0\x80",
                                        "\xc0\xaf",
                                        "\xf4\x90\x80\x80",
                                        "\xff",
                                        "\x80",
                                        "\xe0\x80\x80",
                                        "\xf0\x80\x80\x80",
                                        "plain ascii text"};
  std::string text;
  const std::uint64_t count = rng.below(12);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string& piece = kPieces[rng.below(std::size(kPieces))];
    text += rng.below(5) == 0 ? piece.substr(0, rng.below(piece.size() + 1)) : piece;
    if (rng.below(8) == 0) text += static_cast<char>(rng.below(256));
  }
  return text;
}

}  // namespace

TEST_CASE("strings are escaped", "[json_writer]") {
  CHECK(json_string("") == "\"\"");
  CHECK(json_string("plain") == "\"plain\"");
  CHECK(json_string("a\"b\\c\n\t\r\b\f") == R"("a\"b\\c\n\t\r\b\f")");
  CHECK(json_string(std::string_view("\0\x1f", 2)) == R"("\u0000\u001f")");
  CHECK(json_string("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80") == "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
}

TEST_CASE("a special character is found at every place of a word", "[json_writer]") {
  for (const char special : {'"', '\\', '\x01', '\x1f', '\x80'}) {
    for (std::size_t at = 0; at < 24; ++at) {
      std::string text(24, 'x');
      text[at] = special;
      std::string decoded;
      REQUIRE(decode(json_string(text), decoded));
      std::string expected = text;
      if (special == '\x80') expected.replace(at, 1, "\xef\xbf\xbd");
      REQUIRE(decoded == expected);
    }
  }
}

TEST_CASE("any bytes give valid UTF-8 JSON, valid text unchanged", "[json_writer]") {
  Rng rng(11);
  for (int i = 0; i < 50'000; ++i) {
    const std::string text = random_bytes(rng);
    const std::string json = json_string(text);
    std::string decoded;
    REQUIRE(plain_utf8_check(json));
    REQUIRE(decode(json, decoded));
    REQUIRE(is_valid_utf8(text) == plain_utf8_check(text));
    if (plain_utf8_check(text))
      REQUIRE(decoded == text);
    else
      REQUIRE(decoded.find("\xef\xbf\xbd") != std::string::npos);
  }
}

TEST_CASE("the valid prefix ends at the first bad byte", "[json_writer]") {
  CHECK(valid_utf8_prefix("abc") == 3);
  CHECK(valid_utf8_prefix("0123456789\xff") == 10);
  CHECK(valid_utf8_prefix("ab\xe2\x82") == 2);
  CHECK(valid_utf8_prefix("\xed\xa0\x80") == 0);
}

TEST_CASE("numbers are finite or null", "[json_writer]") {
  const auto number = [](double value, int decimals = -1) {
    std::string out;
    append_json_double(out, value, decimals);
    return out;
  };
  CHECK(number(0.1) == "0.1");
  CHECK(number(2.0) == "2");
  CHECK(number(1.25, 1) == "1.2");
  CHECK(number(12.3456, 2) == "12.35");
  CHECK(number(std::nan("")) == "null");
  CHECK(number(std::numeric_limits<double>::infinity(), 1) == "null");
  CHECK(number(std::numeric_limits<double>::max(), 17).size() > 300);
  Rng rng(5);
  for (int i = 0; i < 1000; ++i) {
    const double value = (rng.unit() - 0.5) * std::pow(10.0, static_cast<double>(rng.below(40)) - 20);
    REQUIRE(std::stod(number(value)) == value);
  }
}

TEST_CASE("the writer places commas in nested documents", "[json_writer]") {
  std::string out;
  JsonWriter json(out);
  json.begin_object()
      .field("a", 1)
      .field("b", "x")
      .field("c", true)
      .field("d", 2.55, 1)
      .field("e", std::uint64_t{18446744073709551615U})
      .field("f", std::int64_t{-9223372036854775807 - 1});
  json.key("g")
      .begin_array()
      .value(1)
      .value("two")
      .null()
      .begin_object()
      .end_object()
      .begin_array()
      .end_array()
      .end_array();
  json.key("h").raw("[1,2]").key("i\n").null();
  json.end_object();
  CHECK(out == R"({"a":1,"b":"x","c":true,"d":2.5,"e":18446744073709551615,"f":-9223372036854775808,)"
               R"("g":[1,"two",null,{},[]],"h":[1,2],"i\n":null})");
  CHECK(json.depth() == 0);
}
