// What a WSS client may send, and which error answers what: forms, limits, times, and the texts that are
// signed.
#include "backend/chat_input.h"

#include <string>

#include "backend/iso8601.h"
#include "backend/token_bucket.h"
#include "common/base64.h"
#include "common/clock.h"
#include "test/support/catch.h"

namespace dlb::backend {
namespace {

// The error's code, or "" when the text is a request.
std::string code_of(std::string_view text) {
  static ChatInput input;
  if (auto error = input.read(text)) return std::string(error->code);
  ChatRequest request = input.take();
  const auto* error = std::get_if<ChatError>(&request);
  return error != nullptr ? std::string(error->code) : "";
}

std::string detail_of(std::string_view text) {
  static ChatInput input;
  if (auto error = input.read(text)) return error->detail;
  ChatRequest request = input.take();
  const auto* error = std::get_if<ChatError>(&request);
  return error != nullptr ? error->detail : "";
}

template <class Request>
Request taken(std::string_view text) {
  ChatInput input;
  REQUIRE_FALSE(input.read(text).has_value());
  ChatRequest request = input.take();
  REQUIRE(std::holds_alternative<Request>(request));
  return std::get<Request>(std::move(request));
}

std::string message_with(const std::string& id, const std::string& text) {
  return R"({"type":"message","message-id":)" + id + R"(,"msg":)" + text + R"(,"signature":"AAAA"})";
}

}  // namespace

TEST_CASE("requests of the chat are read", "[chat]") {
  const auto message = taken<ChatMessage>(
      R"( {"msg":"h\u00e9\n","x":[{}],"signature":"AAEC","message-id":"m1","type":"message"} )");
  CHECK(message.id == "m1");
  CHECK(message.text == "h\xc3\xa9\n");
  CHECK(message.signature == std::string("\0\1\2", 3));
  CHECK(message.signature_base64 == "AAEC");

  const auto plain = taken<ChatRegister>(
      R"({"type":"register","username":"Alice","public_key":"MII=","timestamp":"2026-09-10T14:00:00Z","signature":"AAAA"})");
  CHECK(plain.username == "Alice");
  CHECK(plain.public_key == *base64_decode("MII="));
  CHECK(plain.timestamp == "2026-09-10T14:00:00Z");
  CHECK_FALSE(plain.after_sequence.has_value());
  const auto again = taken<ChatRegister>(
      R"({"type":"register","username":"Alice","public_key":"-----BEGIN PUBLIC KEY-----\nAAAA\n",)"
      R"("timestamp":"2026-09-10T14:00:00+02:00","signature":"AAAA","after_sequence":0})");
  CHECK(again.after_sequence == 0);
  CHECK(again.public_key.starts_with("-----BEGIN"));
  CHECK(again.timestamp_us == plain.timestamp_us - std::int64_t{2} * 3600 * 1'000'000);

  CHECK(taken<ChatLoadHistory>(R"({"type":"load_history"})").limit == 25);
  CHECK(taken<ChatLoadHistory>(R"({"type":"load_history","before_sequence":null})").before == 0);
  CHECK(taken<ChatLoadHistory>(R"({"type":"load_history","limit":7,"before_sequence":9})").before == 9);
  CHECK(taken<ChatResume>(R"({"type":"resume","after_sequence":0})").after == 0);
  CHECK(taken<ChatKey>(R"({"type":"key","username":"Bob"})").username == "Bob");
  taken<ChatUsers>(R"({"type":"users"})");
  taken<ChatPing>(R"({"type":"ping","extra":1e400})");
}

TEST_CASE("what is no request has its error", "[chat]") {
  for (const char* text : {"", "hello", "[]", "\"x\"", "null", "{", "{}x", R"({"type":"ping"}{})",
                           R"({"type":"ping",})", R"({"type":"\ud800"})", R"({"type":"ping","x":01})"}) {
    INFO(text);
    CHECK(code_of(text) == "bad_json");
  }
  CHECK(code_of("{}") == "bad_request");
  CHECK(detail_of("{}") == "type is missing");
  CHECK(code_of(R"({"type":1})") == "bad_request");
  CHECK(code_of(R"({"type":"Ping"})") == "unknown_type");
  CHECK(code_of(R"({"type":""})") == "unknown_type");
  // CH-15: a repeated field, whichever would win.
  CHECK(code_of(R"({"type":"message","message-id":"1","msg":"signed","msg":"shown","signature":"AAAA"})") ==
        "bad_request");
  CHECK(detail_of(R"({"type":"ping","type":"ping"})") == "type is given more than once");

  CHECK(code_of(R"({"type":"load_history","limit":0})") == "bad_request");
  CHECK(code_of(R"({"type":"load_history","limit":-5})") == "bad_request");
  CHECK(code_of(R"({"type":"load_history","limit":2.5})") == "bad_request");
  CHECK(code_of(R"({"type":"load_history","limit":"5"})") == "bad_request");
  CHECK(code_of(R"({"type":"load_history","before_sequence":0})") == "bad_request");
  CHECK(code_of(R"({"type":"load_history","limit":99999999999999999999})") == "bad_request");
  CHECK(code_of(R"({"type":"resume"})") == "bad_request");
  CHECK(code_of(R"({"type":"resume","after_sequence":null})") == "bad_request");
  CHECK(code_of(R"({"type":"resume","after_sequence":-1})") == "bad_request");
  CHECK(code_of(R"({"type":"key"})") == "bad_request");
  CHECK(code_of(R"({"type":"key","username":""})") == "bad_request");

  const std::string head = R"({"type":"register","username":"A","timestamp":"2026-09-10T14:00:00Z",)";
  CHECK(code_of(head + R"("public_key":"MII=","signature":"AAAA"})") == "");
  CHECK(code_of(head + R"("public_key":"M-I=","signature":"AAAA"})") == "bad_key");
  CHECK(code_of(head + R"("public_key":"","signature":"AAAA"})") == "bad_key");
  CHECK(code_of(head + R"("public_key":")" + std::string(8000, 'A') + R"(","signature":"AAAA"})") ==
        "bad_key");
  CHECK(code_of(head + R"("public_key":"MII=","signature":"AAA"})") == "bad_signature");
  CHECK(code_of(head + R"("public_key":"MII="})") == "bad_request");
  CHECK(
      code_of(
          R"({"type":"register","username":"A","timestamp":"2026-09-10T14:00:00","public_key":"MII=","signature":"AAAA"})") ==
      "bad_request");
  CHECK(
      detail_of(
          R"({"type":"register","username":"A\n","timestamp":"","public_key":"MII=","signature":"AAAA"})") ==
      "username must not contain control characters");
}

TEST_CASE("messages of the chat keep the limits of posted ones", "[chat]") {
  CHECK(code_of(message_with("\"a\"", "\"x\"")) == "");
  CHECK(code_of(message_with("\"a\"", "\" \"")) == "");  // CH-19: white space is text
  CHECK(code_of(message_with("\"a\"", "\"\\u200b\"")) == "");
  CHECK(code_of(message_with("\"a\"", "\"\"")) == "bad_request");
  CHECK(code_of(message_with("\"a\"", "null")) == "bad_request");
  CHECK(code_of(message_with("\"a\"", "5")) == "bad_request");
  CHECK(code_of(message_with("\"a\"", "\"x\\u0000y\"")) == "bad_request");  // CH-13
  CHECK(code_of(message_with("\"a\\u0000b\"", "\"x\"")) == "bad_request");
  CHECK(code_of(message_with("\"\"", "\"x\"")) == "bad_request");
  CHECK(code_of(message_with("\"" + std::string(128, 'a') + "\"", "\"x\"")) == "");
  CHECK(code_of(message_with("\"" + std::string(129, 'a') + "\"", "\"x\"")) == "bad_request");  // CH-18
  CHECK(code_of(message_with("\"a\"", "\"" + std::string(65536, 'x') + "\"")) == "");
  CHECK(code_of(message_with("\"a\"", "\"" + std::string(65537, 'x') + "\"")) == "too_large");
  // CH-20: whole, or refused whole.
  const std::string emoji = "\xf0\x9f\x98\x80";
  CHECK(
      taken<ChatMessage>(message_with("\"a\"", "\"" + std::string(65532, 'x') + emoji + "\"")).text.size() ==
      65536);
  CHECK(code_of(message_with("\"a\"", "\"" + std::string(65533, 'x') + emoji + "\"")) == "too_large");

  // CH-17: deep nesting, also where nobody looks.
  const auto nested = [](int levels) {
    return R"({"type":"ping","x":)" + std::string(static_cast<std::size_t>(levels), '[') +
           std::string(static_cast<std::size_t>(levels), ']') + "}";
  };
  CHECK(code_of(nested(63)) == "");
  CHECK(code_of(nested(64)) == "bad_json");
  CHECK(code_of(R"({"msg":)" + std::string(100000, '[')) == "bad_json");
}

TEST_CASE("an error tells the message-id back, if it can be one", "[chat]") {
  ChatInput input;
  REQUIRE_FALSE(input.read(message_with("\"a1\"", "\"\"")).has_value());
  input.take();
  CHECK(input.message_id() == "a1");
  REQUIRE_FALSE(input.read(message_with("5", "\"x\"")).has_value());
  CHECK(input.message_id().empty());
  REQUIRE_FALSE(input.read(message_with("\"" + std::string(600, 'a') + "\"", "\"x\"")).has_value());
  CHECK(input.message_id().empty());
  REQUIRE_FALSE(input.read(R"({"type":"ping"})").has_value());
  CHECK(input.message_id().empty());
}

TEST_CASE("the signed texts join their parts with line feeds", "[chat]") {
  CHECK(register_text("Alice", "2026-09-10T14:00:00Z", "abc=") ==
        "dlb-register-v1\nAlice\n2026-09-10T14:00:00Z\nabc=");
  CHECK(message_text("Alice", "m1", "a\nb") == "dlb-message-v1\nAlice\nm1\na\nb");
}

TEST_CASE("ISO 8601 times are read with their zone", "[chat]") {
  const std::int64_t base = 1'789'048'800'000'000;  // 2026-09-10T14:00:00Z
  CHECK(parse_iso8601("2026-09-10T14:00:00Z") == base);
  CHECK(parse_iso8601("2026-09-10 14:00:00z") == base);
  CHECK(parse_iso8601("2026-09-10T14:00:00.123456+00:00") == base + 123456);
  CHECK(parse_iso8601("2026-09-10T14:00:00.1Z") == base + 100000);
  CHECK(parse_iso8601("2026-09-10T14:00:00.123456789Z") == base + 123456);
  CHECK(parse_iso8601("2026-09-10T16:30:00+02:30") == base);
  CHECK(parse_iso8601("2026-09-10T16:30:00+0230") == base);
  CHECK(parse_iso8601("2026-09-10T05:00:00-09:00") == base);
  CHECK(parse_iso8601("1970-01-01T00:00:00Z") == 0);
  CHECK(parse_iso8601("2024-02-29T00:00:00Z").has_value());
  for (const char* bad :
       {"", "2026-09-10", "2026-09-10T14:00:00", "2026-09-10T14:00Z", "2026-02-29T00:00:00Z",
        "2026-13-01T00:00:00Z", "2026-09-10T24:00:00Z", "2026-09-10T14:60:00Z", "2026-09-10T14:00:00.Z",
        "2026-09-10T14:00:00+2", "2026-09-10T14:00:00+24:00", "2026-09-10T14:00:00ZZ", "+026-09-10T14:00:00Z",
        " 2026-09-10T14:00:00Z", "now"}) {
    INFO(bad);
    CHECK_FALSE(parse_iso8601(bad).has_value());
  }
}

TEST_CASE("a token bucket lets a burst pass and then its rate", "[chat]") {
  TokenBucket bucket(20, 40);
  TimePoint now{std::chrono::seconds(5)};
  for (int i = 0; i < 40; ++i) CHECK(bucket.take(now));
  CHECK_FALSE(bucket.take(now));
  now += std::chrono::milliseconds(51);
  CHECK(bucket.take(now));
  CHECK_FALSE(bucket.take(now));
  now += std::chrono::hours(1);
  for (int i = 0; i < 40; ++i) CHECK(bucket.take(now));
  CHECK_FALSE(bucket.take(now));
  TokenBucket none(0, 0);
  for (int i = 0; i < 1000; ++i) CHECK(none.take(now));
}

}  // namespace dlb::backend
