// Connection: one client connection that performs one HTTP exchange after the other for its user.
//
//   Connecting ──▶ (Handshaking, with TLS) ──▶ Idle ──send──▶ Exchanging ──▶ Idle …     Closed, from anywhere
//
// It knows bytes and framing, not what they mean: heads (interim ones skipped), bodies by length, chunked or
// to the end of the connection, keep-alive or not, one deadline for connect and exchange together. Failures
// are reported once, by on_end(), never from inside send(). Bytes pass through one scratch buffer of the
// loop; a connection keeps bytes of its own only when a head or a chunk line was cut, or a request could not
// be written whole.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/chunked.h"
#include "common/event_loop.h"
#include "common/handle.h"
#include "common/http_parser.h"
#include "common/timer_list.h"
#include "common/transport.h"
#include "loadgen/target.h"

namespace dlb::loadgen {

class Connection;

enum class ExchangeEnd : std::uint8_t {
  Complete,       // the whole response was read
  ConnectFailed,  // no connection: refused, unreachable, no TLS, not within the deadline
  TimedOut,       // connected, and the response was not whole at the deadline
  Reset,          // closed or reset before a whole response head was there
  ShortBody,      // closed or reset behind the head, before the body's end
  Malformed,      // not HTTP, or broken framing
};

class ConnectionUser {
 public:
  // Connected, behind the handshake with TLS: send() may be called. May close.
  virtual void on_connected(Connection& connection) = 0;
  // The final response's head; views die with the call.
  virtual void on_head(Connection& connection, const ResponseHead& head) = 0;
  virtual void on_body(Connection& connection, std::string_view bytes) = 0;
  // The exchange, or the connect, is over. With Complete the connection may be open: then it is idle and may
  // be used again, at once too. Else it is closed; `err` is the errno if there was one, 0 for an orderly
  // close by the peer.
  virtual void on_end(Connection& connection, ExchangeEnd end, int err) = 0;
  // The server closed an idle connection, or sent bytes that nobody asked for. It is closed already.
  virtual void on_idle_close(Connection& connection) = 0;

 protected:
  ~ConnectionUser() = default;
};

// How many connections failed for one reason that no errno tells.
struct CountedReason {
  std::string text;
  std::uint64_t times = 0;
};

// What all connections of one loop share.
struct ConnectionContext {
  ConnectionContext(EventLoop& event_loop, Duration request_timeout, Duration response_read_delay)
      : loop(event_loop),
        scratch(kScratchBytes),
        deadlines(event_loop, request_timeout),
        read_delays(event_loop, response_read_delay),
        paces(event_loop, kPace) {}

  static constexpr std::size_t kScratchBytes = 256 * 1024;
  static constexpr Duration kPace = std::chrono::milliseconds(100);  // between two reads of a slow reader
  static constexpr std::size_t kMaxReasons = 16;                     // further ones are counted as "other"

  // A TLS handshake has failed.
  void count_tls_failure(std::string_view reason);

  EventLoop& loop;
  HeadParser parser;
  ResponseHead head;
  std::vector<char> scratch;
  TimerList deadlines;
  TimerList read_delays;
  TimerList paces;
  const TlsContext* tls = nullptr;  // for https targets; borrowed
  std::vector<CountedReason> tls_failures;
  bool deadline_is_idle_time = false;  // the deadline starts anew with every byte received
  std::uint64_t stray_bytes = 0;       // received behind a response or on an idle connection
  std::uint64_t connections_opened = 0;
};

// How one connection is made.
struct ConnectShape {
  const Address* source = nullptr;  // local address; null: the system's choice
  // It reads no more in a kPace, through a small receive buffer; 0: as it comes.
  std::size_t bytes_per_pace = 0;
};

class Connection final : public EventHandler, public TimerHandler {
 public:
  Connection(ConnectionContext& context, ConnectionUser& user, Handle<Connection> handle)
      : context_(context),
        user_(&user),
        handle_(handle),
        deadline_(*this),
        read_delay_(*this),
        pace_(*this) {}
  ~Connection() { close(); }

  Handle<Connection> handle() const { return handle_; }
  void set_user(ConnectionUser& user) { user_ = &user; }

  // Starts the connect (and behind it the handshake, when the target has TLS): 0, and the outcome comes later
  // by on_connected() or on_end(); or the errno of a connect that failed at once (no descriptor, no local
  // port): then the connection is closed and nothing else comes.
  [[nodiscard]] int connect(const Target& target, const ConnectShape& shape = {});
  // Connected, and nothing is sent for now: the deadline begins anew with send().
  void rest();

  // Sends a request on an idle connection. The bytes are copied if they can't all be written now.
  void send(std::string_view request, HttpMethod method);

  void close();  // without any report; idempotent

  bool idle() const { return state_ == State::Idle; }
  bool closed() const { return state_ == State::Closed; }

  // Facts of the exchange that runs or has just ended.
  TimePoint started_at() const { return started_at_; }      // just before the first byte was written
  TimePoint head_at() const { return head_at_; }            // when the read that completed the head returned
  TimePoint last_byte_at() const { return last_byte_at_; }  // when the latest read returned
  bool reused() const { return exchanges_ > 1; }
  std::uint64_t exchanges() const { return exchanges_; }  // so far, with the one that runs
  bool head_received() const { return head_done_; }
  bool any_byte_received() const { return any_byte_received_; }

  void on_events(std::uint32_t events) override;
  void on_timer(Timer& timer) override;

 private:
  enum class State : std::uint8_t {
    New,          // not connected yet
    Connecting,   // connect() runs
    Handshaking,  // connected, TLS is being agreed on
    Idle,         // connected, no exchange
    Exchanging,   // from send() to the last byte of the response
    Closed,
  };

  void finish_connect();
  void shake_hands();
  void ready();
  void write_some(std::string_view bytes);
  void check_idle();
  void write_rest();
  void read_some();
  // They take what they can of `bytes` and keep a cut rest in pending_; false once the exchange is over
  // (closed perhaps, or already in its next exchange).
  bool take_bytes(std::string_view bytes);
  bool take_head(std::string_view& bytes);
  bool take_counted(std::string_view bytes);
  bool take_chunked(std::string_view bytes);
  void end_of_input(int err);
  void complete(std::string_view rest);
  void fail(ExchangeEnd end, int err);

  static constexpr int kReadsPerTurn = 4;
  static constexpr int kMaxInterim = 64;
  static constexpr HeadLimits kHeadLimits{64 * 1024, 8 * 1024};

  ConnectionContext& context_;
  ConnectionUser* user_;
  Handle<Connection> handle_;
  Transport transport_;
  Timer deadline_;
  Timer read_delay_;
  Timer pace_;
  std::string server_name_;  // of a target with TLS, else empty
  std::size_t bytes_per_pace_ = 0;
  std::string unsent_;   // rest of a request
  std::string pending_;  // received bytes that can't be understood yet
  std::size_t scanned_ = 0;
  ChunkDecoder chunks_;
  std::uint64_t body_left_ = 0;
  std::uint64_t exchanges_ = 0;
  TimePoint started_at_{};
  TimePoint head_at_{};
  TimePoint last_byte_at_{};
  int interim_ = 0;
  State state_ = State::New;
  HttpMethod method_ = HttpMethod::Get;
  BodyFraming framing_ = BodyFraming::None;
  bool keep_alive_ = false;
  bool head_done_ = false;
  bool any_byte_received_ = false;
  bool write_failed_ = false;
};

}  // namespace dlb::loadgen
