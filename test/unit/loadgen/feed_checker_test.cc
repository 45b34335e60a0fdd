// The verifier's negative controls: every fault that is planted must be found, and a right feed must pass.
#include "loadgen/feed_checker.h"

#include <functional>

#include "common/json_writer.h"
#include "loadgen/payload.h"
#include "test/support/catch.h"

namespace dlb::loadgen {
namespace {

struct Row {
  std::string id;
  std::string name;
  std::string text;
  std::int64_t sequence = 0;
  bool quarantined = false;
};

// Twenty messages: 0–15 accepted, 16–18 ambiguous, 19 answered 409; the feed has the accepted ones and 16.
struct World {
  Ledger ledger;
  std::vector<Row> rows;

  World() {
    PayloadShape shape;
    shape.users = 4;
    Payload payload(shape);
    for (std::uint64_t i = 0; i < 20; ++i) {
      const Message m = payload.message(i);
      const Promise promise = i < 16 ? Promise::Accepted : i < 19 ? Promise::Ambiguous : Promise::Conflict;
      ledger.add(m.id, content_hash(m.client_name, m.text), promise);
      Row row{std::string(kMessageIdChars, ' '), std::string(m.client_name), std::string(m.text),
              static_cast<std::int64_t>(i * 2 + 1)};
      write_message_id(m.id, row.id.data());
      if (i <= 16) rows.push_back(row);
    }
  }

  std::string feed(std::int64_t count = -1) const {
    std::string text;
    JsonWriter json(text);
    json.begin_object().key("messages").begin_array();
    for (const Row& row : rows) {
      json.begin_object().field("message-id", row.id).field("client-name", row.name);
      if (row.quarantined) {
        json.key("msg").null().field("error", "undecryptable");
      } else {
        json.field("msg", row.text);
      }
      json.field("timestamp", "2026-09-10T14:00:00.123456+00:00").field("sequence", row.sequence);
      json.field("source", "http").end_object();
    }
    json.end_array().field("count", count < 0 ? static_cast<std::int64_t>(rows.size()) : count).end_object();
    return text;
  }

