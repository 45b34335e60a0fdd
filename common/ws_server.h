// WsServer: WebSocket sessions on one loop, on connections that HttpServers give away after an upgrade. It
// owns connections, framing, queues, pings, limits and closing; a WsService per route says what messages
// mean.
//
//   HttpServer ──request──▶ upgrade() ──no──▶ an HTTP answer (400, 403, 405, 426, 503)
//                              │ 101
//                              ▼
//                  on_open ── on_text / on_binary … on_writable ── on_close (exactly once)
//
//   Open ──either side's Close, a fault, a missed pong, drain──▶ Closing ──said, heard or late──▶ gone
//     └────────── cut: slow consumer, broken connection, cut_all() ──────────────────────────────▶
//
// A message comes whole. What is sent is queued, gathered for the rest of the turn and written by writev from
// shared frames. A peer that does not read stops being read (its pings and answers stay bounded), and is cut
// when its queue is full. An idle session holds no buffer. Loop thread only; nothing throws.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/address.h"
#include "common/clock.h"
#include "common/event_loop.h"
#include "common/http_server.h"
#include "common/ws_frame.h"

namespace dlb {

// Names one session; never 0, never resolves again once the session has begun to close: every call for it
// does nothing then. It may sit in queues, mailboxes and database callbacks.
using WsToken = std::uint64_t;

// Valid only during on_open(): copy what is needed later.
struct WsOpen {
  std::string_view path;  // of the request target
  std::string_view query;
  std::string_view origin;  // empty: none (no browser)
  const Address& peer;      // by the PROXY header where one is read
  bool tls = false;
};

// Why a session ended.
enum class WsEnd : std::uint8_t {
  PeerClosed,     // by a Close frame, or cleanly by FIN
  Broken,         // the connection broke
  ProtocolError,  // 1002, 1003, 1007, 1009: the peer's frames
  ByService,      // close()
  SlowConsumer,   // its queue was full: 1013 if it could be sent
  Overload,       // all sessions together had too much of unfinished messages: 1013
  MissedPong,     // 1008
  NotConfirmed,   // confirm() did not come in time: 1008
  Drained,        // 1001
};

class WsService {
 public:
  // A session of this service's route is open; sending may begin.
  virtual void on_open(WsToken token, const WsOpen& open) = 0;
  // One whole text message, valid UTF-8; the view holds during the call only.
  virtual void on_text(WsToken token, std::string_view text) = 0;
  // Likewise binary; only on routes with `accept_binary`.
  virtual void on_binary(WsToken, std::string_view) {}
  // The queue ran empty after something had been in it: paced replays go on.
  virtual void on_writable(WsToken token) = 0;
  // Exactly once for each on_open(), soon after the session began to close, and never from inside a call of
  // WsServer's. `token` resolves no more. Not called by the server's destructor.
  virtual void on_close(WsToken token, WsEnd end) = 0;

 protected:
  ~WsService() = default;
};

// What the sessions of some paths have in common.
struct WsRoute {
  std::vector<std::string> paths;              // exact
  WsService* service = nullptr;                // outlives the server
  std::size_t max_message_bytes = 512 * 1024;  // the sum of a message's fragments; over it 1009
  bool accept_binary = false;                  // else 1003
  // Most unsent bytes of send(): over it the session is cut; of send_answer(): over it refused. One frame
  // may be larger while nothing waits.
  std::size_t queue_max_bytes = 1024 * 1024;
  Duration confirm_timeout{};  // from on_open() to confirm(); zero: none is asked for
};

struct WsServerOptions {
  std::size_t max_sessions = 2000;                     // 0: no limit; over it the upgrade gets 503
  std::size_t max_collected_bytes = 64 * 1024 * 1024;  // of all unfinished messages together: 1013
  Duration ping_interval = std::chrono::seconds(25);   // zero: no pings
  Duration pong_timeout = std::chrono::seconds(8);     // behind a ping; zero: for ever
  Duration close_timeout = std::chrono::seconds(2);    // from our Close to the peer's, then cut
  std::vector<std::string> origins{};  // browsers must come from one of these, compared exactly; empty: any
};

struct WsServerCounters {
  std::uint64_t opened = 0;
  std::uint64_t refused_origin = 0;    // 403
  std::uint64_t refused_full = 0;      // 503 at max_sessions
  std::uint64_t refused_draining = 0;  // 503
  std::uint64_t refused_request = 0;   // 400, 405, 426
  std::uint64_t messages_read = 0;
  std::uint64_t messages_sent = 0;  // frames of send(), send_answer(), send_text() that were queued
  std::uint64_t pings_read = 0;
  std::uint64_t pings_sent = 0;
  std::uint64_t bytes_read = 0;  // frames only, below TLS
  std::uint64_t bytes_written = 0;
  std::uint64_t answers_refused = 0;  // send_answer() over the limit
  // Ends; together with the open sessions they sum up to `opened`.
  std::uint64_t ended_by_peer = 0;
  std::uint64_t ended_broken = 0;
  std::uint64_t ended_protocol = 0;
  std::uint64_t ended_by_service = 0;
  std::uint64_t ended_slow = 0;
  std::uint64_t ended_overload = 0;
  std::uint64_t ended_pong = 0;
  std::uint64_t ended_unconfirmed = 0;
  std::uint64_t ended_drained = 0;
  std::uint64_t close_timeouts = 0;  // cut since the close handshake did not end in time
};

class WsSession;

class WsServer final : public TimerSource, public TurnEndHook {
 public:
  // `loop` must outlive the server.
  WsServer(EventLoop& loop, WsServerOptions options);
  WsServer(const WsServer&) = delete;
  WsServer& operator=(const WsServer&) = delete;
  ~WsServer();  // closes all connections without telling the services

