// PgConnection: one non-blocking connection to PostgreSQL that keeps itself up. Pipeline mode, one sync a
// statement: statements fail each for itself, and a reply is handed over only when its sync has come back,
// that is, committed.
//
//            names to look up            address known              accepted             all prepared
//   Waiting ─────────────────▶ Resolving ─────────────▶ Connecting ──────────▶ SettingUp ─────────────▶ Ready
//      ▲     (none: directly)      │ nothing found          │ refused, time-out   │ error                  │
//      lost, └───────── back-off
//      ────────┴────────────────────────┴─────────────────────┴────────────────────────┘ silent
//
// Each attempt gets one address and `connect_timeout`; after a full round of addresses the pause grows to one
// second, jittered. The oldest unanswered statement bounds the wait: `reply_timeout` of silence is a lost
// connection. The socket is read while sending, so that neither side can block on the other. Loop thread;
// lookups on a thread.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/pg_target.h"
#include "backend/pg_value.h"
#include "common/event_loop.h"
#include "common/log.h"
#include "common/mailbox.h"
#include "common/rng.h"
#include "common/timer_heap.h"

struct pg_conn;
struct pg_result;

namespace dlb::backend {

// One statement's reply. Valid during the call.
class PgReply {
 public:
  explicit PgReply(const pg_result* result) : result_(result) {}
  bool ok() const;
  std::string_view sqlstate() const;  // empty when ok
  std::string text() const;           // of the error, one line
  int rows() const;
  std::string_view value(int row, int column) const;  // binary; empty for null

 private:
  const pg_result* result_;
};

struct PgValue {
  PgType type = PgType::Text;
  std::string_view bytes;  // binary format
};

struct PgStatement {
  const char* name = nullptr;
  std::string sql;
  std::vector<PgType> types;
};

struct PgConnectionConfig {
  PgUrl url;
  std::string purpose;  // "writer": part of application_name
  std::string application_name;
  PgOptions settings;                   // server settings for the session (statement_timeout...)
  std::vector<std::string> setup;       // run in order after connecting, each may hold several commands
  std::vector<PgStatement> statements;  // prepared after that
  Duration connect_timeout = std::chrono::seconds(3);
  Duration reply_timeout = std::chrono::seconds(6);
};

class PgConnection;

class PgConnectionClient {
 public:
  // Everything is prepared; statements may be sent.
  virtual void on_pg_ready(PgConnection& connection) = 0;
  virtual void on_pg_reply(PgConnection& connection, std::uint64_t tag, const PgReply& reply) = 0;
  // congested() has become false.
  virtual void on_pg_drained(PgConnection& connection) = 0;
  // A NOTIFY that some session sent. Only a hint.
  virtual void on_pg_notification(PgConnection& connection, int sender_pid) = 0;
  // The connection is gone. `unanswered`: tags of statements that may or may not have been carried out, in
  // order.
  virtual void on_pg_lost(PgConnection& connection, const std::vector<std::uint64_t>& unanswered) = 0;
  // An attempt to connect has failed: away() may have become true.
  virtual void on_pg_connect_failed(PgConnection& connection) = 0;

 protected:
  ~PgConnectionClient() = default;
};

class PgConnection final : EventHandler, HeapTimerHandler, MailboxHandler<std::vector<PgTarget>> {
 public:
  PgConnection(EventLoop& loop, TimerHeap& timers, Log& log, std::uint64_t seed, PgConnectionConfig config,
               PgConnectionClient& client);
  PgConnection(const PgConnection&) = delete;
  PgConnection& operator=(const PgConnection&) = delete;
  ~PgConnection();

  void start();

  bool ready() const { return state_ == State::Ready; }
  // What was sent last has not left yet: send no more bulk until on_pg_drained(). Keeps what libpq buffers
  // (and moves about with each partial write) to one statement.
  bool congested() const { return congested_; }
  // Not ready, and all addresses have been tried in vain since it was ready last.
  bool away() const { return state_ != State::Ready && failed_rounds_ > 0; }
  std::size_t unanswered() const { return expected_.size(); }
  std::uint64_t reconnects() const { return times_ready_ > 0 ? times_ready_ - 1 : 0; }
  int server_pid() const;

  // Sends a prepared statement and its sync. Requires ready(). A loss found here is reported later, not
  // inside.
  void send(std::uint64_t tag, const char* statement, std::initializer_list<PgValue> values);

  // Gives the connection up and connects again. The client hears on_pg_lost(). Not inside on_pg_reply(): use
  // reconnect_soon() there.
  void reconnect(std::string_view why);
  void reconnect_soon(std::string_view why);

 private:
  enum class State : std::uint8_t {
    Idle,        // not started
    Waiting,     // for the next attempt
    Resolving,   // a thread looks names up
    Connecting,  // PQconnectPoll
    SettingUp,   // session settings, schema, prepared statements
    Ready,
  };

  struct Expected {
    std::uint64_t tag = 0;
    pg_result* result = nullptr;  // the last one before the sync, or the first error
  };

  // Shared with the lookup thread, which may outlive this object.
  struct Lookup;

  void on_events(std::uint32_t events) override;
  void on_heap_timer(HeapTimer& timer) override;
  void on_mail(std::vector<PgTarget> targets) override;

  void begin_attempt();
  void start_lookup();
  void wait_and_retry(Duration pause);
  void connect_next();
  void poll_connect();
  void register_socket();
  void begin_setup();
  void continue_setup();
  void send_prepares();
  void read_setup_results();
  void pump();
  bool socket_readable() const;
  void flush();
  void read_results();
  void read_notifications();
  void handle(pg_result* result);
  void on_synced();
  void become_ready();
  void attempt_failed(std::string_view why);
  void close();
  void lose(std::string_view why);
  std::string error_text() const;

  EventLoop& loop_;
  Log& log_;
  Rng rng_;
  const PgConnectionConfig config_;
  PgConnectionClient& client_;

  State state_ = State::Idle;
  std::vector<PgTarget> targets_;  // of this round; kept for when the lookup fails
  std::size_t next_target_ = 0;
  std::uint32_t failed_rounds_ = 0;
  Duration pause_{};
  std::uint64_t times_ready_ = 0;

  pg_conn* connection_ = nullptr;
  std::uint64_t era_ = 0;  // counts connections that were closed
  int fd_ = -1;
  SourceId source_;
  bool wants_write_ = false;  // Connecting: what PQconnectPoll waits for
  std::size_t setup_step_ = 0;
  std::deque<Expected> expected_;
  bool congested_ = false;
  bool was_congested_ = false;  // and the client has not been told of the end
  std::string lost_why_;        // set inside a call that must not report the loss; reported in this turn

  HeapTimer timer_;                 // Waiting: the pause; Connecting, SettingUp: the connect time-out
  HeapTimer reply_timer_;           // Ready: the oldest unanswered statement
  std::shared_ptr<Lookup> lookup_;  // a lookup is under way
  std::unique_ptr<Mailbox<std::vector<PgTarget>>> lookup_results_;
};

}  // namespace dlb::backend
