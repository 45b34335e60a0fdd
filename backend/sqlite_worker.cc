#include "backend/sqlite_worker.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include "backend/generation.h"
#include "backend/sqlite_statement.h"
#include "common/check.h"
#include "common/fd.h"
#include "common/result.h"

namespace dlb::backend {
namespace {

constexpr const char* kSchema =
    "CREATE TABLE IF NOT EXISTS chat_messages ("
    " sequence INTEGER PRIMARY KEY AUTOINCREMENT,"
    " message_id TEXT NOT NULL UNIQUE,"
    " client_name TEXT NOT NULL,"
    " key_id BLOB NOT NULL,"
    " nonce BLOB NOT NULL,"
    " ciphertext BLOB NOT NULL,"
    " source INTEGER NOT NULL DEFAULT 0,"
    " signature TEXT,"
    " created_us INTEGER NOT NULL);"
    "CREATE TABLE IF NOT EXISTS chat_meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS chat_key_usage (key_id BLOB PRIMARY KEY, reserved INTEGER NOT NULL) WITHOUT "
    "ROWID;"
    "CREATE TABLE IF NOT EXISTS chat_users (username TEXT PRIMARY KEY, public_key BLOB NOT NULL, created_us "
    "INTEGER NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS chat_presence (instance TEXT PRIMARY KEY, names TEXT NOT NULL, expires_us "
    "INTEGER "
    "NOT NULL) WITHOUT ROWID;";

// Between two looks at a lock that another process has, in microseconds: short while it may be a matter of
// one commit.
constexpr int kEagerTries = 40;
constexpr ::useconds_t kEagerPause = 250;
constexpr ::useconds_t kPatientPause = 1000;

// Makes an empty file of mode 0600, which SQLite's -wal and -shm files inherit. It is made beside and linked
// into place: closing a descriptor of a file that SQLite has open in this process would drop its locks.
void make_private_file(const std::string& path) {
  const std::string beside = path + ".new-" + new_generation();
  Fd made(::open(beside.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600));
  if (!made) return;  // SQLite's own opening will tell why
  made.reset();
  [[maybe_unused]] const int linked = ::link(beside.c_str(), path.c_str());  // EEXIST: another was first
  ::unlink(beside.c_str());
}

}  // namespace

SqliteWorker::SqliteWorker(std::string folder, Duration busy_limit,
                           Mailbox<std::unique_ptr<SqliteResult>>& results)
    : folder_(std::move(folder)), busy_limit_(busy_limit), results_(results) {
  // The thread takes no signals: they are the loop's.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

SqliteWorker::~SqliteWorker() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void SqliteWorker::post(SqliteJob job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  wake_.notify_one();
}

void SqliteWorker::run() {
  while (true) {
    SqliteJob job;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stop_ || !jobs_.empty(); });
      if (stop_) break;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    auto result = std::make_unique<SqliteResult>();
    result->kind = job.kind;
    result->id = job.id;
    run_job(job, *result);
    if (std::exchange(broken_, false)) close();
    result->closed = db_ == nullptr;
    DLB_CHECK(results_.post(std::move(result)));
  }
  close();
}

void SqliteWorker::run_job(const SqliteJob& job, SqliteResult& result) {
  busy_until_ = monotonic_now() + busy_limit_;
  if (job.kind == SqliteJob::Kind::Open) return open(result);
  if (db_ == nullptr) {
    result.failure = BatchFailure::Unsent;
    result.detail = "the database file is not open";
    return;
  }
  if (file_is_gone()) {
    result.failure = BatchFailure::Unsent;
    result.detail = "the database file was deleted or exchanged";
    broken_ = true;
    return;
  }
  switch (job.kind) {
    case SqliteJob::Kind::Write:
      return write(job, result);
    case SqliteJob::Kind::Read:
      return read(job, result);
    case SqliteJob::Kind::Reserve:
      return reserve(job, result);
    case SqliteJob::Kind::Generation:
      return renew(job, result);
    case SqliteJob::Kind::Probe:
      return probe(result);
    case SqliteJob::Kind::Open:
      break;
    default:
      return run_chat_job(job, result);
  }
}