  // Before the first request. A path stands in one route only.
  void add_route(WsRoute route);

  // From HttpService::on_request(), for a request with no body in progress at `http`. False: the request is
  // none of ours (its path is in no route, or it is `/`, which also has a page, and asks for no WebSocket):
  // answer it. True: it was answered, or its connection is a session now. OPTIONS is not for here.
  bool upgrade(HttpServer& http, HttpToken token, const HttpRequest& request);

  // Queues a frame for everyone's kind of traffic: when the queue is full the session is cut as a slow
  // consumer. False when the session is gone, also by this.
  bool send(WsToken token, const WsFramePtr& frame);
  // Queues what the peer has asked for (history, echoes, errors): it never counts as a slow consumer. False
  // when the session is gone, or its answers are full: go on at on_writable().
  bool send_answer(WsToken token, const WsFramePtr& frame);
  // send_answer() of one text frame made for this peer alone.
  bool send_text(WsToken token, std::string_view text);
  // Starts the close handshake behind what is queued; nothing is delivered any more. The reason is cut to
  // fit.
  void close(WsToken token, std::uint16_t code, std::string_view reason);

  std::size_t queued_bytes(WsToken token) const;  // unsent, of all kinds; 0 for a session that is gone
  bool is_open(WsToken token) const;
  // The session has done what confirm_timeout waits for.
  void confirm(WsToken token);
  // No message is delivered until resume_reading(): how a service takes one at a time. Pings wait too.
  void pause_reading(WsToken token);
  void resume_reading(WsToken token);

  // From now on upgrades get 503 and the sessions get 1001, spread evenly over `spread`.
  void begin_drain(Duration spread);
  // Ends what is left at once, with a 1001 where it can still be sent; returns how many sessions it cut.
  std::size_t cut_all();

  std::size_t open_sessions() const { return open_; }
  // Sessions in their close handshake: connections that still exist, but are nobody's any more.
  std::size_t closing_sessions() const;
  std::uint64_t collected_bytes() const;  // of unfinished messages
  const WsServerCounters& counters() const { return counters_; }
  const WsServerOptions& options() const { return options_; }

  TimePoint next_deadline() const override;
  void expire(TimePoint now) override;
  void on_turn_end() override;

 private:
  friend class WsSession;
  struct Parts;  // what sessions share: timer lists, the slab, scratch space
  struct Ended {
    WsService* service;
    WsToken token;
    WsEnd end;
  };

  struct RouteEntry;  // a route and its sessions' timers

  RouteEntry* find_route(std::string_view path) const;
  bool is_full() const;
  WsSession* find_open(WsToken token) const;
  void note_end(WsService& service, WsToken token, WsEnd end);
  bool refuse(HttpServer& http, HttpToken token, int status, std::string_view code, std::string_view detail);
  void want_flush(Handle<WsSession> session);
  void flush_some();
  void tell_ended();
  void drain_some(TimePoint now);
  TimePoint next_drain() const;

  EventLoop& loop_;
  WsServerOptions options_;
  std::vector<std::unique_ptr<RouteEntry>> routes_;
  WsServerCounters counters_;
  std::unique_ptr<Parts> parts_;
  std::size_t open_ = 0;
  std::vector<Ended> ended_;  // to be told at the end of the turn
  bool draining_ = false;
  TimePoint drain_begin_{};
  Duration drain_spread_{};
  std::size_t drain_total_ = 0;  // sessions that were open at its begin
  std::vector<WsToken> drain_waiting_;
};

}  // namespace dlb
