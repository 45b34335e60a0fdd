// WsSession: one WebSocket connection of a WsServer. Internal to ws_server.
//
//          peer's Close, its FIN, a fault, missed pong,          queue written,
//          close(), drain: our Close is queued                   peer's Close heard or not awaited
//   Open ────────────────────────────────────────────▶ Closing ────────────────────────────────▶ Lingering
//    │ the service is told of the end                     │ close_timeout                          │ FIN,
//    late └── broken, cut ──▶ Gone ◀───────────────────────────┴────────────────────────────────────────┘
//
// Reading pauses while the service wants it, and while the peer leaves too much unread. Input goes through
// the server's scratch block: a session keeps only what could not be decoded yet, and the message being
// collected.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "common/slab.h"
#include "common/timer_list.h"
#include "common/transport.h"
#include "common/ws_frame.h"
#include "common/ws_queue.h"
#include "common/ws_server.h"

namespace dlb {

// A route with what its sessions share.
struct WsServer::RouteEntry {
  RouteEntry(EventLoop& loop, WsRoute r) : route(std::move(r)), confirm(loop, route.confirm_timeout) {}

  WsRoute route;
  TimerList confirm;
};

class WsSession final : public EventHandler, public TimerHandler {
 public:
  WsSession(WsServer& server, WsServer::RouteEntry& entry, TakenConnection taken, Handle<WsSession> self);

  // Takes the connection's events and queues `switching`, the 101.
  void start(WsFramePtr switching);

  void on_events(std::uint32_t events) override;
  void on_timer(Timer& timer) override;

  // See WsServer. May close.
  bool send(WsFramePtr frame, WsQueue::Kind kind);
  void close(std::uint16_t code, std::string_view reason, WsEnd end);
  void confirm();
  void pause_reading() { paused_ = true; }
  void resume_reading();
  // Writes what is queued, within a turn's budget, and tells the service when that was all. May close.
  void flush();
  // Ends at once, with a Close where the socket takes it.
  void cut(std::uint16_t code, WsEnd end);
  // Without a word to the service: the server's destructor.
  void drop();

  WsToken token() const { return self_.pack(); }
  bool is_open() const { return state_ == State::Open; }
  std::size_t queued_bytes() const { return queue_.cost(); }
  bool flush_queued = false;  // in the server's list

 private:
  enum class State : std::uint8_t {
    Open,       // messages go both ways
    Closing,    // our Close is queued or out; data is dropped, the peer's Close awaited unless deaf_
    Lingering,  // our side is shut; what comes is dropped until the peer's FIN
    Gone,
  };

  void drive();
  void read_some();
  void decode_kept();
  std::size_t decode(std::span<char> bytes);
  void decode_fresh(std::span<char> bytes);
  void take_part(const WsPart& part);
  void take_data(const WsPart& part);
  void deliver(bool binary, std::string_view message);
  void take_close(const WsPart& part);
  void peer_finished();
  void drop_input();
  bool reading_held() const;
  bool write_some();
  bool is_over(std::size_t cost, WsQueue::Kind kind) const;
  void fail(std::uint16_t code);
  void abandon_queue(std::uint16_t code, std::string_view reason, WsEnd end);
  void leave_open(WsEnd end);
  void begin_closing();
  void after_writing();
  void linger();
  void gone(bool reset);
  void pong_late();
  void release_message();

  WsServer& server_;
  WsServer::Parts& parts_;
  WsServer::RouteEntry& entry_;
  const Handle<WsSession> self_;
  Transport transport_;
  Timer life_timer_;      // the next ping, or its pong
  Timer deadline_timer_;  // confirm(), later the close handshake
  WsDecoder decoder_;
  WsQueue queue_;
  std::string kept_;     // input that is not decoded yet, from kept_at_
  std::string message_;  // collected of a message that came in pieces
  std::size_t kept_at_ = 0;
  std::size_t collected_ = 0;  // of message_, as it is counted in the server
  std::size_t presented_ = 0;  // bytes that a TLS write was refused with: they must be presented again
  State state_ = State::Open;
  bool kept_whole_ = false;  // kept_ may hold whole frames
  bool paused_ = false;      // by the service
  bool deaf_ = false;        // nothing more of the peer's is decoded
  bool at_end_ = false;      // the peer's FIN has been read
  bool awaiting_pong_ = false;
  bool moved_in_ = false;   // bytes came since the last look
  bool moved_out_ = false;  // bytes went
  bool driving_ = false;
};

struct WsServer::Parts {
  Parts(EventLoop& loop, const WsServerOptions& options);

  static constexpr std::size_t kScratchBytes = 16 * 1024;

  TimerList ping;
  TimerList pong;
  TimerList close;
  WsFramePtr ping_frame;
  std::unique_ptr<char[]> scratch;      // input of the session that is reading
  std::deque<Handle<WsSession>> flush;  // sessions with something to write
  std::uint64_t collected = 0;
  Slab<WsSession> sessions;
};

}  // namespace dlb
