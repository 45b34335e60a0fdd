#include "loadgen/payload.h"

#include <simdjson.h>

#include <set>
#include <vector>

#include "common/rng.h"
#include "loadgen/hash.h"
#include "test/support/catch.h"

namespace dlb::loadgen {
namespace {

PayloadShape shape(std::uint64_t seed) {
  PayloadShape shape;
  shape.seed = seed;
  shape.users = 7;
  return shape;
}

std::string bytes_of(std::uint64_t seed, std::uint64_t count) {
  Payload payload(shape(seed));
  RequestWriter writer("host:1", "", true);
  std::string bytes;
  for (std::uint64_t i = 0; i < count; ++i) bytes += writer.post_message(payload.message(i));
  return bytes;
}

TEST_CASE("the same seed gives the same bytes, another seed others") {
  CHECK(bytes_of(5, 200) == bytes_of(5, 200));
  CHECK(bytes_of(5, 200) != bytes_of(6, 200));
}

TEST_CASE("an operation's bytes don't depend on what was made before it") {
  Payload one(shape(9));
  Payload other(shape(9));
  for (std::uint64_t i = 0; i < 50; ++i) other.message(i);
  RequestWriter writer("host:1", "", true);
  const std::string first(writer.post_message(one.message(50)));
  CHECK(writer.post_message(other.message(50)) == first);
}

TEST_CASE("the bytes of a seed stay what they were in earlier versions") {
  // A change here changes every recorded run: it must be on purpose.
  CHECK(hash_bytes(bytes_of(1, 100), 0) == 0x8ea9718ced67dfd3ULL);
}

TEST_CASE("messages have printable texts of the asked lengths, names by user, and unique UUIDs") {
  PayloadShape s = shape(3);
  s.message_min = 16;
  s.message_max = 20;
  Payload payload(s);
  std::set<std::string> ids;
  std::set<std::size_t> lengths;
  std::set<char> characters;
  std::vector<std::set<char>> digits(kMessageIdChars);
  for (std::uint64_t i = 0; i < 5000; ++i) {
    const Message message = payload.message(i);
    lengths.insert(message.text.size());
    characters.insert(message.text.begin(), message.text.end());
    CHECK(message.client_name == "user-0000" + std::to_string(i % 7));
    std::string id(kMessageIdChars, ' ');
    write_message_id(message.id, id.data());
    CHECK(id[14] == '4');
    CHECK(std::string("89ab").find(id[19]) != std::string::npos);
    ids.insert(id);
    for (std::size_t place = 0; place < id.size(); ++place) digits[place].insert(id[place]);
  }
  for (std::size_t place = 0; place < digits.size(); ++place) {
    const bool hyphen = place == 8 || place == 13 || place == 18 || place == 23;
    CHECK(digits[place].size() == (hyphen || place == 14 ? 1U : place == 19 ? 4U : 16U));
  }
  CHECK(ids.size() == 5000);
  CHECK(lengths == std::set<std::size_t>{16, 17, 18, 19, 20});
  CHECK(characters.size() == 95);
  CHECK(*characters.begin() == ' ');
  CHECK(*characters.rbegin() == '~');
}

TEST_CASE("each thousand operations has exactly the asked share of feeds, for every user about alike") {
  for (const double percent : {0.0, 0.1, 5.0, 37.5, 100.0}) {
    PayloadShape s = shape(11);
    s.feed_percent = percent;
    const Payload payload(s);
    for (std::uint64_t block = 0; block < 5; ++block) {
      int feeds = 0;
      for (std::uint64_t i = 0; i < 1000; ++i) {
        if (payload.operation_class(block * 1000 + i) == OperationClass::Feed) ++feeds;
      }
      CHECK(feeds == static_cast<int>(percent * 10));
    }
  }
  PayloadShape s = shape(12);
  s.feed_percent = 5;
  const Payload payload(s);
  for (std::uint64_t user = 0; user < 200; ++user) {
    int feeds = 0;
    for (std::uint64_t i = user; i < 200 * 1000; i += 200) {
      if (payload.operation_class(i) == OperationClass::Feed) ++feeds;
    }
    CHECK(feeds > 20);
    CHECK(feeds < 90);
  }
}

TEST_CASE("a request is valid HTTP and JSON, with the id in body and header") {
  Payload payload(shape(21));
  RequestWriter writer("example.org:81", "/chat", true);
  for (std::uint64_t i = 0; i < 500; ++i) {
    const Message message = payload.message(i);
    const std::string request(writer.post_message(message));
    REQUIRE(request.starts_with("POST /chat/message HTTP/1.1\r\nHost: example.org:81\r\n"));
    const std::size_t head_end = request.find("\r\n\r\n");
    REQUIRE(head_end != std::string::npos);
    const std::string body = request.substr(head_end + 4);
    CHECK(request.find("\r\nContent-Length: " + std::to_string(body.size()) + "\r\n") < head_end);
    CHECK(request.find("Connection") == std::string::npos);

    simdjson::dom::parser parser;
    simdjson::dom::element json;
    REQUIRE(parser.parse(body).get(json) == simdjson::SUCCESS);
    std::string id(kMessageIdChars, ' ');
    write_message_id(message.id, id.data());
    CHECK(std::string_view(json["message-id"]) == id);
    CHECK(std::string_view(json["client-name"]) == message.client_name);
    CHECK(std::string_view(json["msg"]) == message.text);
    CHECK(request.find("\r\nIdempotency-Key: " + id + "\r\n") < head_end);
  }
  CHECK(writer.get_feed() ==
        "GET /chat/feed HTTP/1.1\r\nHost: example.org:81\r\nUser-Agent: dlb-loadgen\r\n"
        "Accept: application/json\r\n\r\n");
  RequestWriter closing("h", "", false);
  CHECK(closing.get_feed().ends_with("\r\nConnection: close\r\n\r\n"));
}

TEST_CASE("ids survive their text, and foreign texts are no ids of ours") {
  Rng rng(4);
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t high = rng.next();
    const MessageId id = make_message_id(high, rng.next());
    std::string text(kMessageIdChars, ' ');
    write_message_id(id, text.data());
    MessageId back;
    REQUIRE(parse_message_id(text, back));
    CHECK(back == id);
    text[static_cast<std::size_t>(i) % text.size()] = 'G';
    CHECK_FALSE(parse_message_id(text, back));
  }
  MessageId id;
  CHECK_FALSE(parse_message_id("", id));
  CHECK_FALSE(parse_message_id("0f8fad5b-d9cb-469f-a165-70867728950E", id));
  CHECK_FALSE(parse_message_id("0f8fad5bd9cb-469f-a165-70867728950ee-", id));
}

TEST_CASE("the content hash tells name and text apart") {
  CHECK(content_hash("a", "bc") == content_hash("a", "bc"));
  CHECK(content_hash("a", "bc") != content_hash("ab", "c"));
  CHECK(content_hash("a", "bc") != content_hash("a", "bd"));
  CHECK(content_hash("a", "b") != content_hash("a", std::string("b\0", 2)));
  std::set<std::uint64_t> hashes;
  for (std::size_t length = 0; length < 300; ++length) hashes.insert(hash_bytes(std::string(length, 'x'), 1));
  CHECK(hashes.size() == 300);
}

}  // namespace
}  // namespace dlb::loadgen