// What was committed to a file without a name would be gone with the last process that has it open.
bool SqliteWorker::file_is_gone() {
  int moved = 0;
  return sqlite3_file_control(db_, "main", SQLITE_FCNTL_HAS_MOVED, &moved) == SQLITE_OK && moved != 0;
}

// SQLite's own busy time-out sleeps longer and longer, up to 100 ms.
int SqliteWorker::on_busy(void* worker, int tries) {
  auto& self = *static_cast<SqliteWorker*>(worker);
  const TimePoint now = monotonic_now();
  if (self.stop_ || now >= self.busy_until_) return 0;
  self.turns_.mine(now);  // the first in line, and still here
  ::usleep(tries < kEagerTries ? kEagerPause : kPatientPause);
  return 1;
}

// Begins a transaction that writes, when those have begun theirs who have waited for longer.
bool SqliteWorker::begin(SqliteResult& result) {
  TimePoint now = monotonic_now();
  turns_.ask(now);
  for (int tries = 0; !turns_.mine(now) && !stop_ && now < busy_until_; now = monotonic_now()) {
    ::usleep(tries++ < kEagerTries ? kEagerPause : kPatientPause);
  }
  const bool begun = exec("BEGIN IMMEDIATE", result);
  turns_.leave();
  return begun;
}

// Fills in what went wrong. The file is closed after the job when only opening it again can help.
void SqliteWorker::fail(SqliteResult& result, const char* what) {
  const int code = sqlite3_extended_errcode(db_);
  result.ok = false;
  result.detail = std::string(what) + ": " + sqlite3_errmsg(db_) + " (SQLite " + std::to_string(code) + ")";
  switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_INTERRUPT:
      result.failure = BatchFailure::Retry;
      break;
    case SQLITE_TOOBIG:
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH:
      result.failure = BatchFailure::Poison;
      break;
    default:
      result.failure = BatchFailure::Down;
  }
  if (sqlite3_get_autocommit(db_) == 0) sqlite3_exec(db_, "ROLLBACK", nullptr, nullptr, nullptr);
  switch (code & 0xff) {
    case SQLITE_IOERR:
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
    case SQLITE_ERROR:
      broken_ = true;
      break;  // SQLITE_ERROR: "no such table", the file was exchanged
    default:
      break;
  }
}

bool SqliteWorker::exec(const char* sql, SqliteResult& result) {
  if (sqlite3_exec(db_, sql, nullptr, nullptr, nullptr) == SQLITE_OK) return true;
  fail(result, sql);
  return false;
}

bool SqliteWorker::prepare(sqlite3_stmt*& statement, const char* sql, SqliteResult& result) {
  if (sqlite3_prepare_v3(db_, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr) == SQLITE_OK)
    return true;
  fail(result, "prepare");
  return false;
}

void SqliteWorker::close() {
  for (sqlite3_stmt** statement : {&insert_, &find_, &read_, &generation_}) {
    sqlite3_finalize(*statement);
    *statement = nullptr;
  }
  sqlite3_close_v2(db_);
  db_ = nullptr;
}

bool SqliteWorker::open_file(SqliteResult& result) {
  if (::mkdir(folder_.c_str(), 0700) != 0) {
    const int err = errno;
    if (err != EEXIST) {
      result.detail = errno_error("make data-dir " + folder_, err).text;
      return false;
    }
  }
  const std::string path = folder_ + "/chat.db";
  if (::access(path.c_str(), F_OK) != 0) make_private_file(path);
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  if (sqlite3_open_v2(path.c_str(), &db_, flags, nullptr) != SQLITE_OK) {
    result.detail = "open " + path + ": " + (db_ != nullptr ? sqlite3_errmsg(db_) : "out of memory");
    close();
    return false;
  }
  sqlite3_busy_handler(db_, &SqliteWorker::on_busy, this);
  turns_.open(folder_ + "/chat.turns");  // without it writers are only less patient with each other
  return true;
}

