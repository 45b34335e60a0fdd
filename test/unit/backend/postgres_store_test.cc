// What only a real PostgreSQL server can show: locks held by others, sessions and servers that go away, rows
// that the server refuses, roles without rights.
#include "backend/postgres_store.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "backend/pg_schema.h"
#include "common/rng.h"
#include "test/support/catch.h"
#include "test/unit/backend/store_databases.h"
#include "test/unit/backend/store_harness.h"

namespace dlb::backend::test {
namespace {

using std::chrono::milliseconds;

constexpr const char* kForeignInsert =
    "INSERT INTO chat_messages (message_id, client_name, key_id, nonce, ciphertext) VALUES ('foreign', 'x', "
    "'\\x00', "
    "'\\x00', '\\x00')";

// Whatever a test did to the server, the next one finds it up.
struct ServerUpAgain {
  ~ServerUpAgain() { cluster().start(); }
};

// Keeps a number of puts in flight until told to stop; keeps count of what was answered.
struct Load {
  Load(StoreUser& store_user, std::string name) : user(store_user), prefix(std::move(name)) {}
  void top_up(std::size_t window) {
    settle();
    while (waiting.size() < window) {
      const std::string id = prefix + std::to_string(next++);
      waiting.emplace_back(user.put(id, "ann", "text of " + id), id);
    }
  }
  void settle() {
    std::erase_if(waiting, [this](const auto& one) {
      if (!user.answered(one.first)) return false;
      const PutOutcome& outcome = user.put_answer(one.first);
      if (outcome.status == PutStatus::Created) acknowledged.insert(one.second);
      ++counts[static_cast<std::size_t>(outcome.status)];
      return true;
    });
  }
  std::uint64_t count(PutStatus status) const { return counts[static_cast<std::size_t>(status)]; }

