// The feed as shared chunks: bodies that never change once taken, pages, and the bound on memory.
#include "backend/feed_cache.h"

#include "test/support/catch.h"

namespace dlb::backend {
namespace {

std::string text_of(const HttpBody& body) {
  std::string text;
  for (const BodyPart& part : *body.parts) text += part.bytes;
  REQUIRE(text.size() == body.size);
  return text;
}

std::string element(std::int64_t sequence) { return "{\"sequence\":" + std::to_string(sequence) + "}"; }

void fill(FeedCache& cache, std::int64_t first, std::int64_t last) {
  for (std::int64_t i = first; i <= last; ++i) cache.append(i, "nonce" + std::to_string(i), element(i));
}

}  // namespace

TEST_CASE("an element is the message as the API shows it", "[feed_cache]") {
  StoredMessage message;
  message.sequence = 42;
  message.timestamp_us = 1'789'048'800'123'456;
  message.id = "a\"b";
  message.client_name = "ann";
  message.text = "x\ny";
  std::string out;
  append_feed_element(out, message);
  CHECK(out ==
        "{\"message-id\":\"a\\\"b\",\"client-name\":\"ann\",\"msg\":\"x\\ny\",\"timestamp\":"
        "\"2026-09-10T14:00:00.123456+00:00\",\"sequence\":42,\"source\":\"http\"}");
  message.source = MessageSource::Wss;
  message.undecryptable = true;
  out.clear();
  append_feed_element(out, message);
  CHECK(
      out ==
      "{\"message-id\":\"a\\\"b\",\"client-name\":\"ann\",\"msg\":null,\"timestamp\":"
      "\"2026-09-10T14:00:00.123456+00:00\",\"sequence\":42,\"source\":\"wss\",\"error\":\"undecryptable\"}");
}

TEST_CASE("a body that was taken keeps its bytes while the feed grows", "[feed_cache]") {
  FeedCache cache(64, SIZE_MAX);
  CHECK(text_of(cache.whole()) == "{\"messages\":[],\"count\":0}");
  std::vector<std::pair<HttpBody, std::string>> taken;
  std::string expected;
  for (std::int64_t i = 1; i <= 200; ++i) {
    fill(cache, i, i);
    expected += (i == 1 ? "" : ",") + element(i);
    const HttpBody body = cache.whole();
    CHECK(cache.whole().parts == body.parts);  // shared until the next row
    taken.emplace_back(body, "{\"messages\":[" + expected + "],\"count\":" + std::to_string(i) + "}");
  }
  for (const auto& [body, text] : taken) REQUIRE(text_of(body) == text);
  cache.clear();
  for (const auto& [body, text] : taken) REQUIRE(text_of(body) == text);
  CHECK(cache.empty());
  CHECK(cache.last_sequence() == 0);
}

TEST_CASE("an element larger than a chunk gets one of its own", "[feed_cache]") {
  FeedCache cache(64, SIZE_MAX);
  fill(cache, 1, 2);
  const std::string large = "{\"msg\":\"" + std::string(1000, 'x') + "\"}";
  cache.append(3, "n", large);
  fill(cache, 4, 4);
  CHECK(text_of(cache.whole()) == "{\"messages\":[" + element(1) + "," + element(2) + "," + large + "," +
                                      element(4) + "],\"count\":4}");
}

TEST_CASE("pages cut the feed anywhere", "[feed_cache]") {
  FeedCache cache(64, SIZE_MAX);
  // Gaps: conflicts may burn sequence values.
  for (std::int64_t i = 3; i <= 300; i += 3) cache.append(i, "n", element(i));
  for (std::int64_t after = 0; after <= 303; after += 1) {
    for (const std::int64_t limit : {1, 2, 7, 1000}) {
      std::string expected;
      std::int64_t count = 0;
      std::int64_t last = after;
      for (std::int64_t i = 3; i <= 300 && count < limit; i += 3) {
        if (i <= after) continue;
        expected += (expected.empty() ? "" : ",") + element(i);
        ++count;
        last = i;
      }
      const auto page = cache.page(after, limit);
      REQUIRE(page.has_value());
      REQUIRE(text_of(page->body) == "{\"messages\":[" + expected + "],\"count\":" + std::to_string(count) +
                                         ",\"has_more\":" + (last < 300 ? "true" : "false") +
                                         ",\"next_after\":" + std::to_string(last) + "}");
    }
  }
}

TEST_CASE("the cache keeps the newest chunks within its bound and knows what it dropped", "[feed_cache]") {
  FeedCache cache(1024, 16 * 1024);
  FeedCache all(1024, SIZE_MAX);
  std::optional<HttpBody> early;
  for (std::int64_t i = 1; i <= 5000; ++i) {
    fill(cache, i, i);
    fill(all, i, i);
    if (i == 50) early = cache.whole();
    REQUIRE(cache.memory() <= 16 * 1024 + 4096);
  }
  REQUIRE(cache.dropped_rows() > 0);
  CHECK(cache.dropped_through() == static_cast<std::int64_t>(cache.dropped_rows()));
  CHECK(cache.rows() == 5000);
  CHECK_FALSE(cache.page(cache.dropped_through() - 1, 10).has_value());
  CHECK(text_of(cache.page(cache.dropped_through(), 10)->body) ==
        text_of(all.page(cache.dropped_through(), 10)->body));
  CHECK(text_of(*early).find(element(50)) != std::string::npos);  // a reader keeps what it holds

  FeedCache older(1024, SIZE_MAX);
  fill(older, 1, cache.dropped_through());
  CHECK(text_of(cache.whole(&older)) == text_of(all.whole()));
  CHECK(cache.whole_size() == all.whole().size);
  CHECK(all.whole_size() == all.whole().size);
  CHECK(FeedCache(64, SIZE_MAX).whole_size() == FeedCache(64, SIZE_MAX).whole().size);
}

}  // namespace dlb::backend