void SqliteWorker::open(SqliteResult& result) {
  close();
  if (!open_file(result)) return;
  const std::string read_sql = std::string("SELECT ") + kColumns +
                               " FROM chat_messages WHERE sequence >= ?1 ORDER BY sequence LIMIT ?2";
  const std::string find_sql =
      std::string("SELECT ") + kColumns + " FROM chat_messages WHERE message_id = ?1";
  // The switch to WAL needs the file for itself and may be refused at once while others open it too: the
  // caller tries again.
  const bool ok =
      exec("PRAGMA journal_mode = WAL", result) && exec("PRAGMA synchronous = FULL", result) &&
      exec("PRAGMA journal_size_limit = 67108864", result) && make_tables(result) &&
      prepare(
          insert_,
          "INSERT INTO chat_messages (message_id, client_name, key_id, nonce, ciphertext, source, signature, "
          "created_us) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (message_id) DO NOTHING",
          result) &&
      prepare(find_, find_sql.c_str(), result) && prepare(read_, read_sql.c_str(), result) &&
      prepare(generation_, "SELECT value FROM chat_meta WHERE name = 'generation'", result);
  if (!ok) {
    close();
    return;
  }
  result.ok = read_generation(result);
}

bool SqliteWorker::read_generation(SqliteResult& result) {
  const InUse use(generation_);
  const int step = sqlite3_step(generation_);
  if (step == SQLITE_ROW) {
    result.text = text_column(generation_, 0);
    return true;
  }
  fail(result, "read generation");
  if (step == SQLITE_DONE) broken_ = true;  // opening makes one
  return false;
}

// Only when something is missing: a start must not have to wait for another process's transaction.
bool SqliteWorker::make_tables(SqliteResult& result) {
  {
    const OneTime complete(
        db_,
        "SELECT value FROM chat_meta WHERE name = 'generation' AND 4 = (SELECT count(*) FROM "
        "sqlite_schema WHERE type = 'table' AND name IN ('chat_messages', 'chat_key_usage', 'chat_users', "
        "'chat_presence'))");
    if (complete.ok() && sqlite3_step(complete.get()) == SQLITE_ROW) return true;
  }
  const std::string first_generation =
      "INSERT OR IGNORE INTO chat_meta (name, value) VALUES ('generation', '" + new_generation() + "')";
  return begin(result) && exec(kSchema, result) && exec(first_generation.c_str(), result) &&
         exec("COMMIT", result);
}

void SqliteWorker::write(const SqliteJob& job, SqliteResult& result) {
  if (!begin(result)) return;
  result.replies.reserve(job.rows.size());
  for (const PendingWrite* row : job.rows) {
    if (!write_row(*row, result)) return;
  }
  if (sqlite3_exec(db_, "COMMIT", nullptr, nullptr, nullptr) != SQLITE_OK) {
    fail(result, "COMMIT");
    // A failed write of the log may still have reached the disk: only the file, opened again, tells.
    if (result.failure == BatchFailure::Down) result.failure = BatchFailure::Lost;
    broken_ = true;
    return;
  }
  result.ok = true;
}

bool SqliteWorker::write_row(const PendingWrite& row, SqliteResult& result) {
  RowReply reply;
  {
    const InUse use(insert_);
    const std::int64_t now_us = wall_now_us();
    bind_text(insert_, 1, row.message.id);
    bind_text(insert_, 2, row.message.client_name);
    bind_blob(insert_, 3, as_bytes(row.sealed->key_id));
    bind_blob(insert_, 4, row.sealed->nonce_bytes());
    bind_blob(insert_, 5, row.sealed->ciphertext);
    sqlite3_bind_int(insert_, 6, static_cast<int>(row.message.source));
    if (!row.message.signature.empty()) bind_text(insert_, 7, row.message.signature);
    sqlite3_bind_int64(insert_, 8, now_us);
    if (sqlite3_step(insert_) != SQLITE_DONE) {
      fail(result, "insert");
      return false;
    }
    if (sqlite3_changes(db_) == 1) {
      reply.kind = RowReply::Kind::Created;
      reply.sequence = sqlite3_last_insert_rowid(db_);
      reply.timestamp_us = now_us;
    }
  }
  if (reply.kind != RowReply::Kind::Created) {
    const InUse use(find_);
    bind_text(find_, 1, row.message.id);
    const int step = sqlite3_step(find_);
    if (step == SQLITE_ROW) {
      reply.kind = RowReply::Kind::Existing;
      reply.existing = stored_row(find_, result);
    } else if (step != SQLITE_DONE) {
      fail(result, "look up");
      return false;
    }
  }
  result.replies.push_back(reply);
  return true;
}