  StoreUser& user;
  std::string prefix;
  int next = 0;
  std::vector<std::pair<std::uint64_t, std::string>> waiting;
  std::set<std::string> acknowledged;
  std::array<std::uint64_t, 6> counts{};
};

void check_all_stored(PostgresDatabase& database, const std::set<std::string>& acknowledged) {
  const std::vector<std::string> rows = database.sql("SELECT message_id FROM chat_messages");
  const std::set<std::string> stored(rows.begin(), rows.end());
  CHECK(stored.size() == rows.size());
  std::size_t lost = 0;
  for (const std::string& id : acknowledged) lost += !stored.contains(id);
  CHECK(lost == 0);
  CHECK(!acknowledged.empty());
}

}  // namespace

TEST_CASE("a foreign insert held open between two others never hides behind a later row",
          "[store][postgres]") {
  const ServerUpAgain up_again;
  PostgresDatabase database;
  EventLoop loop;
  Log log;
  StoreUser writer(loop, log, database.config());
  StoreUser reader(loop, log, database.config());
  REQUIRE(writer.put_now("before", "ann", "x").status == PutStatus::Created);

  PgSession foreign(database.url());
  foreign.query("BEGIN");
  foreign.query(kForeignInsert);
  const std::uint64_t after = writer.put("after", "ann", "x");
  const TimePoint end = monotonic_now() + milliseconds(400);
  std::string feed;
  while (monotonic_now() < end) {
    feed = text_of(reader.feed_now().body);
    REQUIRE(feed.find("\"after\"") == std::string::npos);
  }
  CHECK_FALSE(writer.answered(after));
  const std::string seen = feed.substr(0, feed.rfind("],\"count\":"));

  SECTION("it commits: both appear, in order") {
    foreign.query("COMMIT");
    REQUIRE(writer.wait(after));
    CHECK(writer.put_answer(after).status == PutStatus::Created);
    feed = text_of(reader.feed_now().body);
    CHECK(feed.compare(0, seen.size(), seen) == 0);
    REQUIRE(feed.find("\"foreign\"") != std::string::npos);
    CHECK(feed.find("\"foreign\"") < feed.find("\"after\""));
    CHECK(feed.find("\"count\":3}") != std::string::npos);
  }
  SECTION("it aborts: the later row appears") {
    foreign.query("ROLLBACK");
    REQUIRE(writer.wait(after));
    feed = text_of(reader.feed_now().body);
    CHECK(feed.find("\"foreign\"") == std::string::npos);
    CHECK(feed.find("\"after\"") != std::string::npos);
  }
}

TEST_CASE("negative control: without the trigger a later row does overtake an open one",
          "[store][postgres]") {
  const ServerUpAgain up_again;
  PostgresDatabase database;
  EventLoop loop;
  Log log;
  StoreUser writer(loop, log, database.config());
  REQUIRE(writer.put_now("before", "ann", "x").status == PutStatus::Created);
  database.sql("ALTER TABLE chat_messages DISABLE TRIGGER chat_messages_in_order");
  PgSession foreign(database.url());
  foreign.query("BEGIN");
  foreign.query(kForeignInsert);
  CHECK(writer.put_now("after", "ann", "x").status == PutStatus::Created);
  foreign.query("COMMIT");
  // Set-up enables it again when the writer connects anew.
  database.terminate_all();
  CHECK(writer.run_until([&] { return writer.put_now("again", "ann", "x").status == PutStatus::Duplicate; }));
  CHECK(database.sql("SELECT tgenabled FROM pg_trigger WHERE tgrelid = 'chat_messages'::regclass AND NOT "
                     "tgisinternal") == std::vector<std::string>{"A"});
}

TEST_CASE("a session that sits on the writers' lock in silence is ended", "[store][postgres]") {
  PostgresDatabase database;
  StoreConfig config = database.config();
  config.lock_timeout = milliseconds(400);
  EventLoop loop;
  Log log;
  StoreUser writer(loop, log, config);
  REQUIRE(writer.put_now("before", "ann", "x").status == PutStatus::Created);
  PgSession foreign(database.url());
  foreign.query("BEGIN");
  foreign.query(kForeignInsert);
  const PutOutcome outcome = writer.put_now("after", "ann", "x");
  CHECK(outcome.status == PutStatus::Created);
  bool ok = true;
  foreign.query("SELECT 1", &ok);
  CHECK_FALSE(ok);
  CHECK(writer.store().stats().batch_retries > 0);
}

TEST_CASE("a lock that does not come free in time means unavailable, and nothing stored",
          "[store][postgres]") {
  const ServerUpAgain up_again;
  PostgresDatabase database;
  StoreConfig config = database.config();
  config.lock_timeout = milliseconds(100);
  config.statement_timeout = milliseconds(300);
  EventLoop loop;
  Log log;
  StoreUser writer(loop, log, config);
  REQUIRE(writer.put_now("before", "ann", "x").status == PutStatus::Created);
  PgSession foreign(database.url());
  foreign.query("BEGIN");
  foreign.query(kForeignInsert);
  CHECK(writer.put_now("late", "ann", "x").status == PutStatus::Unavailable);
  foreign.query("COMMIT");
  CHECK(writer.put_now("next", "ann", "x").status == PutStatus::Created);
  CHECK(database.sql("SELECT count(*) FROM chat_messages WHERE message_id = 'late'") ==
        std::vector<std::string>{"0"});
}

TEST_CASE("rows that the server refuses fail alone", "[store][postgres]") {
  PostgresDatabase database;
  EventLoop loop;
  Log log;
  StoreUser writer(loop, log, database.config());
  REQUIRE(writer.put_now("before", "ann", "x").status == PutStatus::Created);
  Rng rng(7);
  std::string too_long;  // an index row over its limit, once it can't be compressed: 54000
  for (int i = 0; i < 10000; ++i) too_long += static_cast<char>('!' + rng.below(90));
  std::vector<std::uint64_t> tokens;
  for (int i = 0; i < 100; ++i) {
    std::string id = "m" + std::to_string(i);
    if (i == 13) id = std::string("nul\0", 4);  // 22021
    if (i == 77) id = too_long;
    tokens.push_back(writer.put(id, "ann", "x"));
  }
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    REQUIRE(writer.wait(tokens[i]));
    INFO(i);
    CHECK(writer.put_answer(tokens[i]).status ==
          (i == 13 || i == 77 ? PutStatus::Refused : PutStatus::Created));
  }
  CHECK(database.sql("SELECT count(*) FROM chat_messages") == std::vector<std::string>{"99"});
  CHECK(writer.store().idle());
}

