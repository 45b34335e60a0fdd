// SqliteWorker's jobs for the chat: pages of rows, names with their keys, and who is present.
#include <sqlite3.h>

#include <string>

#include "backend/sqlite_statement.h"
#include "backend/sqlite_worker.h"
#include "common/clock.h"

namespace dlb::backend {
namespace {

constexpr std::int64_t kSecond = 1'000'000;
constexpr std::int64_t kForget = 60 * kSecond;  // a lease that has been over for that long

}  // namespace

void SqliteWorker::run_chat_job(const SqliteJob& job, SqliteResult& result) {
  switch (job.kind) {
    case SqliteJob::Kind::Page:
      return page(job, result);
    case SqliteJob::Kind::FindKey:
      result.ok = find_key(job.text, result);
      return;
    case SqliteJob::Kind::Claim:
      return claim(job, result);
    case SqliteJob::Kind::ListPresent:
      return list_present(job, result);
    case SqliteJob::Kind::WritePresent:
      return write_present(job, result);
    default:
      return;
  }
}

void SqliteWorker::page(const SqliteJob& job, SqliteResult& result) {
  const std::string sql = std::string("SELECT ") + kColumns + " FROM chat_messages WHERE sequence " +
                          (job.down ? "<= ?1 ORDER BY sequence DESC" : ">= ?1 ORDER BY sequence") +
                          " LIMIT ?2";
  const OneTime statement(db_, sql.c_str());
  if (!statement.ok()) return fail(result, "prepare");
  sqlite3_bind_int64(statement.get(), 1, job.from);
  sqlite3_bind_int64(statement.get(), 2, job.max_rows);
  result.ok = step_rows(statement.get(), job, result);
}

// True also when nobody has the name.
bool SqliteWorker::find_key(const std::string& name, SqliteResult& result) {
  const OneTime statement(db_, "SELECT public_key FROM chat_users WHERE username = ?1");
  if (!statement.ok()) {
    fail(result, "prepare");
    return false;
  }
  bind_text(statement.get(), 1, name);
  const int step = sqlite3_step(statement.get());
  if (step == SQLITE_ROW) result.text = text_column(statement.get(), 0);
  if (step == SQLITE_ROW || step == SQLITE_DONE) return true;
  fail(result, "find key");
  return false;
}

// A name that is taken, which is the common case, costs no transaction that writes.
void SqliteWorker::claim(const SqliteJob& job, SqliteResult& result) {
  if (!find_key(job.text, result)) return;
  if (!result.text.empty()) {
    result.ok = true;
    return;
  }
  if (!begin(result)) return;
  {
    const OneTime insert(
        db_,
        "INSERT INTO chat_users (username, public_key, created_us) VALUES (?1, ?2, ?3) ON CONFLICT "
        "(username) DO NOTHING");
    if (!insert.ok()) return fail(result, "prepare");
    bind_text(insert.get(), 1, job.text);
    bind_blob(insert.get(), 2, job.seen);
    sqlite3_bind_int64(insert.get(), 3, wall_now_us());
    if (sqlite3_step(insert.get()) != SQLITE_DONE) return fail(result, "claim name");
  }
  if (!find_key(job.text, result)) return;
  result.ok = exec("COMMIT", result);
}

void SqliteWorker::list_present(const SqliteJob& job, SqliteResult& result) {
  const OneTime statement(db_, "SELECT names FROM chat_presence WHERE expires_us > ?1 AND instance <> ?2");
  if (!statement.ok()) return fail(result, "prepare");
  sqlite3_bind_int64(statement.get(), 1, wall_now_us());
  bind_text(statement.get(), 2, job.seen);
  int step = sqlite3_step(statement.get());
  for (; step == SQLITE_ROW; step = sqlite3_step(statement.get())) {
    result.texts.emplace_back(text_column(statement.get(), 0));
  }
  if (step != SQLITE_DONE) return fail(result, "list who is present");
  result.ok = true;
}

void SqliteWorker::write_present(const SqliteJob& job, SqliteResult& result) {
  if (!begin(result)) return;
  const std::int64_t now = wall_now_us();
  {
    const OneTime forget(db_, "DELETE FROM chat_presence WHERE expires_us < ?1");
    if (!forget.ok()) return fail(result, "prepare");
    sqlite3_bind_int64(forget.get(), 1, now - kForget);
    if (sqlite3_step(forget.get()) != SQLITE_DONE) return fail(result, "forget who is gone");
    const OneTime write(
        db_,
        "INSERT INTO chat_presence (instance, names, expires_us) VALUES (?1, ?2, ?3) ON CONFLICT "
        "(instance) DO UPDATE SET names = excluded.names, expires_us = excluded.expires_us");
    if (!write.ok()) return fail(result, "prepare");
    bind_text(write.get(), 1, job.seen);
    bind_text(write.get(), 2, job.text);
    sqlite3_bind_int64(write.get(), 3, now + job.count * kSecond);
    if (sqlite3_step(write.get()) != SQLITE_DONE) return fail(result, "write who is present");
  }
  result.ok = exec("COMMIT", result);
}

}  // namespace dlb::backend
