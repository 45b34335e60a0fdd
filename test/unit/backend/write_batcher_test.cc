// Batches by arrival, size, bytes and delay; joins; queue limits; answers. Time is passed in.
#include "backend/write_batcher.h"

#include <map>

#include "common/rng.h"
#include "test/support/catch.h"

namespace dlb::backend {
namespace {

using std::chrono::milliseconds;

constexpr TimePoint kStart{std::chrono::hours(1)};

NewMessage message(std::string id, std::string text = "text") {
  return {std::move(id), "ann", std::move(text), {}, ""};
}

WriteBatcher::Limits limits() {
  WriteBatcher::Limits out;
  out.batch_rows = 4;
  out.batch_bytes = 10000;
  out.queue_rows = 10;
  out.queue_bytes = 20000;
  return out;
}

RowResult stored(std::int64_t sequence) {
  RowResult out;
  out.kind = RowResult::Kind::Stored;
  out.sequence = sequence;
  return out;
}

std::string ids(const WriteBatch& batch) {
  std::string out;
  for (const auto& row : batch) out += row->message.id;
  return out;
}

}  // namespace

TEST_CASE("a batch waits for the delay unless it is full", "[write_batcher]") {
  WriteBatcher batcher(limits());
  CHECK(batcher.due_at() == kNever);
  REQUIRE(batcher.offer(message("a"), 1, kStart) == WriteBatcher::Offer::Queued);
  CHECK_FALSE(batcher.due(kStart));
  CHECK(batcher.due_at() == kStart + milliseconds(2));
  CHECK(batcher.take(kStart, 100).empty());
  batcher.offer(message("b"), 2, kStart + milliseconds(1));
  CHECK(ids(batcher.take(kStart + milliseconds(2), 100)) == "ab");

  for (const char* id : {"c", "d", "e", "f", "g"})
    batcher.offer(message(id), static_cast<unsigned char>(*id), kStart);
  CHECK(batcher.due(kStart));
  CHECK(ids(batcher.take(kStart, 100)) == "cdef");
  // What a full batch left behind goes without a timer.
  CHECK(batcher.due(kStart));
  CHECK(ids(batcher.take(kStart, 100)) == "g");
  batcher.offer(message("h"), 300, kStart);
  CHECK_FALSE(batcher.due(kStart));
}

TEST_CASE("a batch is bounded in bytes and by what the caller may take", "[write_batcher]") {
  WriteBatcher batcher(limits());
  batcher.offer(message("a", std::string(6000, 'x')), 1, kStart);
  batcher.offer(message("b", std::string(6000, 'x')), 2, kStart);
  CHECK(batcher.due(kStart));
  CHECK(ids(batcher.take(kStart, 100)) == "a");
  CHECK(ids(batcher.take(kStart, 100)) == "b");
  // One row over the bound still goes, alone.
  batcher.offer(message("c", std::string(15000, 'x')), 3, kStart);
  batcher.offer(message("d"), 4, kStart);
  CHECK(batcher.take(kStart, 0).empty());
  CHECK(ids(batcher.take(kStart, 100)) == "c");
}

TEST_CASE("the queue refuses over its rows and bytes", "[write_batcher]") {
  WriteBatcher batcher(limits());
  REQUIRE(batcher.offer(message("big", std::string(19000, 'x')), 1, kStart) == WriteBatcher::Offer::Queued);
  CHECK(batcher.offer(message("more", std::string(1000, 'x')), 2, kStart) == WriteBatcher::Offer::QueueFull);
  batcher.take(kStart, 100);
  for (std::uint64_t i = 0; i < 10; ++i) {
    REQUIRE(batcher.offer(message("q" + std::to_string(i)), 100 + i, kStart) == WriteBatcher::Offer::Queued);
  }
  CHECK(batcher.offer(message("one more"), 200, kStart) == WriteBatcher::Offer::QueueFull);
  CHECK(batcher.offer(message("q3"), 201, kStart) == WriteBatcher::Offer::Joined);
  CHECK(batcher.queued_rows() == 10);
}

TEST_CASE("an id is held once: repeats join it, queued or in flight", "[write_batcher]") {
  WriteBatcher batcher(limits());
  std::vector<PutAnswer> answers;
  batcher.offer(message("a"), 1, kStart);
  CHECK(batcher.offer(message("a"), 2, kStart) == WriteBatcher::Offer::Joined);
  WriteBatch batch = batcher.take(kStart + milliseconds(5), 100);
  REQUIRE(batch.size() == 1);
  CHECK(batcher.offer(message("a"), 3, kStart) == WriteBatcher::Offer::Joined);
  CHECK(batcher.offer(message("a", "other"), 4, kStart) == WriteBatcher::Offer::Joined);
  CHECK(batcher.queued_rows() == 0);
  batcher.settle(std::move(batch[0]), stored(7), answers);
  REQUIRE(answers.size() == 4);
  CHECK(answers[0].outcome.status == PutStatus::Created);
  CHECK(answers[1].outcome.status == PutStatus::Duplicate);
  CHECK(answers[2].outcome.status == PutStatus::Duplicate);
  CHECK(answers[2].outcome.sequence == 7);
  CHECK(answers[3].outcome.status == PutStatus::Conflict);
  CHECK(batcher.pending_rows() == 0);
  CHECK(batcher.offer(message("a"), 5, kStart) == WriteBatcher::Offer::Queued);
}

TEST_CASE("other content under the id is judged by the row that is there", "[write_batcher]") {
  WriteBatcher batcher(limits());
  std::vector<PutAnswer> answers;
  batcher.offer(message("a", "mine"), 1, kStart);
  batcher.offer(message("a", "theirs"), 2, kStart);
  WriteBatch batch = batcher.take(kStart + milliseconds(5), 100);
  RowResult existing;
  existing.kind = RowResult::Kind::Existing;
  existing.sequence = 3;
  SECTION("readable") {
    existing.digest = content_digest("ann", "theirs");
    batcher.settle(std::move(batch[0]), existing, answers);
    CHECK(answers[0].outcome.status == PutStatus::Conflict);
    CHECK(answers[1].outcome.status == PutStatus::Duplicate);
  }
  SECTION("quarantined") {
    batcher.settle(std::move(batch[0]), existing, answers);
    CHECK(answers[0].outcome.status == PutStatus::Conflict);
    CHECK(answers[1].outcome.status == PutStatus::Conflict);
  }
}

TEST_CASE("rows leave the queue when their time or their asker is gone", "[write_batcher]") {
  WriteBatcher batcher(limits());
  std::vector<PutAnswer> answers;
  batcher.offer(message("a"), 1, kStart);
  batcher.offer(message("b"), 2, kStart);
  batcher.offer(message("b"), 3, kStart);
  CHECK(batcher.cancel(1));
  CHECK_FALSE(batcher.cancel(1));
  CHECK(batcher.cancel(2));
  CHECK(batcher.queued_rows() == 1);
  CHECK(batcher.expire(kStart + milliseconds(4999), answers) == 0);
  CHECK(batcher.expires_at() == kStart + milliseconds(5000));
  CHECK(batcher.expire(kStart + milliseconds(5000), answers) == 1);
  REQUIRE(answers.size() == 1);
  CHECK(answers[0].token == 3);
  CHECK(answers[0].outcome.status == PutStatus::Unavailable);
  CHECK(batcher.queued_bytes() == 0);
  CHECK(batcher.pending_rows() == 0);
}

TEST_CASE("every put is answered once, in whatever order things happen", "[write_batcher]") {
  const std::uint64_t seed = 20261130;
  INFO("seed " << seed);
  Rng rng(seed);
  WriteBatcher batcher(limits());
  std::map<std::uint64_t, int> open;  // token: answers
  std::vector<WriteBatch> in_flight;
  std::vector<PutAnswer> answers;
  TimePoint now = kStart;
  std::uint64_t token = 1;
  for (int step = 0; step < 20000; ++step) {
    now += std::chrono::microseconds(rng.below(500));
    switch (rng.below(5)) {
      case 0:
      case 1:
        if (batcher.offer(message("id" + std::to_string(rng.below(30)), rng.below(4) == 0 ? "b" : "a"), token,
                          now) != WriteBatcher::Offer::QueueFull) {
          open[token] = 0;
        }
        ++token;
        break;
      case 2: {
        WriteBatch batch = batcher.take(now, 1 + rng.below(6));
        REQUIRE(batch.size() <= 4);
        if (!batch.empty()) in_flight.push_back(std::move(batch));
        break;
      }
      case 3:
        if (!in_flight.empty()) {
          const std::size_t which = rng.below(in_flight.size());
          for (auto& row : in_flight[which]) batcher.settle(std::move(row), stored(step), answers);
          in_flight.erase(in_flight.begin() + static_cast<std::ptrdiff_t>(which));
        }
        break;
      default:
        if (!open.empty() && rng.below(8) == 0) {
          auto one = open.begin();
          std::advance(one, static_cast<std::ptrdiff_t>(rng.below(open.size())));
          if (one->second == 0) {
            REQUIRE(batcher.cancel(one->first));
            open.erase(one);
          }
        }
    }
    for (const PutAnswer& answer : answers) {
      REQUIRE(open.contains(answer.token));
      REQUIRE(open[answer.token] == 0);
      open.erase(answer.token);
    }
    answers.clear();
    REQUIRE(batcher.queued_rows() <= 10);
    REQUIRE(batcher.queued_bytes() <= 20000);
  }
  for (WriteBatch& batch : in_flight) {
    for (auto& row : batch) batcher.settle(std::move(row), stored(1), answers);
  }
  batcher.fail_queue(RowResult{}, answers);
  CHECK(answers.size() == open.size());
  CHECK(batcher.pending_rows() == 0);
  CHECK(batcher.queued_bytes() == 0);
}

}  // namespace dlb::backend