TEST_CASE("sessions that are ended again and again lose nothing and double nothing", "[store][postgres]") {
  PostgresDatabase database;
  EventLoop loop;
  Log log;
  StoreUser user(loop, log, database.config());
  REQUIRE(user.put_now("first", "ann", "x").status == PutStatus::Created);
  Load load(user, "m");
  for (int round = 0; round < 15; ++round) {
    const std::uint64_t goal = load.count(PutStatus::Created) + 150;
    REQUIRE(user.run_until([&] {
      load.top_up(100);
      return load.count(PutStatus::Created) >= goal;
    }));
    database.terminate_all();
  }
  REQUIRE(user.run_until([&] {
    load.settle();
    return load.waiting.empty();
  }));
  // Each put was sent again under the same id until it was known to be stored.
  CHECK(load.count(PutStatus::Created) == static_cast<std::uint64_t>(load.next));
  check_all_stored(database, load.acknowledged);
  CHECK(database.sql("SELECT count(*) FROM chat_messages")[0] == std::to_string(load.next + 1));
  CHECK(user.run_until([&] { return user.store().healthy(); }));
  CHECK(user.store().stats().reconnects >= 15);
  CHECK(user.twice_answered() == 0);
  CHECK(text_of(user.feed_now().body).find("\"count\":" + std::to_string(load.next + 1) + "}") !=
        std::string::npos);
}

TEST_CASE("a server that goes away means 503 at once; it recovers by itself and nothing acknowledged is lost",
          "[store][postgres]") {
  const ServerUpAgain up_again;
  PostgresDatabase database;
  EventLoop loop;
  Log log;
  StoreUser user(loop, log, database.config());
  REQUIRE(user.put_now("first", "ann", "x").status == PutStatus::Created);
  REQUIRE(user.run_until([&] { return user.store().healthy(); }));
  for (const char* mode : {"fast", "immediate"}) {
    INFO(mode);
    Load load(user, std::string(mode) + "-");
    const auto run_beside = [&](const std::function<void()>& work) {
      std::atomic<bool> done{false};
      std::thread thread([&] {
        work();
        done = true;
      });
      const bool ended = user.run_until(
          [&] {
            if (load.waiting.size() < 50) load.top_up(50);
            load.settle();
            return done.load();
          },
          std::chrono::seconds(60));
      thread.join();
      return ended;
    };
    REQUIRE(run_beside([&] { cluster().stop(mode); }));
    REQUIRE(user.run_until([&] { return !user.store().healthy(); }, std::chrono::seconds(3)));
    // Known to be away: refused in the same turn, nothing kept.
    const std::uint64_t refused = user.put("refused", "ann", "x");
    const std::uint64_t feed = user.feed();
    REQUIRE(user.run_until([&] { return user.answered(refused) && user.answered(feed); }, milliseconds(200)));
    CHECK(user.put_answer(refused).status == PutStatus::Unavailable);
    CHECK_FALSE(user.feed_answer(feed).available);
    CHECK(user.store().stats().queued_rows == 0);

    REQUIRE(run_beside([&] { cluster().start(); }));
    const TimePoint back = monotonic_now();
    REQUIRE(user.run_until([&] { return user.store().healthy(); }));
    CHECK(user.put_now(std::string("back-") + mode, "ann", "x").status == PutStatus::Created);
    INFO("seconds to recover: " << seconds(monotonic_now() - back));
    CHECK(monotonic_now() - back < std::chrono::seconds(4));
    REQUIRE(user.run_until([&] {
      load.settle();
      return load.waiting.empty();
    }));
    check_all_stored(database, load.acknowledged);
    CHECK(database.sql("SELECT count(*) FROM chat_messages WHERE message_id = 'refused'")[0] == "0");
    CHECK(user.feed_now().available);
  }
}

