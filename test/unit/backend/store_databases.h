// The two databases a store may have, for tests that hold for both: a fresh one, its configuration, and a
// second way in that shares no code with the store.
#pragma once

#include <libpq-fe.h>
#include <sqlite3.h>

#include <memory>
#include <string>
#include <vector>

#include "backend/store_config.h"
#include "common/check.h"
#include "test/support/catch.h"
#include "test/support/pg_cluster.h"
#include "test/support/temp_dir.h"

namespace dlb::backend::test {

// A plain session of its own, used blocking.
class PgSession {
 public:
  explicit PgSession(const std::string& url) : connection_(PQconnectdb(url.c_str())) {
    DLB_CHECK_MSG(PQstatus(connection_) == CONNECTION_OK, PQerrorMessage(connection_));
  }
  PgSession(const PgSession&) = delete;
  PgSession& operator=(const PgSession&) = delete;
  ~PgSession() { PQfinish(connection_); }

  // The first column of each row; false in `ok` when the command failed.
  std::vector<std::string> query(const std::string& sql, bool* ok = nullptr) {
    PGresult* result = PQexec(connection_, sql.c_str());
    const ExecStatusType status = PQresultStatus(result);
    const bool fine = status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK;
    if (ok != nullptr) {
      *ok = fine;
    } else {
      DLB_CHECK_MSG(fine, PQresultErrorMessage(result));
    }
    std::vector<std::string> out;
    for (int row = 0; row < PQntuples(result); ++row) out.emplace_back(PQgetvalue(result, row, 0));
    PQclear(result);
    return out;
  }

 private:
  PGconn* connection_;
};

class Database {
 public:
  virtual ~Database() = default;
  virtual StoreConfig config() = 0;
  // Runs SQL that both databases understand; the first column of each row.
  virtual std::vector<std::string> sql(const std::string& text) = 0;
  // Empties the message table and starts its sequence anew.
  virtual void truncate() = 0;
  // Truncates and inserts `count` foreign rows in one transaction: nobody sees the table empty.
  virtual void replace_rows(int count) = 0;
  // Every byte the database holds of its tables.
  virtual std::string dump() = 0;

 protected:
  StoreConfig base_config() {
    StoreConfig config;
    config.data_dir = folder_.path() + "/data";
    config.key_file = config.data_dir + "/encryption.key";
    config.create_key_file = true;
    config.backend_id = "test";
    config.chat = true;
    return config;
  }
  ::dlb::test::TempDir folder_;
};

class SqliteDatabase final : public Database {
 public:
  StoreConfig config() override { return base_config(); }
  std::vector<std::string> sql(const std::string& text) override {
    sqlite3* db = nullptr;
    DLB_CHECK(sqlite3_open((folder_.path() + "/data/chat.db").c_str(), &db) == SQLITE_OK);
    sqlite3_busy_timeout(db, 5000);
    std::vector<std::string> out;
    char* error = nullptr;
    sqlite3_exec(
        db, text.c_str(),
        [](void* list, int, char** values, char**) {
          static_cast<std::vector<std::string>*>(list)->emplace_back(values[0] != nullptr ? values[0] : "");
          return 0;
        },
        &out, &error);
    DLB_CHECK_MSG(error == nullptr, error != nullptr ? error : "");
    sqlite3_close(db);
    return out;
  }
  void truncate() override {
    sql("DELETE FROM chat_messages; DELETE FROM sqlite_sequence WHERE name = 'chat_messages'");
  }
  void replace_rows(int count) override {
    std::string all =
        "BEGIN IMMEDIATE; DELETE FROM chat_messages; DELETE FROM sqlite_sequence WHERE name = "
        "'chat_messages';";
    for (int i = 0; i < count; ++i) {
      all +=
          "INSERT INTO chat_messages (message_id, client_name, key_id, nonce, ciphertext, created_us) VALUES "
          "('f" +
          std::to_string(i) + "', 'x', '', 'n', '', 0);";
    }
    sql(all + "COMMIT");
  }
  std::string dump() override {
    std::string all;
    for (const char* name : {"/data/chat.db", "/data/chat.db-wal"}) {
      std::ifstream in(folder_.path() + name, std::ios::binary);
      all.append(std::istreambuf_iterator<char>(in), {});
    }
    return all;
  }
};

// One server for the whole test program; each PostgresDatabase is a schema of its own in it, which costs far
// less than a database.
inline ::dlb::test::PgCluster& cluster() {
  static ::dlb::test::PgCluster one;
  return one;
}

class PostgresDatabase final : public Database {
 public:
  PostgresDatabase() {
    static int count = 0;
    name_ = "chat" + std::to_string(++count);
    PgSession(cluster().url("chat", "postgres")).query("CREATE SCHEMA " + name_ + " AUTHORIZATION chat_user");
  }
  StoreConfig config() override {
    StoreConfig config = base_config();
    config.database_url = url();
    return config;
  }
  std::string url(const std::string& user = "chat_user") const {
    return cluster().url("chat", user) + "?options=-csearch_path%3D" + name_;
  }
  const std::string& schema() const { return name_; }
  std::vector<std::string> sql(const std::string& text) override { return PgSession(url()).query(text); }
  void truncate() override { sql("TRUNCATE chat_messages RESTART IDENTITY"); }
  void replace_rows(int count) override {
    std::string all = "TRUNCATE chat_messages RESTART IDENTITY;";
    for (int i = 0; i < count; ++i) {
      all += "INSERT INTO chat_messages (message_id, client_name, key_id, nonce, ciphertext) VALUES ('f" +
             std::to_string(i) + "', 'x', '', 'n', '');";
    }
    sql(all);
  }
  std::string dump() override {
    std::string all;
    PgSession session(url());
    for (const std::string& row :
         session.query("SELECT encode(m::text::bytea, 'escape') FROM chat_messages m")) {
      all += row;
    }
    for (const std::string& row : session.query("SELECT encode(ciphertext, 'escape') FROM chat_messages"))
      all += row;
    return all;
  }
  // Ends every session of the chat database; how many there were.
  std::size_t terminate_all() {
    return PgSession(cluster().url("postgres", "postgres"))
        .query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'chat'")
        .size();
  }

 private:
  std::string name_;
};

// Runs `body` on each database that this machine has.
template <class Body>
void on_each_database(Body&& body) {
  SECTION("SQLite") {
    SqliteDatabase database;
    body(database);
  }
  SECTION("PostgreSQL") {
    PostgresDatabase database;
    body(database);
  }
}

}  // namespace dlb::backend::test
