// What the chat is promised by both stores: names with their keys, pages of history, replays, who is online,
// and each new row once and in order.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "test/support/catch.h"
#include "test/unit/backend/store_databases.h"
#include "test/unit/backend/store_harness.h"

namespace dlb::backend::test {
namespace {

using Names = std::vector<std::string>;
using Sequences = std::vector<std::int64_t>;

Sequences sequences_of(const RowsAnswer& answer) {
  Sequences out;
  for (const RowsAnswer::Mark& mark : answer.marks) out.push_back(mark.sequence);
  return out;
}

// Puts `count` messages through the users in turn; their sequences.
Sequences put_many(std::vector<StoreUser*> users, int count, const std::string& prefix,
                   std::size_t bytes = 10) {
  std::vector<std::pair<StoreUser*, std::uint64_t>> tokens;
  Sequences out;
  for (int i = 0; i < count; ++i) {
    StoreUser* user = users[static_cast<std::size_t>(i) % users.size()];
    tokens.emplace_back(user, user->put(prefix + std::to_string(i), "ann", std::string(bytes, 'x')));
    if (tokens.size() == 64 || i + 1 == count) {
      for (const auto& [one, token] : tokens) {
        DLB_CHECK(one->wait(token));
        DLB_CHECK(one->put_answer(token).status == PutStatus::Created);
        out.push_back(one->put_answer(token).sequence);
      }
      tokens.clear();
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

// A store with a cache that holds little: what is older is read by key.
StoreConfig small_cache(Database& database) {
  StoreConfig config = database.config();
  config.feed_chunk_bytes = 4096;
  config.feed_cache_bytes = 16 * 1024;
  return config;
}

}  // namespace

TEST_CASE("a name belongs to the first key that claimed it, on all stores", "[store][chat]") {
  on_each_database([](Database& database) {
    EventLoop loop;
    Log log;
    StoreUser a(loop, log, database.config());
    StoreUser b(loop, log, database.config());
    const std::string first("key\0one", 7);
    CHECK(a.key_now("Alice").kind == OwnerAnswer::Kind::Nobody);
    CHECK(a.claim_now("Alice", first).public_key == first);
    CHECK(a.claim_now("Alice", first).public_key == first);
    CHECK(b.claim_now("Alice", "key two").public_key == first);
    CHECK(b.key_now("Alice").public_key == first);
    CHECK(b.key_now("alice").kind == OwnerAnswer::Kind::Nobody);  // another name
    CHECK(b.claim_now("alice", "key two").public_key == "key two");

    // Many at once for one name: one key wins everywhere.
    std::vector<std::pair<StoreUser*, std::uint64_t>> tokens;
    for (int i = 0; i < 40; ++i) {
      StoreUser* user = i % 2 == 0 ? &a : &b;
      tokens.emplace_back(user, user->claim("Bob", "key " + std::to_string(i)));
    }
    std::set<std::string> owners;
    for (const auto& claim : tokens) {
      StoreUser* const user = claim.first;
      const std::uint64_t token = claim.second;
      REQUIRE(user->run_until([&] { return user->claimed(token); }));
      REQUIRE(user->owner(token).kind == OwnerAnswer::Kind::Known);
      owners.insert(user->owner(token).public_key);
    }
    CHECK(owners.size() == 1);
    StoreUser c(loop, log, database.config());  // as after a restart
    CHECK(c.claim_now("Bob", "late").public_key == *owners.begin());
  });
}

TEST_CASE("history is paged downwards, from the cache and below it", "[store][chat]") {
  on_each_database([](Database& database) {
    for (const bool small : {false, true}) {
      EventLoop loop;
      Log log;
      StoreUser user(loop, log, small ? small_cache(database) : database.config());
      const Sequences all = small ? Sequences() : put_many({&user}, 300, "m", 200);
      const RowsAnswer newest = user.history_now(0, 25);
      REQUIRE(newest.available);
      CHECK(newest.marks.size() == 25);
      CHECK(newest.has_more);
      CHECK(newest.row(24).find("\"sequence\":" + std::to_string(newest.marks[24].sequence)) !=
            std::string::npos);
      CHECK(newest.row(0).front() == '{');
      CHECK(newest.row(0).back() == '}');

      Sequences seen;
      std::int64_t before = 0;
      while (true) {
        const RowsAnswer page = user.history_now(before, 70);
        REQUIRE(page.available);
        REQUIRE_FALSE(page.marks.empty());
        const Sequences sequences = sequences_of(page);
        CHECK(std::is_sorted(sequences.begin(), sequences.end()));
        seen.insert(seen.begin(), sequences.begin(), sequences.end());
        before = sequences.front();
        if (!page.has_more) break;
      }
      CHECK(seen.size() == 300);
      CHECK(std::is_sorted(seen.begin(), seen.end()));
      CHECK(std::adjacent_find(seen.begin(), seen.end()) == seen.end());
      if (!small) CHECK(seen == all);
      CHECK(user.history_now(seen.front(), 10).marks.empty());
      CHECK_FALSE(user.history_now(seen.front(), 10).has_more);
      CHECK(user.history_now(seen.back() + 1000, 10).marks.size() == 10);
      CHECK((user.store().stats().pages_read > 0) == small);
    }
  });
}

TEST_CASE("a history page is bounded in bytes", "[store][chat]") {
  on_each_database([](Database& database) {
    for (const bool small : {false, true}) {
      EventLoop loop;
      Log log;
      StoreUser user(loop, log, small ? small_cache(database) : database.config());
      if (!small) {
        // Each becomes six times as long as JSON.
        for (int i = 0; i < 4; ++i) {
          REQUIRE(user.put_now("big" + std::to_string(i), "ann", std::string(65536, '\x01')).status ==
                  PutStatus::Created);
        }
      }
      Sequences seen;
      std::int64_t before = 0;
      for (bool more = true; more;) {
        const RowsAnswer page = user.history_now(before, 100);
        REQUIRE(page.marks.size() == 1);
        CHECK(page.json.size() < ChatStore::kPageBytes);
        before = page.marks.front().sequence;
        seen.push_back(before);
        more = page.has_more;
      }
      CHECK(seen.size() == 4);
    }
  });
}

TEST_CASE("a replay goes upwards to the end, from below the cache too", "[store][chat]") {
  on_each_database([](Database& database) {
    Sequences all;
    for (const bool small : {false, true}) {
      EventLoop loop;
      Log log;
      StoreUser user(loop, log, small ? small_cache(database) : database.config());
      if (!small) all = put_many({&user}, 700, "m", 300);
      for (const std::size_t from : {std::size_t{0}, std::size_t{3}, std::size_t{650}, all.size() - 1}) {
        Sequences seen;
        std::int64_t after = from == 0 ? 0 : all[from - 1];
        bool first = true;
        for (bool more = true; more; first = false) {
          const RowsAnswer page = user.rows_after_now(after, first);
          REQUIRE(page.available);
          CHECK_FALSE(page.future);
          for (const std::int64_t sequence : sequences_of(page)) seen.push_back(sequence);
          if (!seen.empty()) after = seen.back();
          more = page.has_more;
        }
        CHECK(seen == Sequences(all.begin() + static_cast<std::ptrdiff_t>(from), all.end()));
      }
      CHECK(user.rows_after_now(all.back(), true).marks.empty());
      CHECK_FALSE(user.rows_after_now(all.back(), true).future);
      CHECK(user.rows_after_now(all.back() + 1, true).future);
    }
  });
}

TEST_CASE("a replay and a history know what another store has committed before", "[store][chat]") {
  on_each_database([](Database& database) {
    EventLoop loop;
    Log log;
    StoreUser a(loop, log, database.config());
    StoreUser b(loop, log, database.config());
    for (int i = 0; i < 10; ++i) {
      const PutOutcome put = a.put_now("m" + std::to_string(i), "ann", "x");
      REQUIRE(put.status == PutStatus::Created);
      CHECK_FALSE(b.rows_after_now(put.sequence, true).future);
      CHECK(sequences_of(b.history_now(0, 1)) == Sequences{put.sequence});
    }
  });
}

TEST_CASE("each new row is told once and in order on all stores", "[store][chat]") {
  on_each_database([](Database& database) {
    EventLoop loop;
    Log log;
    StoreUser a(loop, log, database.config());
    a.feed_now();
    CHECK(a.store().chat().live());
    put_many({&a}, 20, "before");
    REQUIRE(a.run_until([&] { return a.live().size() == 20; }));
    StoreUser b(loop, log, database.config());
    StoreUser c(loop, log, database.config());
    b.live_calls_a_row = 3;  // as with more sessions than one turn has time for
    for (StoreUser* user : {&b, &c})
      REQUIRE(user->feed_now().last_sequence > 0);  // they have seen what there is
    const std::size_t before = a.live().size();
    const Sequences all = put_many({&a, &b, &c}, 400, "m", 500);
    for (StoreUser* user : {&a, &b, &c}) {
      const std::size_t earlier = user == &a ? before : 0;
      REQUIRE(user->run_until([&] { return user->live().size() >= earlier + all.size(); }));
      const Sequences told = user->live_sequences();
      CHECK(Sequences(told.begin() + static_cast<std::ptrdiff_t>(earlier), told.end()) == all);
    }
    CHECK(a.live().back().json == b.live().back().json);
    CHECK(b.live().back().json.find("\"msg\":\"xxx") != std::string::npos);
    CHECK(a.put_now("m0", "ann", std::string(500, 'x')).status == PutStatus::Duplicate);
    CHECK(a.put_now("m0", "ann", "other").status == PutStatus::Conflict);
    const PutOutcome last = a.put_now("last", "ann", "x");
    for (StoreUser* user : {&a, &b, &c}) {
      REQUIRE(user->run_until([&] { return user->last_live() == last.sequence; }));
    }
    CHECK(b.live().size() == all.size() + 1);
  });
}

TEST_CASE("a truncated table is told as a reset, and few rows of the new one behind it", "[store][chat]") {
  on_each_database([](Database& database) {
    EventLoop loop;
    Log log;
    StoreUser a(loop, log, database.config());
    StoreUser b(loop, log, database.config());
    a.feed_now();  // from now on rows are new ones
    b.feed_now();
    put_many({&a}, 5, "m");
    REQUIRE(b.run_until([&] { return b.live().size() == 5; }));

    database.truncate();
    for (StoreUser* user : {&a, &b}) {
      REQUIRE(user->run_until([&] { return user->last_live() == 0; }));
    }
    CHECK(a.history_now(0, 10).marks.empty());
    CHECK(a.rows_after_now(5, true).future);
    const PutOutcome put = a.put_now("new", "ann", "x");
    CHECK(put.sequence == 1);
    REQUIRE(b.run_until([&] { return b.last_live() == 1; }));

    database.replace_rows(3);
    REQUIRE(b.run_until([&] { return b.last_live() == 3; }));
    const Sequences told = b.live_sequences();
    CHECK(std::count(told.begin(), told.end(), 0) == 2);
    CHECK(Sequences(told.end() - 4, told.end()) == Sequences{0, 1, 2, 3});
    REQUIRE(a.put_now("between", "ann", "x").sequence == 4);
    REQUIRE(b.run_until([&] { return b.last_live() == 4; }));

    database.replace_rows(500);
    REQUIRE(b.run_until([&] { return b.last_live() == 0; }));
    const PutOutcome next = a.put_now("next", "ann", "x");
    REQUIRE(b.run_until([&] { return b.last_live() == next.sequence; }));
    CHECK(next.sequence == 501);
    CHECK(b.live()[b.live().size() - 2].sequence == 0);
  });
}

TEST_CASE("who is online is known on all stores until a store is gone", "[store][chat]") {
  on_each_database([](Database& database) {
    EventLoop loop;
    Log log;
    StoreUser a(loop, log, database.config());
    CHECK(a.users_now() == Names{});
    a.be_present({"Alice", "Zoe"});
    {
      StoreUser b(loop, log, database.config());
      b.be_present({"Bob", "Alice"});
      CHECK(b.users_now() == Names{"Alice", "Bob", "Zoe"});
      CHECK(a.users_now() == Names{"Alice", "Bob", "Zoe"});
      a.be_present({"Zoe"});
      CHECK(b.users_now() == Names{"Alice", "Bob", "Zoe"});
      b.be_present({"Bob"});
      CHECK(a.users_now() == Names{"Bob", "Zoe"});
    }
    // b has gone without a word: its lease runs out.
    const std::string past = database.config().database_url.empty()
                                 ? "UPDATE chat_presence SET expires_us = 1 WHERE names = 'Bob'"
                                 : "UPDATE chat_presence SET expires_at = 'epoch' WHERE names = 'Bob'";
    CHECK(a.users_now() == Names{"Bob", "Zoe"});
    database.sql(past);
    CHECK(a.users_now() == Names{"Zoe"});
    a.be_present({});
    CHECK(a.users_now() == Names{});
    CHECK(database.sql("SELECT count(*) FROM chat_presence") == Names{"1"});  // what is long gone is removed
  });
}

TEST_CASE("PostgreSQL: sessions that are ended take nothing from the chat but time",
          "[store][chat][postgres]") {
  PostgresDatabase database;
  EventLoop loop;
  Log log;
  StoreUser a(loop, log, database.config());
  StoreUser b(loop, log, database.config());
  b.feed_now();
  Sequences all;
  for (int round = 0; round < 4; ++round) {
    for (const std::int64_t one : put_many({&a, &b}, 30, "r" + std::to_string(round) + "-"))
      all.push_back(one);
    database.terminate_all();
    // Where a connection takes longer than its time-out, the answer is "unavailable" until one stands.
    OwnerAnswer answer;
    REQUIRE(a.run_until([&] {
      answer = a.claim_now("name" + std::to_string(round), "key");
      return answer.kind != OwnerAnswer::Kind::Unavailable;
    }));
    CHECK(answer.public_key == "key");
  }
  REQUIRE(b.run_until([&] { return b.live().size() >= all.size(); }));
  CHECK(b.live_sequences() == all);
  CHECK(b.key_now("name2").public_key == "key");
}

}  // namespace dlb::backend::test