TEST_CASE("a batch in doubt that cannot be settled in time is an unknown outcome", "[store][postgres]") {
  const ServerUpAgain up_again;
  PostgresDatabase database;
  StoreConfig config = database.config();
  config.lock_timeout = milliseconds(900);
  config.statement_timeout = milliseconds(1000);
  EventLoop loop;
  Log log;
  StoreUser user(loop, log, config);
  REQUIRE(user.put_now("first", "ann", "x").status == PutStatus::Created);
  std::uint64_t doubtful = 0;
  {
    PgSession foreign(database.url());
    foreign.query("BEGIN");
    foreign.query(kForeignInsert);
    doubtful = user.put("doubtful", "ann", "x");
    REQUIRE(user.run_until([&] { return user.store().stats().batches_in_flight == 1; }));
    cluster().stop("immediate");
  }
  REQUIRE(user.wait(doubtful));
  CHECK(user.put_answer(doubtful).status == PutStatus::OutcomeUnknown);
  CHECK(user.put_now("unsent", "ann", "x").status == PutStatus::Unavailable);
  cluster().start();
  CHECK(user.run_until([&] { return user.put_now("doubtful", "ann", "x").status == PutStatus::Created; }));
}

TEST_CASE("a store that starts without a server refuses, and works when there is one", "[store][postgres]") {
  const ServerUpAgain up_again;
  PostgresDatabase database;
  cluster().stop("fast");
  EventLoop loop;
  Log log;
  StoreUser user(loop, log, database.config());
  CHECK(user.put_now("early", "ann", "x").status == PutStatus::Unavailable);
  CHECK_FALSE(user.feed_now().available);
  CHECK_FALSE(user.store().healthy());
  cluster().start();
  CHECK(user.run_until([&] { return user.store().healthy(); }));
  CHECK(user.put_now("later", "ann", "x").status == PutStatus::Created);
}

TEST_CASE("a role that may only use the tables is enough once they are there", "[store][postgres]") {
  PostgresDatabase database;
  EventLoop loop;
  Log log;
  {
    StoreUser owner(loop, log, database.config());
    REQUIRE(owner.put_now("first", "ann", "x").status == PutStatus::Created);
  }
  PgSession(cluster().url("postgres", "postgres"))
      .query("DO $$ BEGIN CREATE ROLE app LOGIN; EXCEPTION WHEN duplicate_object THEN END $$");
  database.sql("GRANT USAGE ON SCHEMA " + database.schema() + " TO app");
  database.sql("GRANT SELECT, INSERT ON chat_messages TO app");
  database.sql("GRANT SELECT, UPDATE ON chat_meta TO app");
  database.sql("GRANT SELECT, INSERT, UPDATE ON chat_key_usage TO app");
  StoreConfig config = database.config();
  config.database_url = database.url("app");
  StoreUser user(loop, log, config);
  CHECK(user.put_now("second", "ann", "x").status == PutStatus::Created);
  CHECK(user.put_now("first", "ann", "x").status == PutStatus::Duplicate);
  CHECK(text_of(user.feed_now().body).find("\"count\":2}") != std::string::npos);
}

TEST_CASE("a host that is down is passed over, and names are looked up", "[store][postgres]") {
  PostgresDatabase database;
  const std::string url = database.url();
  const std::string port = std::to_string(cluster().port());
  EventLoop loop;
  Log log;
  StoreConfig config = database.config();
  SECTION("two hosts") {
    config.database_url = url;
    config.database_url.replace(url.find("127.0.0.1"), 9 + 1 + port.size(), "127.0.0.1:1,127.0.0.1:" + port);
  }
  SECTION("a name") { config.database_url.replace(url.find("127.0.0.1"), 9, "localhost"); }
  SECTION("a Unix socket") {
    config.database_url = "host=" + cluster().folder() + " port=" + port +
                          " user=chat_user dbname=chat options=-csearch_path=" + database.schema();
  }
  StoreUser user(loop, log, config);
  CHECK(user.put_now("a", "ann", "x").status == PutStatus::Created);
  CHECK(text_of(user.feed_now().body).find("\"count\":1}") != std::string::npos);
}

