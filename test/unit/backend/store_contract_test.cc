// What every message store promises, held against both databases: SQLite in a folder, and a real PostgreSQL
// server.
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "backend/etag.h"
#include "test/support/catch.h"
#include "test/unit/backend/store_databases.h"
#include "test/unit/backend/store_harness.h"

namespace dlb::backend::test {
namespace {

struct Three {
  explicit Three(Database& database)
      : a(loop, log, database.config()), b(loop, log, database.config()), c(loop, log, database.config()) {}
  EventLoop loop;
  Log log;
  StoreUser a, b, c;
};

std::vector<std::int64_t> sequences_in(const std::string& feed) {
  std::vector<std::int64_t> out;
  const std::string key = "\"sequence\":";
  for (std::size_t at = feed.find(key); at != std::string::npos; at = feed.find(key, at + 1)) {
    out.push_back(std::stoll(feed.substr(at + key.size())));
  }
  return out;
}

bool rising(const std::vector<std::int64_t>& values) {
  for (std::size_t i = 1; i < values.size(); ++i) {
    if (values[i - 1] >= values[i]) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("a store creates once, repeats as duplicate, and refuses other content", "[store]") {
  on_each_database([](Database& database) {
    Three stores(database);
    const PutOutcome created = stores.a.put_now("k1", "ann", "text");
    REQUIRE(created.status == PutStatus::Created);
    REQUIRE(created.sequence > 0);
    for (StoreUser* user : {&stores.a, &stores.b, &stores.c}) {
      const PutOutcome again = user->put_now("k1", "ann", "text");
      CHECK(again.status == PutStatus::Duplicate);
      CHECK(again.sequence == created.sequence);
      CHECK(again.timestamp_us == created.timestamp_us);
      CHECK(user->put_now("k1", "ann", "other").status == PutStatus::Conflict);
      CHECK(user->put_now("k1", "bob", "text").status == PutStatus::Conflict);
    }
    const FeedAnswer feed = stores.c.feed_now();
    REQUIRE(feed.available);
    CHECK(text_of(feed.body).find("\"msg\":\"text\"") != std::string::npos);
    CHECK(text_of(feed.body).find("\"count\":1}") != std::string::npos);
    CHECK(feed.body.size == text_of(feed.body).size());
  });
}

TEST_CASE("fifty puts of one id over three stores make one row", "[store]") {
  on_each_database([](Database& database) {
    Three stores(database);
    StoreUser* users[] = {&stores.a, &stores.b, &stores.c};
    std::vector<std::pair<StoreUser*, std::uint64_t>> puts;
    for (int i = 0; i < 50; ++i) {
      StoreUser* user = users[i % 3];
      puts.emplace_back(user, user->put("same", "ann", "text"));
    }
    int created = 0;
    int duplicates = 0;
    std::set<std::int64_t> sequences;
    for (const auto& [user, token] : puts) {
      REQUIRE(user->wait(token));
      created += user->put_answer(token).status == PutStatus::Created;
      duplicates += user->put_answer(token).status == PutStatus::Duplicate;
      sequences.insert(user->put_answer(token).sequence);
    }
    CHECK(created == 1);
    CHECK(duplicates == 49);
    CHECK(sequences.size() == 1);
    CHECK(database.sql("SELECT count(*) FROM chat_messages") == std::vector<std::string>{"1"});
  });
}

TEST_CASE("other content under an id in flight is judged by what gets stored", "[store]") {
  on_each_database([](Database& database) {
    Three stores(database);
    REQUIRE(stores.a.put_now("stored", "ann", "b").status == PutStatus::Created);
    // In flight together: the first of each pair is what is sent.
    const std::uint64_t first = stores.b.put("new", "ann", "a");
    const std::uint64_t rival = stores.b.put("new", "ann", "b");
    const std::uint64_t wrong = stores.b.put("stored", "ann", "a");
    const std::uint64_t right = stores.b.put("stored", "ann", "b");
    for (const std::uint64_t token : {first, rival, wrong, right}) REQUIRE(stores.b.wait(token));
    CHECK(stores.b.put_answer(first).status == PutStatus::Created);
    CHECK(stores.b.put_answer(rival).status == PutStatus::Conflict);
    CHECK(stores.b.put_answer(wrong).status == PutStatus::Conflict);
    CHECK(stores.b.put_answer(right).status == PutStatus::Duplicate);
  });
}

TEST_CASE("sequences follow the order of arrival", "[store]") {
  on_each_database([](Database& database) {
    StoreConfig config = database.config();
    config.write_queue_rows = 1000;
    EventLoop loop;
    Log log;
    StoreUser user(loop, log, config);
    std::vector<std::uint64_t> tokens;
    for (int i = 0; i < 600; ++i) {
      tokens.push_back(user.put("m" + std::to_string(i * 7919 % 600), "ann", std::to_string(i)));
    }
    std::vector<std::int64_t> sequences;
    for (const std::uint64_t token : tokens) {
      REQUIRE(user.wait(token));
      REQUIRE(user.put_answer(token).status == PutStatus::Created);
      sequences.push_back(user.put_answer(token).sequence);
    }
    CHECK(rising(sequences));
    CHECK(user.store().stats().batches < 100);
    CHECK(user.store().idle());
  });
}

TEST_CASE("a feed holds what any store acknowledged before, and never gains an earlier element", "[store]") {
  on_each_database([](Database& database) {
    Three stores(database);
    StoreUser* users[] = {&stores.a, &stores.b, &stores.c};
    std::string before;
    for (int round = 0; round < 60; ++round) {
      StoreUser& writer = *users[round % 3];
      StoreUser& reader = *users[(round + 1) % 3];
      // Others write at the same time.
      const std::uint64_t other = users[(round + 2) % 3]->put("o" + std::to_string(round), "bob", "x");
      const PutOutcome outcome = writer.put_now("r" + std::to_string(round), "ann", "y");
      REQUIRE(outcome.status == PutStatus::Created);
      const std::string feed = text_of(reader.feed_now().body);
      REQUIRE(feed.find("\"sequence\":" + std::to_string(outcome.sequence) + ",") != std::string::npos);
      REQUIRE(rising(sequences_in(feed)));
      const std::string elements = feed.substr(0, feed.rfind("],\"count\":"));
      REQUIRE(elements.compare(0, before.size(), before) == 0);
      before = elements;
      REQUIRE(users[(round + 2) % 3]->wait(other));
    }
    const std::string all = text_of(stores.a.feed_now().body);
    CHECK(sequences_in(all).size() == 120);
    CHECK(text_of(stores.b.feed_now().body) == all);
    CHECK(text_of(stores.c.feed_now().body) == all);
    CHECK(stores.a.feed_now().etag == stores.b.feed_now().etag);
  });
}

TEST_CASE("pages hold the rows above a sequence and say how to go on", "[store]") {
  on_each_database([](Database& database) {
    StoreConfig config = database.config();
    bool small_cache = false;
    SECTION("all in the cache") {}
    SECTION("older rows dropped from the cache") {
      small_cache = true;
      config.feed_chunk_bytes = 1024;
      config.feed_cache_bytes = 4096;
    }
    EventLoop loop;
    Log log;
    StoreUser user(loop, log, config);
    for (int i = 0; i < 100; ++i) user.put("m" + std::to_string(i), "ann", "text " + std::to_string(i));
    REQUIRE(user.run_until([&] { return user.answers() == 100; }));
    const std::string whole = text_of(user.feed_now().body);
    const std::vector<std::int64_t> all = sequences_in(whole);
    REQUIRE(all.size() == 100);
    REQUIRE(rising(all));
    CHECK(whole.find("\"count\":100}") != std::string::npos);
    if (small_cache) CHECK(user.store().stats().feed_bytes < 8192);

    // What needs no rows reads none that were dropped: that would take several reads.
    const std::string tag = user.feed_now().etag;
    const std::uint64_t decrypts = user.store().stats().decrypts;
    const FeedAnswer head = user.feed_now({.head = true});
    CHECK(head.body.size == whole.size());
    CHECK(head.etag == tag);
    const FeedAnswer unchanged = user.feed_now({.unless = tag});
    CHECK(unchanged.etag == tag);
    const FeedAnswer compressed = user.feed_now({.gzip = true, .unless = gzip_etag(tag)});
    CHECK(user.store().stats().decrypts <= decrypts + 2);  // the end of the feed, read again
    if (small_cache) {
      CHECK(head.body.parts == nullptr);
      CHECK(unchanged.body.size == 0);
      CHECK(compressed.body.size == 0);
      CHECK(text_of(user.feed_now({.unless = gzip_etag(tag)}).body) ==
            whole);  // it takes none that is compressed
      CHECK(text_of(user.feed_now({.unless = "\"another\""}).body) == whole);
    }

    std::vector<std::int64_t> paged;
    std::int64_t after = 0;
    for (int page = 0; page < 20; ++page) {
      const std::string text = text_of(user.feed_now({true, after, 7}).body);
      const std::vector<std::int64_t> rows = sequences_in(text.substr(0, text.rfind("],\"count\":")));
      REQUIRE(text.find("\"count\":" + std::to_string(rows.size()) + ",") != std::string::npos);
      paged.insert(paged.end(), rows.begin(), rows.end());
      const bool more = text.find("\"has_more\":true") != std::string::npos;
      CHECK(more == (paged.size() < all.size()));
      if (!rows.empty()) after = rows.back();
      CHECK(text.find("\"next_after\":" + std::to_string(after) + "}") != std::string::npos);
      if (!more) break;
    }
    CHECK(paged == all);
    const std::string beyond = text_of(user.feed_now({true, after + 1000, 10}).body);
    CHECK(beyond.find("{\"messages\":[],\"count\":0,\"has_more\":false") == 0);
  });
}

TEST_CASE("a truncated table is noticed even when new rows have overtaken the old count", "[store]") {
  on_each_database([](Database& database) {
    Three stores(database);
    for (int i = 0; i < 5; ++i) REQUIRE(stores.a.put_now("old" + std::to_string(i), "ann", "x").sequence > 0);
    const std::string old_tag = stores.b.feed_now().etag;
    REQUIRE(text_of(stores.c.feed_now().body).find("old4") != std::string::npos);
    database.truncate();
    CHECK(text_of(stores.c.feed_now().body) == "{\"messages\":[],\"count\":0}");
    for (int i = 0; i < 9; ++i)
      REQUIRE(stores.a.put_now("new" + std::to_string(i), "ann", "x").sequence == i + 1);
    for (StoreUser* user : {&stores.a, &stores.b, &stores.c}) {
      const FeedAnswer feed = user->feed_now();
      CHECK(text_of(feed.body).find("old") == std::string::npos);
      CHECK(text_of(feed.body).find("\"count\":9}") != std::string::npos);
      CHECK(feed.etag.substr(0, 37) != old_tag.substr(0, 37));
    }
    // All agree on one new generation.
    CHECK(stores.a.feed_now().etag == stores.b.feed_now().etag);
    CHECK(stores.b.feed_now().etag == stores.c.feed_now().etag);
  });
}

TEST_CASE("rows exchanged behind the feed's back, numbered on, are noticed by their nonce", "[store]") {
  on_each_database([](Database& database) {
    Three stores(database);
    for (int i = 0; i < 5; ++i) REQUIRE(stores.a.put_now("old" + std::to_string(i), "ann", "x").sequence > 0);
    const FeedAnswer before = stores.b.feed_now();
    database.replace_rows(9);
    const FeedAnswer after = stores.b.feed_now();
    CHECK(text_of(after.body).find("old") == std::string::npos);
    CHECK(text_of(after.body).find("\"f0\"") != std::string::npos);
    CHECK(text_of(after.body).find("\"count\":9}") != std::string::npos);
    CHECK(after.etag.substr(0, 37) != before.etag.substr(0, 37));
  });
}

TEST_CASE("text is never in the database in plain, and rows that were exchanged do not decrypt", "[store]") {
  on_each_database([](Database& database) {
    Three stores(database);
    const std::string secret = "the quick brown fox " + std::string(300, 'q');
    REQUIRE(stores.a.put_now("s1", "ann", secret).status == PutStatus::Created);
    REQUIRE(stores.a.put_now("s2", "ann", "second").status == PutStatus::Created);
    REQUIRE(stores.a.put_now("s3", "ann", "third").status == PutStatus::Created);
    const std::string dump = database.dump();
    REQUIRE(!dump.empty());
    CHECK(dump.find("quick brown") == std::string::npos);
    CHECK(dump.find("qqqqqqqq") == std::string::npos);

    // Row 1 gets row 2's ciphertext, whole: the message id is part of what is authenticated.
    database.sql(
        "UPDATE chat_messages SET ciphertext = (SELECT ciphertext FROM chat_messages WHERE message_id = "
        "'s2'), "
        "nonce = (SELECT nonce FROM chat_messages WHERE message_id = 's2') WHERE message_id = 's1'");
    database.sql("UPDATE chat_messages SET client_name = 'bob' WHERE message_id = 's3'");
    EventLoop loop;
    Log log;
    StoreUser fresh(loop, log, database.config());
    const std::string feed = text_of(fresh.feed_now().body);
    CHECK(feed.find("\"message-id\":\"s1\",\"client-name\":\"ann\",\"msg\":null") != std::string::npos);
    CHECK(feed.find("\"message-id\":\"s2\",\"client-name\":\"ann\",\"msg\":\"second\"") != std::string::npos);
    CHECK(feed.find("\"message-id\":\"s3\",\"client-name\":\"bob\",\"msg\":null") != std::string::npos);
    CHECK(feed.find("\"error\":\"undecryptable\"") != std::string::npos);
    CHECK(feed.find("\"count\":3}") != std::string::npos);
    CHECK(fresh.store().stats().undecryptable == 2);
    CHECK(fresh.put_now("s1", "ann", secret).status == PutStatus::Conflict);
  });
}

TEST_CASE("an old key still decrypts behind a new one; another key alone quarantines", "[store]") {
  on_each_database([](Database& database) {
    StoreConfig config = database.config();
    EventLoop loop;
    Log log;
    {
      StoreUser user(loop, log, config);
      REQUIRE(user.put_now("k", "ann", "under the first key").status == PutStatus::Created);
    }
    std::string old_key;
    {
      std::ifstream in(config.key_file);
      std::getline(in, old_key);
    }
    const std::string new_key = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    std::ofstream(config.key_file) << new_key << "\n" << old_key << "\n";
    {
      StoreUser user(loop, log, config);
      CHECK(text_of(user.feed_now().body).find("under the first key") != std::string::npos);
      CHECK(user.put_now("k", "ann", "under the first key").status == PutStatus::Duplicate);
      CHECK(user.put_now("k2", "ann", "under the second key").status == PutStatus::Created);
    }
    std::ofstream(config.key_file) << new_key << "\n";
    StoreUser user(loop, log, config);
    const FeedAnswer feed = user.feed_now();
    CHECK(text_of(feed.body).find("\"msg\":null") != std::string::npos);
    CHECK(text_of(feed.body).find("under the second key") != std::string::npos);
    CHECK(text_of(feed.body).find("\"count\":2}") != std::string::npos);
    CHECK(user.put_now("k", "ann", "under the first key").status == PutStatus::Conflict);
  });
}

TEST_CASE("a full queue refuses at once and a cancelled put has no answer", "[store]") {
  on_each_database([](Database& database) {
    StoreConfig config = database.config();
    config.write_queue_rows = 8;
    EventLoop loop;
    Log log;
    StoreUser user(loop, log, config);  // not connected yet: everything queues
    std::vector<std::uint64_t> tokens;
    for (int i = 0; i < 10; ++i) tokens.push_back(user.put("m" + std::to_string(i), "ann", "x"));
    user.cancel(tokens[3]);
    REQUIRE(user.run_until([&] { return user.answers() == 9; }));
    for (int i = 0; i < 8; ++i) {
      if (i != 3) CHECK(user.put_answer(tokens[static_cast<std::size_t>(i)]).status == PutStatus::Created);
    }
    CHECK(user.put_answer(tokens[8]).status == PutStatus::Unavailable);
    CHECK(user.put_answer(tokens[9]).status == PutStatus::Unavailable);
    CHECK(database.sql("SELECT count(*) FROM chat_messages WHERE message_id = 'm3'") ==
          std::vector<std::string>{"0"});
    CHECK(user.twice_answered() == 0);
    CHECK(user.store().idle());
  });
}

TEST_CASE("bytes of a message come back exactly", "[store]") {
  on_each_database([](Database& database) {
    EventLoop loop;
    Log log;
    StoreUser user(loop, log, database.config());
    std::string odd = "\"\\/\b\f\n\r\t\x01\x1f \x7f é \xf0\x9f\x98\x80 \xe2\x80\xa8 {}[]',NULL\\x00 $1 ";
    const std::string id = "id \"{,}\\ \xf0\x9f\x98\x80";
    REQUIRE(user.put_now(id, "nAme {\"x\"}", odd).status == PutStatus::Created);
    REQUIRE(user.put_now(id, "nAme {\"x\"}", odd).status == PutStatus::Duplicate);
    REQUIRE(user.put_now(id, "nAme {\"x\"}", odd + " ").status == PutStatus::Conflict);
    const std::string large(65536, '\x01');
    REQUIRE(user.put_now("large", "ann", large).status == PutStatus::Created);
    REQUIRE(user.put_now("large", "ann", large).status == PutStatus::Duplicate);
    const std::string feed = text_of(user.feed_now().body);
    CHECK(feed.find("\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f") != std::string::npos);
    CHECK(feed.find("\xf0\x9f\x98\x80") != std::string::npos);
    CHECK(feed.size() > 6 * large.size());
  });
}

TEST_CASE("other stores hear of new rows without being asked", "[store]") {
  on_each_database([](Database& database) {
    Three stores(database);
    REQUIRE(stores.a.put_now("n1", "ann", "x").status == PutStatus::Created);
    for (StoreUser* user : {&stores.a, &stores.b, &stores.c}) {
      CHECK(user->run_until([&] { return user->store().stats().feed_rows == 1; }));
    }
  });
}

TEST_CASE("SQLite: another process's open transaction delays writes, never feeds, and keeps its place",
          "[store]") {
  SqliteDatabase database;
  Three stores(database);
  REQUIRE(stores.a.put_now("before", "ann", "x").status == PutStatus::Created);
  // Both are open before the lock is taken: opening writes too.
  REQUIRE(stores.b.put_now("before", "ann", "x").status == PutStatus::Duplicate);
  sqlite3* foreign = nullptr;
  REQUIRE(sqlite3_open((database.config().data_dir + "/chat.db").c_str(), &foreign) == SQLITE_OK);
  sqlite3_busy_timeout(foreign, 5000);  // the third may still be opening
  REQUIRE(sqlite3_exec(foreign,
                       "BEGIN IMMEDIATE; INSERT INTO chat_messages (message_id, client_name, key_id, nonce, "
                       "ciphertext, created_us) VALUES ('foreign', 'x', '', '', '', 0)",
                       nullptr, nullptr, nullptr) == SQLITE_OK);
  const std::uint64_t after = stores.a.put("after", "ann", "x");
  for (int i = 0; i < 50; ++i) {
    REQUIRE(text_of(stores.b.feed_now().body).find("\"count\":1}") != std::string::npos);
    REQUIRE(text_of(stores.a.feed_now().body).find("\"count\":1}") != std::string::npos);
  }
  CHECK_FALSE(stores.a.answered(after));
  REQUIRE(sqlite3_exec(foreign, "COMMIT", nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(foreign);
  REQUIRE(stores.a.wait(after));
  CHECK(stores.a.put_answer(after).status == PutStatus::Created);
  const std::string feed = text_of(stores.c.feed_now().body);
  CHECK(feed.find("\"foreign\"") < feed.find("\"after\""));
  CHECK(feed.find("\"count\":3}") != std::string::npos);
}

TEST_CASE("a key that has reached its limit encrypts no more, across restarts", "[store]") {
  on_each_database([](Database& database) {
    EventLoop loop;
    Log log;
    {
      StoreUser user(loop, log, database.config());
      REQUIRE(user.put_now("a", "ann", "x").status == PutStatus::Created);
    }
    database.sql("UPDATE chat_key_usage SET reserved = 4294967296");
    StoreUser user(loop, log, database.config());
    CHECK(user.put_now("b", "ann", "x").status == PutStatus::Refused);
    CHECK(text_of(user.feed_now().body).find("\"count\":1}") != std::string::npos);
  });
}

}  // namespace dlb::backend::test
