// What becomes of a batch when the database fails in one way or another. The driver is a script, since these
// moments (a commit whose confirmation was lost, say) can't be hit at will on a real server; the other store
// tests use real ones.
#include "backend/write_path.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "test/support/catch.h"

namespace dlb::backend {
namespace {

using std::chrono::milliseconds;

struct Script final : WriteDriver, MessageStoreClient {
  explicit Script(StoreConfig settings = {}) : config(std::move(settings)) {
    answers.set_client(*this);
    turn_until([this] {
      path.on_driver_change();
      return reserved;
    });
    path.on_reserved(KeyBudget::kBlock);
  }

  // WriteDriver
  bool write_ready() const override { return ready; }
  bool write_away() const override { return away; }
  void send_batch(std::uint64_t id, const WriteBatch& batch) override { sent.emplace_back(id, &batch); }
  void send_reserve(const KeyId&) override { reserved = true; }
  void announce(std::int64_t first, std::int64_t last) override { announced = {first, last}; }

  // MessageStoreClient
  void on_put(std::uint64_t token, const PutOutcome& outcome) override { outcomes[token] = outcome.status; }
  void on_feed(std::uint64_t, const FeedAnswer&) override {}

  template <class Condition>
  void turn_until(Condition&& condition) {
    const TimePoint end = monotonic_now() + std::chrono::seconds(10);
    while (!condition() && monotonic_now() < end) loop.run_once(milliseconds(1));
    REQUIRE(condition());
  }
  void put(std::uint64_t token, const std::string& id, const std::string& text = "text") {
    path.put({id, "ann", text, MessageSource::Http, ""}, token);
  }
  // The ids of the newest batch, once there are `count` batches.
  std::string ids(std::size_t count) {
    turn_until([&] { return sent.size() >= count; });
    REQUIRE(sent.size() == count);
    std::string out;
    for (const auto& row : *sent.back().second) out += row->message.id;
    return out;
  }
  void reply(std::vector<RowReply> replies) { path.on_batch_replies(sent.back().first, replies); }
  void fail(BatchFailure failure) { path.on_batch_failed(sent.back().first, failure, "scripted"); }
  PutStatus outcome(std::uint64_t token) {
    turn_until([&] { return outcomes.contains(token); });
    return outcomes[token];
  }

  static RowReply created(std::int64_t sequence) {
    RowReply reply;
    reply.kind = RowReply::Kind::Created;
    reply.sequence = sequence;
    return reply;
  }
  // The row as it would be read back, with the nonce of `row`.
  static RowReply existing(const PendingWrite& row, std::string_view nonce) {
    RowReply reply;
    reply.kind = RowReply::Kind::Existing;
    reply.existing.sequence = 5;
    reply.existing.message_id = row.message.id;
    reply.existing.client_name = row.message.client_name;
    reply.existing.key_id = as_bytes(row.sealed->key_id);
    reply.existing.nonce = nonce;
    reply.existing.ciphertext = row.sealed->ciphertext;
    return reply;
  }