TEST_CASE("three first starts at once make the tables without an error", "[store][postgres]") {
  for (int round = 0; round < 3; ++round) {
    PostgresDatabase database;
    EventLoop loop;
    Log log;
    std::vector<std::unique_ptr<StoreUser>> users;
    for (int i = 0; i < 6; ++i) users.push_back(std::make_unique<StoreUser>(loop, log, database.config()));
    std::vector<std::uint64_t> tokens;
    for (auto& user : users) tokens.push_back(user->put("m", "ann", "x"));
    for (std::size_t i = 0; i < users.size(); ++i) {
      REQUIRE(users[i]->wait(tokens[i]));
      CHECK(users[i]->put_answer(tokens[i]).status <= PutStatus::Duplicate);
      CHECK(users[i]->store().stats().reconnects == 0);
    }
    CHECK(database.sql("SELECT count(*) FROM chat_meta") == std::vector<std::string>{"1"});
  }
}

TEST_CASE("large batches go both ways while the loop keeps turning", "[store][postgres]") {
  PostgresDatabase database;
  StoreConfig config = database.config();
  config.write_queue_rows = 2000;
  config.write_queue_bytes = std::size_t{64} << 20;
  config.write_queue_timeout = std::chrono::seconds(60);  // the point is that all go through
  EventLoop loop;
  Log log;
  StoreUser user(loop, log, config);
  REQUIRE(user.put_now("first", "ann", "x").status == PutStatus::Created);
  for (int i = 0; i < 600; ++i) user.put("m" + std::to_string(i), "ann", std::string(20000, 'x'));
  REQUIRE(user.run_until([&] { return user.answers() == 601; }, std::chrono::seconds(60)));
  CHECK(user.store().stats().created == 601);
  CHECK(user.run_until([&] { return user.feed_now().body.size > 600U * 20000U; }));
  CHECK(user.store().idle());
}

TEST_CASE("rows that were written here join the feed without being read, in their place",
          "[store][postgres]") {
  PostgresDatabase database;
  EventLoop loop;
  Log log;
  StoreUser user(loop, log, database.config());
  StoreUser other(loop, log, database.config());
  REQUIRE(user.put_now("first", "ann", "x").status == PutStatus::Created);
  REQUIRE(user.feed_now().available);
  for (int i = 0; i < 40; ++i) {
    const std::string id = "m" + std::to_string(i);
    if (i % 10 == 3) other.put_now("o" + id, "bob", "\"x\"");
    if (i % 10 == 6) database.sql("SELECT nextval('chat_messages_sequence_seq')");
    REQUIRE(user.put_now(id, "ann", "text of " + id).status == PutStatus::Created);
  }
  CHECK(user.store().stats().feed_own_rows > 10);
  const FeedAnswer mine = user.feed_now();
  CHECK(text_of(mine.body).find("\"count\":45}") != std::string::npos);
  CHECK(text_of(mine.body) == text_of(other.feed_now().body));
  StoreUser later(loop, log, database.config());  // has read all of it
  CHECK(text_of(mine.body) == text_of(later.feed_now().body));
  REQUIRE(user.run_until([&] { return user.last_live() == mine.last_sequence; }));
  const std::vector<std::int64_t> live = user.live_sequences();
  CHECK(std::set<std::int64_t>(live.begin(), live.end()).size() == live.size());
  CHECK(std::is_sorted(live.begin(), live.end()));
}