  FeedSummary check(const std::string& bytes, std::size_t piece = SIZE_MAX) {
    FeedChecker checker(ledger);
    for (std::size_t at = 0; at < bytes.size(); at += std::min(piece, bytes.size() - at)) {
      if (!checker.feed(std::string_view(bytes).substr(at, piece))) break;
    }
    return checker.finish();
  }
};

TEST_CASE("a right feed passes, in pieces of any size") {
  World world;
  const std::string feed = world.feed();
  for (const std::size_t piece :
       {std::size_t{1}, std::size_t{2}, std::size_t{7}, std::size_t{100}, feed.size()}) {
    const FeedSummary summary = world.check(feed, piece);
    INFO("pieces of " << piece << " " << summary.faults.malformed);
    CHECK_FALSE(summary.faults.any());
    CHECK(summary.rows == 17);
    CHECK(summary.found == 16);
    CHECK(summary.ambiguous_found == 1);
    CHECK(summary.foreign == 0);
    CHECK(summary.bytes == feed.size());
    CHECK(summary.last_sequence == 33);
  }
}

TEST_CASE("planted faults are found, each as what it is") {
  World world;
  FeedFaults expected;
  SECTION("a lost message") {
    world.rows.erase(world.rows.begin() + 5);
    expected.lost = 1;
  }
  SECTION("the last message lost") {
    world.rows.erase(world.rows.begin() + 15);
    expected.lost = 1;
  }
  SECTION("all lost") {
    world.rows.clear();
    expected.lost = 16;
  }
  SECTION("a doubled accepted message") {
    world.rows.push_back(world.rows[3]);
    world.rows.back().sequence = 100;
    expected.duplicated = 1;
  }
  SECTION("a doubled ambiguous message") {
    world.rows.push_back(world.rows[16]);
    world.rows.back().sequence = 100;
    expected.duplicated = 1;
  }
  SECTION("a doubled foreign row") {
    world.rows.push_back(Row{"somebody's", "x", "y", 101});
    world.rows.push_back(Row{"somebody's", "x", "z", 102});
    expected.duplicated = 1;
  }
  SECTION("two messages swapped") {
    std::swap(world.rows[7], world.rows[8]);
    expected.out_of_order = 1;
  }
  SECTION("a sequence used twice") {
    world.rows[9].sequence = world.rows[8].sequence;
    expected.out_of_order = 1;
  }
  SECTION("an altered text") {
    world.rows[2].text[3] ^= 1;
    expected.altered = 1;
  }
  SECTION("a trimmed text") {
    world.rows[2].text += ' ';
    expected.altered = 1;
  }
  SECTION("an altered ambiguous text") {
    world.rows[16].text += 'x';
    expected.altered = 1;
  }
  SECTION("another client's name") {
    world.rows[2].name = "user-00003x";
    expected.altered = 1;
  }
  SECTION("texts of two messages exchanged") {
    std::swap(world.rows[2].text, world.rows[3].text);
    expected.altered = 2;
  }
  SECTION("a quarantined message") {
    world.rows[4].quarantined = true;
    expected.altered = 1;
  }
  const FeedFaults found = world.check(world.feed()).faults;
  CHECK(found.malformed.empty());
  CHECK(found.lost == expected.lost);
  CHECK(found.duplicated == expected.duplicated);
  CHECK(found.altered == expected.altered);
  CHECK(found.out_of_order == expected.out_of_order);
  CHECK(found.any());
  CHECK_FALSE(found.examples.empty());
}

TEST_CASE("a wrong count, or none, is a fault") {
  World world;
  CHECK(world.check(world.feed(16)).faults.wrong_count);
  std::string feed = world.feed();
  feed.replace(feed.find(",\"count\""), std::string::npos, "}");
  CHECK_FALSE(world.check(feed).faults.malformed.empty());
}

TEST_CASE("rows that the run never sent are counted and tolerated") {
  World world;
  world.rows.insert(world.rows.begin(), Row{"older", "someone", "hello \"\\ \xc3\xa9", 0});
  for (int i = 0; i < 5000; ++i) world.rows.push_back(Row{"x" + std::to_string(i), "someone", "t", 200 + i});
  const FeedSummary summary = world.check(world.feed());
  CHECK_FALSE(summary.faults.any());
  CHECK(summary.foreign == 5001);
  CHECK(summary.found == 16);
}

TEST_CASE("the row of a 409 is somebody else's: its content isn't compared, its uniqueness is") {
  World world;
  Row row = world.rows[0];
  MessageId id = world.ledger.at(19).id;
  write_message_id(id, row.id.data());
  row.sequence = 90;
  world.rows.push_back(row);
  CHECK_FALSE(world.check(world.feed()).faults.any());
  row.sequence = 91;
  world.rows.push_back(row);
  CHECK(world.check(world.feed()).faults.duplicated == 1);
}

TEST_CASE("a second check of the same ledger starts anew") {
  World world;
  CHECK_FALSE(world.check(world.feed()).faults.any());
  CHECK_FALSE(world.check(world.feed()).faults.any());
}

TEST_CASE("a feed that was cut, anywhere, is malformed") {
  World world;
  const std::string feed = world.feed();
  for (std::size_t length = 0; length < feed.size(); ++length) {
    INFO("cut at " << length);
    CHECK_FALSE(world.check(feed.substr(0, length)).faults.malformed.empty());
  }
}

TEST_CASE("what is no feed is malformed") {
  World world;
  const std::string row = R"({"message-id":"a","client-name":"b","msg":"c","sequence":1})";
  const auto malformed = [&](const std::string& text) { return !world.check(text).faults.malformed.empty(); };
  CHECK_FALSE(malformed("{\"messages\":[" + row + "],\"count\":1}"));
  CHECK_FALSE(malformed(" {\n\"x\" : [1, {\"]\":\"}\\\"\"}, null],\"count\": 1 ,\t\"messages\" : [ " + row +
                        " ] } \n"));
  CHECK_FALSE(malformed(R"({"messages":[],"count":0})"));
  CHECK(malformed(""));
  CHECK(malformed("[]"));
  CHECK(malformed("<html>"));
  CHECK(malformed(R"({"messages":[],"count":0}x)"));
  CHECK(malformed(R"({"messages":[],"count":0}{})"));
  CHECK(malformed(R"({"messages":{},"count":0})"));
  CHECK(malformed(R"({"messages":[],"messages":[],"count":0})"));
  CHECK(malformed(R"({"messages":[],"count":"0"})"));
  CHECK(malformed(R"({"messages":[],"count":-1})"));
  CHECK(malformed(R"({"messages":[],"count":0,})"));
  CHECK(malformed(R"({"messages":[],,"count":0})"));
  CHECK(malformed(R"({"messages" [],"count":0})"));
  CHECK(malformed(R"({"count":0})"));
  CHECK(malformed("{\"messages\":[" + row + ",],\"count\":1}"));
  CHECK(malformed("{\"messages\":[" + row + " " + row + "],\"count\":2}"));
  CHECK(malformed("{\"messages\":[,\"count\":0}"));
  CHECK(malformed("{\"messages\":[1],\"count\":1}"));
  CHECK(malformed("{\"messages\":[\"a\"],\"count\":1}"));
  CHECK(malformed("{\"messages\":[{\"message-id\":\"a\",\"client-name\":\"b\",\"msg\":\"c\"}],\"count\":1}"));
  CHECK(malformed(
      "{\"messages\":[{\"message-id\":1,\"client-name\":\"b\",\"msg\":\"c\",\"sequence\":1}],\"count\":1}"));
  CHECK(malformed(
      "{\"messages\":[{\"message-id\":\"a\",\"client-name\":\"b\",\"msg\":\"\xff\",\"sequence\":1}],"
      "\"count\":1}"));
  CHECK(malformed("{\"messages\":[\"" + std::string(FeedSplitter::kMaxElementBytes + 10, 'a') +
                  "\"],\"count\":1}"));
}

TEST_CASE("the ledger finds each of many entries and no other") {
  Ledger ledger;
  Payload payload(PayloadShape{});
  std::vector<MessageId> ids;
  for (std::uint64_t i = 0; i < 20000; ++i) {
    const Message m = payload.message(i);
    ids.push_back(m.id);
    ledger.add(m.id, i, i % 10 == 0 ? Promise::Ambiguous : Promise::Accepted);
  }
  ledger.prepare_lookup();
  for (std::uint64_t i = 0; i < ids.size(); ++i) {
    const Ledger::Entry* entry = ledger.find(ids[i]);
    REQUIRE(entry != nullptr);
    REQUIRE(entry->content == i);
  }
  for (std::uint64_t i = 20000; i < 30000; ++i) REQUIRE(ledger.find(payload.message(i).id) == nullptr);
  CHECK(ledger.accepted() == 18000);
  CHECK(ledger.ambiguous() == 2000);
}

TEST_CASE("posts of one message are one entry with their strongest promise") {
  const auto kinds = {Promise::Accepted, Promise::Ambiguous, Promise::Conflict};
  for (const Promise first : kinds) {
    for (const Promise second : kinds) {
      Ledger ledger;
      const MessageId id = make_message_id(1, 2);
      ledger.add(id, 77, first);
      ledger.add(make_message_id(3, 4), 78, Promise::Accepted);
      ledger.add(id, 77, second);
      for (int times = 0; times < 2; ++times) {
        ledger.prepare_lookup();
        const Promise joined = second == Promise::Accepted ? second : first;
        CHECK(ledger.find(id)->promise == joined);
        CHECK(ledger.accepted() == (joined == Promise::Accepted ? 2 : 1));
        CHECK(ledger.ambiguous() == (joined == Promise::Ambiguous ? 1 : 0));
      }
    }
  }
  Ledger ledger;  // two contents under one id are never both in a feed
  ledger.add(make_message_id(1, 2), 77, Promise::Accepted);
  ledger.add(make_message_id(1, 2), 78, Promise::Accepted);
  ledger.prepare_lookup();
  CHECK(ledger.accepted() == 2);
}

TEST_CASE("a ledger that nobody looks into keeps nothing, unless an oracle watches") {
  Ledger ledger;
  ledger.keep_nothing();
  ledger.add(make_message_id(1, 1), 5, Promise::Accepted);
  CHECK(ledger.size() == 0);
  DeliveryOracle oracle;
  ledger.watch(&oracle);
  ledger.add(make_message_id(1, 2), 5, Promise::Ambiguous);
  CHECK(ledger.size() == 1);
}

}  // namespace
}  // namespace dlb::loadgen
