// Small helpers around SQLite's statements: columns and parameters as views, and statements that are reset or
// finalized whatever happens. For the files of SqliteWorker.
#pragma once

#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace dlb::backend {

// What SqliteWorker::stored_row() reads.
inline constexpr const char* kColumns =
    "sequence, created_us, message_id, client_name, key_id, nonce, ciphertext, source, signature";

// Valid until the statement is stepped or reset.
std::string_view text_column(sqlite3_stmt* statement, int column);

// The bytes must stay until the statement has run.
void bind_text(sqlite3_stmt* statement, int place, std::string_view text);
void bind_blob(sqlite3_stmt* statement, int place, std::string_view bytes);

// A prepared statement in use: reset when done, whatever happened, so that no read transaction stays open.
class InUse {
 public:
  explicit InUse(sqlite3_stmt* statement) : statement_(statement) {}
  InUse(const InUse&) = delete;
  InUse& operator=(const InUse&) = delete;
  ~InUse();

 private:
  sqlite3_stmt* statement_;
};

// A statement that is prepared for one use.
class OneTime {
 public:
  OneTime(sqlite3* db, const char* sql);
  OneTime(const OneTime&) = delete;
  OneTime& operator=(const OneTime&) = delete;
  ~OneTime();
  bool ok() const { return ok_; }
  sqlite3_stmt* get() const { return statement_; }

 private:
  sqlite3_stmt* statement_ = nullptr;
  bool ok_;
};

}  // namespace dlb::backend