TEST_CASE("a TRUNCATE behind rows that were not read is noticed, whatever the sequence does",
          "[store][postgres]") {
  PostgresDatabase database;
  EventLoop loop;
  Log log;
  StoreUser user(loop, log, database.config());
  REQUIRE(user.put_now("first", "ann", "x").status == PutStatus::Created);
  REQUIRE(user.feed_now().available);
  REQUIRE(user.put_now("second", "ann", "x").status == PutStatus::Created);
  const char* how = GENERATE("TRUNCATE chat_messages", "TRUNCATE chat_messages RESTART IDENTITY");
  INFO(how);
  database.sql(how);
  REQUIRE(user.put_now("third", "ann", "x").status == PutStatus::Created);
  const std::string feed = text_of(user.feed_now().body);
  CHECK(feed.find("\"count\":1}") != std::string::npos);
  CHECK(feed.find("\"third\"") != std::string::npos);
  CHECK(user.run_until(
      [&] { return user.live().size() >= 2 && user.live()[user.live().size() - 2].sequence == 0; }));
}

TEST_CASE("a repeat of a message does not burn a sequence value", "[store][postgres]") {
  PostgresDatabase database;
  EventLoop loop;
  Log log;
  StoreUser user(loop, log, database.config());
  const std::int64_t first = user.put_now("a", "ann", "x").sequence;
  for (int i = 0; i < 20; ++i) user.put_now("a", "ann", "x");
  CHECK(user.put_now("b", "ann", "x").sequence == first + 1);
}

TEST_CASE("foreign rows with odd values, and a lost generation, do not take the feed down",
          "[store][postgres]") {
  PostgresDatabase database;
  EventLoop loop;
  Log log;
  StoreUser user(loop, log, database.config());
  REQUIRE(user.put_now("a", "ann", "x").status == PutStatus::Created);
  for (const char* time : {"infinity", "-infinity", "294276-12-31", "4713-01-01 BC"}) {
    database.sql(
        "INSERT INTO chat_messages (message_id, client_name, key_id, nonce, ciphertext, created_at) VALUES "
        "('" +
        std::string(time) + "', '', '', '', '', '" + time + "')");
  }
  CHECK(text_of(user.feed_now().body).find("\"count\":5}") != std::string::npos);
  database.sql("DELETE FROM chat_meta");
  CHECK(user.put_now("b", "ann", "x").status == PutStatus::Created);
  CHECK(user.run_until(
      [&] { return text_of(user.feed_now().body).find("\"count\":6}") != std::string::npos; }));
  CHECK(database.sql("SELECT count(*) FROM chat_meta") == std::vector<std::string>{"1"});
}

TEST_CASE("a database URL that cannot be meant is refused at start, without its password",
          "[store][postgres]") {
  for (const char* url :
       {"postgresql://u:secret@h:port/db?nonsense=1", "postgresql://u:secret@h/db?nonsense=1", "nonsense",
        "host=a,b port=1,2,3 password=secret"}) {
    const auto parsed = parse_pg_url(url);
    INFO(url);
    REQUIRE_FALSE(parsed.has_value());
    CHECK(parsed.error().text.find("database-url") == 0);
    CHECK(parsed.error().text.find("secret") == std::string::npos);
  }
  const auto parsed = parse_pg_url("postgresql://u:p@one,[::1]:6,three:7/db?target_session_attrs=read-write");
  REQUIRE(parsed.has_value());
  REQUIRE(parsed->hosts.size() == 3);
  CHECK(needs_lookup(parsed->hosts[0]));
  CHECK_FALSE(needs_lookup(parsed->hosts[1]));
  CHECK(parsed->hosts[2].port == "7");
}

TEST_CASE("states of SQL are sorted into what a batch may do about them", "[postgres]") {
  CHECK(judge_sqlstate("40P01").failure == BatchFailure::Retry);
  CHECK(judge_sqlstate("55P03").failure == BatchFailure::Retry);
  CHECK_FALSE(judge_sqlstate("57014").reconnect);
  CHECK(judge_sqlstate("57P01").reconnect);
  CHECK(judge_sqlstate("25006").reconnect);
  CHECK(judge_sqlstate("22021").failure == BatchFailure::Poison);
  CHECK(judge_sqlstate("54000").failure == BatchFailure::Poison);
  CHECK(judge_sqlstate("53100").failure == BatchFailure::Down);
  CHECK(judge_sqlstate("42501").failure == BatchFailure::Down);
}

}  // namespace dlb::backend::test
