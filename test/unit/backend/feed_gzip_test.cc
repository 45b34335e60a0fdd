#include "backend/feed_gzip.h"

#include <zlib.h>

#include <string>
#include <vector>

#include "backend/feed_cache.h"
#include "common/rng.h"
#include "test/support/catch.h"

namespace dlb::backend {
namespace {

std::string joined(const HttpBody& body) {
  std::string out;
  for (const BodyPart& part : *body.parts) out += part.bytes;
  REQUIRE(out.size() == body.size);
  return out;
}

// One gzip member with right checksum and length, and nothing behind it.
std::string unzipped(const std::string& bytes) {
  z_stream stream{};
  REQUIRE(inflateInit2(&stream, 15 + 16) == Z_OK);
  std::string out, room(1 << 16, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  int result = Z_OK;
  while (result == Z_OK) {
    stream.next_out = reinterpret_cast<Bytef*>(room.data());
    stream.avail_out = static_cast<uInt>(room.size());
    result = inflate(&stream, Z_NO_FLUSH);
    out.append(room, 0, room.size() - stream.avail_out);
  }
  const bool at_end = result == Z_STREAM_END && stream.avail_in == 0;
  inflateEnd(&stream);
  REQUIRE(at_end);
  return out;
}

std::string zip(FeedGzip& gzip, const HttpBody& body, bool keep = true, std::size_t budget = SIZE_MAX) {
  FeedGzip::Job job(body, keep);
  while (!gzip.step(job, budget)) {
  }
  return joined(gzip.finish(job));
}

std::string element(std::int64_t sequence, std::size_t size) {
  return "{\"sequence\":" + std::to_string(sequence) + ",\"msg\":\"" + std::string(size, 'a') + "\"}";
}

void add(FeedCache& cache, std::int64_t sequence, std::size_t size = 100) {
  cache.append(sequence, "n", element(sequence, size));
}

}  // namespace

TEST_CASE("accepts_gzip reads Accept-Encoding as RFC 9110 has it") {
  for (const char* yes : {"gzip", "GZIP", "x-gzip", "br, gzip", "gzip;q=0.5", "gzip ; q=1.000", "*",
                          "*;q=0.1", "deflate;q=0, gzip;q=0.001", "identity;q=0, gzip"}) {
    INFO(yes);
    CHECK(accepts_gzip(yes));
  }
  for (const char* no : {"", "identity", "br", "gzip;q=0", "gzip; q=0.000", "*, gzip;q=0", "gzip;q=0, *",
                         "*;q=0", "gzipped", "deflate"}) {
    INFO(no);
    CHECK_FALSE(accepts_gzip(no));
  }
}

TEST_CASE("a growing feed is one gzip member at every length, and each byte is compressed once") {
  FeedGzip gzip(1 << 20);
  FeedCache cache(4096, 1 << 20);
  CHECK(unzipped(zip(gzip, cache.whole())) == joined(cache.whole()));
  std::uint64_t fixed = 0;
  for (std::int64_t sequence = 1; sequence <= 300; ++sequence) {
    add(cache, sequence, static_cast<std::size_t>(sequence * 37 % 400));
    const std::string plain = joined(cache.whole());
    REQUIRE(unzipped(zip(gzip, cache.whole())) == plain);
    fixed += 200;  // short parts are not kept: what opens and closes the document, a chunk's first row
    REQUIRE(gzip.compressed_bytes() <= plain.size() + fixed);
  }
  FeedGzip::Job again(cache.whole(), true);
  CHECK(gzip.missing(again) < 64);
  CHECK(gzip.entries() == cache.chunks());
}

TEST_CASE("bodies of different ages are compressed side by side, in steps of any size") {
  Rng rng(5);
  FeedGzip gzip(1 << 22);
  FeedCache cache(1 << 17, 1 << 22);
  std::vector<std::pair<FeedGzip::Job, std::string>> jobs;
  for (std::int64_t sequence = 1; sequence <= 200; ++sequence) {
    add(cache, sequence, static_cast<std::size_t>(rng.below(9000)));
    if (sequence % 5 == 0)
      jobs.emplace_back(FeedGzip::Job(cache.whole(), sequence % 2 == 0), joined(cache.whole()));
    for (auto& [job, plain] : jobs) gzip.step(job, rng.below(40'000));
    if (jobs.size() > 6) {
      auto [job, plain] = std::move(jobs.front());
      jobs.erase(jobs.begin());
      while (!gzip.step(job, 1 + rng.below(100'000))) {
      }
      REQUIRE(unzipped(joined(gzip.finish(job))) == plain);
    }
  }
}

TEST_CASE("pages use what is kept and leave nothing behind") {
  FeedGzip gzip(1 << 20);
  FeedCache cache(4096, 1 << 20);
  for (std::int64_t sequence = 1; sequence <= 200; ++sequence) add(cache, sequence);
  const auto page = cache.page(33, 100);
  CHECK(unzipped(zip(gzip, page->body, false)) == joined(page->body));
  CHECK(gzip.memory() == 0);
  zip(gzip, cache.whole());
  const std::uint64_t before = gzip.compressed_bytes();
  CHECK(unzipped(zip(gzip, page->body, false)) == joined(page->body));
  CHECK(gzip.compressed_bytes() - before < page->body.size / 2);
}

TEST_CASE("what is kept is bounded and goes with its part") {
  FeedGzip gzip(2000);
  FeedCache cache(4096, 1 << 20);
  for (std::int64_t sequence = 1; sequence <= 400; ++sequence) add(cache, sequence * 7919);
  CHECK(unzipped(zip(gzip, cache.whole())) == joined(cache.whole()));
  CHECK(gzip.memory() > 0);
  CHECK(gzip.memory() <= 2000);
  cache.clear();
  add(cache, 1, 300);
  CHECK(unzipped(zip(gzip, cache.whole())) == joined(cache.whole()));
  CHECK(gzip.entries() == 1);
  CHECK(gzip.memory() < 200);
}

TEST_CASE("a part longer than a piece is compressed in steps") {
  FeedGzip gzip(1 << 22);
  FeedCache cache(4096, 1 << 22);
  std::string text;
  Rng rng(9);
  while (text.size() < 300'000) text += std::to_string(rng.next());
  cache.append(1, "n", "\"" + text + "\"");
  FeedGzip::Job job(cache.whole(), true);
  int steps = 1;
  while (!gzip.step(job, 1)) ++steps;
  CHECK(steps >= 5);
  CHECK(unzipped(joined(gzip.finish(job))) == joined(cache.whole()));
}

}  // namespace dlb::backend
