// SqliteWorker: the thread that owns the embedded database file. It takes jobs in order and posts their
// results to the store's loop; every SQLite call happens here. WAL with synchronous=FULL; BEGIN IMMEDIATE
// serialises the writers of all processes, so sequences are committed in order; they take turns
// (WriterTurns). Opening, and opening again after an error, is a job of its own.
//
//   loop ── SqliteJob ──▶ [queue] ─▶ thread ── SqliteResult ──▶ Mailbox ─▶ loop
//
// A write job points at rows of the WritePath, which leaves them untouched until the result has come back;
// the store joins the thread before those rows die.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "backend/stored_row.h"
#include "backend/write_batcher.h"
#include "backend/writer_turns.h"
#include "common/clock.h"
#include "common/event_loop.h"
#include "common/mailbox.h"

struct sqlite3;
struct sqlite3_stmt;

namespace dlb::backend {

struct SqliteJob {
  enum class Kind : std::uint8_t {
    Open,         // makes the file and its tables when missing; result: text = generation
    Write,        // one transaction; result: replies
    Read,         // result: rows, complete; text = generation, read before them
    Reserve,      // result: number = the key's counter, -1 when its limit is reached
    Generation,   // puts `text` for `seen`; result: text = what stands now
    Probe,        // result: number = PRAGMA data_version
    Page,         // like Read, without the generation; `down`: rows with sequence <= from, downwards
    FindKey,      // of the name `text`; result: text = its key, empty when nobody has it
    Claim,        // the name `text` for the key `seen`; result: text = whose it is
    ListPresent,  // result: texts = the names of all instances but `seen` whose leases hold
    WritePresent  // names `text` of the instance `seen`, a lease of `count` seconds
  };
  Kind kind = Kind::Probe;
  std::uint64_t id = 0;
  std::vector<const PendingWrite*> rows{};  // Write
  std::int64_t from = 0;                    // Read, Page
  bool down = false;                        // Page
  std::int64_t max_rows = 0;
  std::int64_t max_bytes = 0;
  std::string key_id{};  // Reserve
  std::int64_t count = 0;
  std::int64_t limit = 0;
  std::string seen{};  // Generation, and the chat's
  std::string text{};
};

struct SqliteResult {
  SqliteJob::Kind kind = SqliteJob::Kind::Probe;
  std::uint64_t id = 0;
  bool ok = false;
  BatchFailure failure = BatchFailure::Down;  // when not ok
  bool closed = false;                        // the file was closed: an Open is needed before anything else
  std::string detail;
  std::vector<RowReply> replies;
  std::vector<StoredRow> rows;  // Read: views into `texts`
  std::deque<std::string> texts;
  bool complete = false;
  std::int64_t number = 0;
  std::string text;
};

class SqliteWorker {
 public:
  // `results` must have room for every job that is ever posted and not yet answered.
  // A job waits for another process's transaction at most `busy_limit`.
  SqliteWorker(std::string folder, Duration busy_limit, Mailbox<std::unique_ptr<SqliteResult>>& results);
  SqliteWorker(const SqliteWorker&) = delete;
  SqliteWorker& operator=(const SqliteWorker&) = delete;
  ~SqliteWorker();  // ends the job that runs, drops the others, joins

  void post(SqliteJob job);

 private:
  void run();
  void run_job(const SqliteJob& job, SqliteResult& result);
  void open(SqliteResult& result);
  bool file_is_gone();
  bool open_file(SqliteResult& result);
  bool make_tables(SqliteResult& result);
  void close();
  static int on_busy(void* worker, int tries);
  bool begin(SqliteResult& result);
  void write(const SqliteJob& job, SqliteResult& result);
  bool write_row(const PendingWrite& row, SqliteResult& result);
  void read(const SqliteJob& job, SqliteResult& result);
  bool read_generation(SqliteResult& result);
  void reserve(const SqliteJob& job, SqliteResult& result);
  bool reserve_row(const SqliteJob& job, SqliteResult& result);
  void renew(const SqliteJob& job, SqliteResult& result);
  void probe(SqliteResult& result);
  void run_chat_job(const SqliteJob& job, SqliteResult& result);
  void page(const SqliteJob& job, SqliteResult& result);
  bool find_key(const std::string& name, SqliteResult& result);
  void claim(const SqliteJob& job, SqliteResult& result);
  void list_present(const SqliteJob& job, SqliteResult& result);
  void write_present(const SqliteJob& job, SqliteResult& result);
  bool step_rows(sqlite3_stmt* statement, const SqliteJob& job, SqliteResult& result);
  bool exec(const char* sql, SqliteResult& result);
  bool prepare(sqlite3_stmt*& statement, const char* sql, SqliteResult& result);
  void fail(SqliteResult& result, const char* what);
  StoredRow stored_row(sqlite3_stmt* statement, SqliteResult& result);

  std::string folder_;
  Duration busy_limit_;
  Mailbox<std::unique_ptr<SqliteResult>>& results_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<SqliteJob> jobs_;
  std::atomic<bool> stop_{false};

  // The thread's own.
  WriterTurns turns_;
  TimePoint busy_until_{};  // the job waits for others no longer than that
  sqlite3* db_ = nullptr;
  bool broken_ = false;  // to be closed when the job is over
  sqlite3_stmt* insert_ = nullptr;
  sqlite3_stmt* find_ = nullptr;
  sqlite3_stmt* read_ = nullptr;
  sqlite3_stmt* generation_ = nullptr;

  std::thread thread_;  // last: starts when everything else is there
};

}  // namespace dlb::backend
