#include "backend/gzip_feeds.h"

#include <map>
#include <string>

#include "backend/feed_cache.h"
#include "common/event_loop.h"
#include "test/support/catch.h"

namespace dlb::backend {
namespace {

using Started = GzipFeeds::Started;

struct Answers final : GzipFeedsClient {
  std::map<std::uint64_t, HttpBody> bodies;
  void on_gzip(std::uint64_t token, HttpBody body) override { bodies.emplace(token, std::move(body)); }
};

struct Feeds {
  EventLoop loop;
  Answers answers;
  GzipFeeds feeds{loop, answers, std::size_t{64} << 20};
  FeedCache cache{64 * 1024, std::size_t{64} << 20};
  std::int64_t sequence = 0;

  void grow(std::size_t bytes) {
    const std::string element = "\"" + std::string(4000, 'x') + "\"";
    for (std::size_t done = 0; done < bytes; done += element.size()) cache.append(++sequence, "n", element);
  }
  Started start(std::uint64_t token, HttpBody& body) {
    body = cache.whole();
    return feeds.start(token, body, true);
  }
  // Turns until `token` is answered or nothing is left to do.
  int turns_until(std::uint64_t token) {
    int turns = 0;
    while (!answers.bodies.contains(token) && turns < 1000) {
      loop.run_once(Duration::zero());
      ++turns;
    }
    return turns;
  }
};

bool is_gzip(const HttpBody& body) {
  return body.parts->front().bytes.starts_with("\x1f\x8b") && body.size < 100'000;
}

}  // namespace

TEST_CASE("a short feed is gzip at once, a longer one after some turns, in order of arrival") {
  Feeds world;
  HttpBody body;
  world.grow(100'000);
  CHECK(world.start(1, body) == Started::Done);
  CHECK(is_gzip(body));
  world.grow(3'000'000);
  CHECK(world.start(2, body) == Started::Queued);
  CHECK(world.start(3, body) == Started::Queued);
  const int turns = world.turns_until(2);
  CHECK(turns >= 20);
  CHECK(turns <= 30);
  CHECK_FALSE(world.answers.bodies.contains(3));
  CHECK(world.turns_until(3) <= 2);
  CHECK(is_gzip(world.answers.bodies[3]));
  CHECK(world.feeds.waiting() == 0);
  CHECK(world.start(4, body) == Started::Done);
}

TEST_CASE("a feed that would be waited for too long goes out plain and is compressed for the next reader") {
  Feeds world;
  HttpBody body;
  world.grow(9'000'000);
  CHECK(world.start(1, body) == Started::Plain);
  CHECK(body.size == world.cache.whole().size);
  CHECK(world.start(2, body) == Started::Plain);
  for (int turn = 0; turn < 100; ++turn) world.loop.run_once(Duration::zero());
  CHECK(world.start(3, body) == Started::Done);
  CHECK(is_gzip(body));
  CHECK(world.answers.bodies.empty());
}

TEST_CASE("who leaves is not answered, and those behind are") {
  Feeds world;
  HttpBody body;
  world.grow(1'000'000);
  CHECK(world.start(1, body) == Started::Queued);
  CHECK(world.start(2, body) == Started::Queued);
  world.loop.run_once(Duration::zero());
  world.feeds.cancel(1);
  CHECK(world.turns_until(2) < 30);
  CHECK_FALSE(world.answers.bodies.contains(1));
}

}  // namespace dlb::backend