  StoreConfig config;
  EventLoop loop;
  Log log;
  TimerHeap timers{loop};
  AnswerQueue answers{loop};
  Cipher cipher{*KeyRing::parse("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", "keys")};
  bool ready = true;
  bool away = false;
  bool reserved = false;
  std::pair<std::int64_t, std::int64_t> announced;
  std::vector<std::pair<std::uint64_t, const WriteBatch*>> sent;
  std::map<std::uint64_t, PutStatus> outcomes;
  WritePath path{loop, timers, log, config, cipher, answers, *this};
};

}  // namespace

TEST_CASE("a row that is there with our own nonce was created by us", "[write_path]") {
  Script script;
  script.put(1, "a");
  REQUIRE(script.ids(1) == "a");
  const std::string nonce((*script.sent[0].second)[0]->sealed->nonce_bytes());
  script.fail(BatchFailure::Lost);
  script.put(2, "a");  // asks again meanwhile: joins
  REQUIRE(script.ids(2) == "a");
  const PendingWrite& row = *(*script.sent[1].second)[0];
  CHECK(row.sealed->nonce_bytes() == nonce);
  SECTION("ours") {
    script.reply({Script::existing(row, nonce)});
    CHECK(script.outcome(1) == PutStatus::Created);
    CHECK(script.outcome(2) == PutStatus::Duplicate);
  }
  SECTION("another's, which does not decrypt under its nonce") {
    script.reply({Script::existing(row, "another nonc")});
    CHECK(script.outcome(1) == PutStatus::Conflict);
  }
  CHECK(script.path.idle());
}

TEST_CASE("a lost batch is sent again only for those who still wait", "[write_path]") {
  Script script;
  script.put(1, "a");
  script.put(2, "b");
  script.put(3, "c");
  REQUIRE(script.ids(1) == "abc");
  script.ready = false;
  script.fail(BatchFailure::Lost);
  script.path.cancel(2);
  script.ready = true;
  script.path.on_driver_change();
  REQUIRE(script.ids(2) == "ac");
  script.reply({Script::created(8), Script::created(9)});
  CHECK(script.outcome(1) == PutStatus::Created);
  CHECK(script.outcome(3) == PutStatus::Created);
  CHECK(script.announced == std::pair<std::int64_t, std::int64_t>{8, 9});
  CHECK_FALSE(script.outcomes.contains(2));
  CHECK(script.path.idle());
}

TEST_CASE("when the database stays away only what is in doubt is kept, for a while", "[write_path]") {
  StoreConfig config;
  config.statement_timeout = milliseconds(50);
  Script script(config);
  script.put(1, "a");
  REQUIRE(script.ids(1) == "a");
  script.ready = false;
  script.put(2, "queued");
  script.fail(BatchFailure::Lost);
  script.away = true;
  script.path.on_driver_change();
  CHECK(script.outcome(2) == PutStatus::Unavailable);
  script.put(3, "late");
  CHECK(script.outcome(3) == PutStatus::Unavailable);
  CHECK_FALSE(script.outcomes.contains(1));
  CHECK(script.outcome(1) == PutStatus::OutcomeUnknown);
  CHECK(script.path.idle());
}

TEST_CASE("a batch that was rolled back is not in doubt", "[write_path]") {
  StoreConfig config;
  config.statement_timeout = milliseconds(50);
  Script script(config);
  script.put(1, "a");
  REQUIRE(script.ids(1) == "a");
  SECTION("and is sent again") {
    script.fail(BatchFailure::Retry);
    REQUIRE(script.ids(2) == "a");
    script.reply({Script::created(1)});
    CHECK(script.outcome(1) == PutStatus::Created);
  }
  SECTION("and is unavailable once the database is away") {
    script.ready = false;
    script.away = true;
    script.fail(BatchFailure::Unsent);
    CHECK(script.outcome(1) == PutStatus::Unavailable);
  }
  SECTION("and is unavailable when sending again would not help") {
    script.fail(BatchFailure::Down);
    CHECK(script.outcome(1) == PutStatus::Unavailable);
  }
  CHECK(script.path.idle());
}

TEST_CASE("behind two batches in flight only full ones follow", "[write_path]") {
  StoreConfig config;
  config.write_batch_rows = 3;
  Script script(config);
  script.put(1, "a");
  REQUIRE(script.ids(1) == "a");
  script.put(2, "b");
  REQUIRE(script.ids(2) == "b");
  script.put(3, "c");
  const TimePoint long_due = monotonic_now() + 3 * config.write_batch_delay;
  script.turn_until([&] { return monotonic_now() > long_due; });
  CHECK(script.sent.size() == 2);
  SECTION("a full one at once") {
    script.put(4, "d");
    script.put(5, "e");
    CHECK(script.ids(3) == "cde");
  }
  SECTION("a small one when there is one less") {
    const std::vector<RowReply> replies{Script::created(1)};
    script.path.on_batch_replies(script.sent[0].first, replies);
    CHECK(script.ids(3) == "c");
  }
}

TEST_CASE("a poisonous row is found by halves and fails alone", "[write_path]") {
  StoreConfig config;
  config.write_pipeline_depth = 1;
  Script script(config);
  const std::string all = "abcdefgh";
  for (std::size_t i = 0; i < all.size(); ++i) script.put(i + 1, std::string(1, all[i]));
  std::size_t batches = 1;
  std::string order;
  while (!script.path.idle()) {
    const std::string ids = script.ids(batches++);
    if (ids.find('f') != std::string::npos) {
      script.fail(BatchFailure::Poison);
    } else {
      std::vector<RowReply> replies;
      for (std::size_t i = 0; i < ids.size(); ++i) replies.push_back(Script::created(1));
      order += ids;
      script.reply(replies);
    }
    REQUIRE(batches < 20);
  }
  CHECK(order == "abcdegh");  // still in order of arrival
  for (std::size_t i = 0; i < all.size(); ++i) {
    CHECK(script.outcome(i + 1) == (all[i] == 'f' ? PutStatus::Refused : PutStatus::Created));
  }
}

TEST_CASE("a row that vanished between insert and look-up is inserted again", "[write_path]") {
  Script script;
  script.put(1, "a");
  script.put(2, "b");
  REQUIRE(script.ids(1) == "ab");
  script.reply({Script::created(3), RowReply{}});
  CHECK(script.outcome(1) == PutStatus::Created);
  REQUIRE(script.ids(2) == "b");
  script.reply({Script::created(4)});
  CHECK(script.outcome(2) == PutStatus::Created);
}

}  // namespace dlb::backend