StoredRow SqliteWorker::stored_row(sqlite3_stmt* statement, SqliteResult& result) {
  const auto keep = [&](int column) -> std::string_view {
    return result.texts.emplace_back(text_column(statement, column));
  };
  StoredRow row;
  row.sequence = sqlite3_column_int64(statement, 0);
  row.timestamp_us = sqlite3_column_int64(statement, 1);
  row.message_id = keep(2);
  row.client_name = keep(3);
  row.key_id = keep(4);
  row.nonce = keep(5);
  row.ciphertext = keep(6);
  row.source = sqlite3_column_int(statement, 7) == 1 ? MessageSource::Wss : MessageSource::Http;
  row.signature = keep(8);
  return row;
}

void SqliteWorker::read(const SqliteJob& job, SqliteResult& result) {
  if (!read_generation(result)) return;
  const InUse use(read_);
  sqlite3_bind_int64(read_, 1, job.from);
  sqlite3_bind_int64(read_, 2, job.max_rows);
  result.ok = step_rows(read_, job, result);
}

bool SqliteWorker::step_rows(sqlite3_stmt* statement, const SqliteJob& job, SqliteResult& result) {
  std::int64_t bytes = 0;
  while (true) {
    const int step = sqlite3_step(statement);
    if (step == SQLITE_DONE) {
      result.complete = std::ssize(result.rows) < job.max_rows;
      return true;
    }
    if (step != SQLITE_ROW) {
      fail(result, "read");
      return false;
    }
    if (bytes >= job.max_bytes) return true;
    result.rows.push_back(stored_row(statement, result));
    bytes += std::ssize(result.rows.back().ciphertext);
  }
}

void SqliteWorker::reserve(const SqliteJob& job, SqliteResult& result) {
  if (begin(result) && reserve_row(job, result)) result.ok = exec("COMMIT", result);
}

bool SqliteWorker::reserve_row(const SqliteJob& job, SqliteResult& result) {
  const OneTime statement(
      db_,
      "INSERT INTO chat_key_usage (key_id, reserved) VALUES (?1, ?2) ON CONFLICT (key_id) DO UPDATE SET "
      "reserved = reserved + ?2 WHERE reserved + ?2 <= ?3 RETURNING reserved");
  if (!statement.ok()) {
    fail(result, "prepare");
    return false;
  }
  bind_blob(statement.get(), 1, job.key_id);
  sqlite3_bind_int64(statement.get(), 2, job.count);
  sqlite3_bind_int64(statement.get(), 3, job.limit);
  int step = sqlite3_step(statement.get());
  result.number = -1;
  if (step == SQLITE_ROW) {
    result.number = sqlite3_column_int64(statement.get(), 0);
    step = sqlite3_step(statement.get());
  }
  if (step == SQLITE_DONE) return true;
  fail(result, "reserve encryptions");
  return false;
}

void SqliteWorker::renew(const SqliteJob& job, SqliteResult& result) {
  if (!begin(result)) return;
  {
    const OneTime update(db_, "UPDATE chat_meta SET value = ?2 WHERE name = 'generation' AND value = ?1");
    if (!update.ok()) return fail(result, "prepare");
    bind_text(update.get(), 1, job.seen);
    bind_text(update.get(), 2, job.text);
    if (sqlite3_step(update.get()) != SQLITE_DONE) return fail(result, "renew generation");
  }
  if (exec("COMMIT", result)) result.ok = read_generation(result);
}

void SqliteWorker::probe(SqliteResult& result) {
  const OneTime statement(db_, "PRAGMA data_version");
  if (!statement.ok() || sqlite3_step(statement.get()) != SQLITE_ROW) return fail(result, "probe");
  result.number = sqlite3_column_int64(statement.get(), 0);
  result.ok = true;
}

}  // namespace dlb::backend
