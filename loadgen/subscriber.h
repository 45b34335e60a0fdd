// Subscriber: one user of the chat in a run: registers, takes what comes, and is back where it was when the
// connection is lost.
//
//   Away ──▶ Connecting ──▶ Registering ──▶ Replaying ─resumed─▶ Live
//    ▲            └──────────────┴──────────────┴─────────────────┘ lost, or dropped as planned
//    └── at once the first time, else after 0–1 s at random
//
// It always registers with the sequence that it has come to, so nothing is missed and nothing comes twice. A
// publisher is a subscriber that is also given messages to send. On the run's loop; owned by Subscribers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/rng.h"
#include "common/timer_heap.h"
#include "loadgen/chat_protocol.h"
#include "loadgen/ws_client.h"

namespace dlb::loadgen {

class Subscribers;

class Subscriber final : public WsClientUser, public HeapTimerHandler {
 public:
  // `number` 0, 1, … names it; `group` is the number of its url, `stream` the oracle's.
  Subscriber(Subscribers& all, std::size_t number, std::size_t group, std::size_t stream);

  void connect();
  // It will leave at `when` without a word, and be back `away` later.
  void drop_at(TimePoint when, Duration away);
  bool live() const { return state_ == State::Live; }
  // Requires live().
  void send(std::string_view text) { socket_.send_text(text); }
  // For good, at the run's end.
  void leave();

  std::size_t stream() const { return stream_; }
  std::size_t number() const { return number_; }
  std::string name() const;

  void on_ws_open() override;
  void on_ws_text(std::string_view text) override;
  void on_ws_end(const WsClientEnd& end) override;
  void on_heap_timer(HeapTimer& timer) override;

 private:
  enum class State : std::uint8_t { Away, Connecting, Registering, Replaying, Live };

  void take(ServerSaid& said);
  void go_away(Duration time);

  static constexpr Duration kMaxAway = std::chrono::seconds(1);
  // From connect to the end of the replay.
  static constexpr Duration kJoinTimeout = std::chrono::seconds(30);
  static constexpr std::size_t kReadBytes = 16 * 1024;

  Subscribers& all_;
  std::size_t number_;
  std::size_t group_;
  std::size_t stream_;
  Rng rng_;
  WsClient socket_;
  HeapTimer wait_;  // Away: to connect; up to Live: to give up
  HeapTimer drop_;
  Duration away_{};
  State state_ = State::Away;
  bool was_live_ = false;
  TimePoint began_{};  // of the connect under way
  SignedRegistration registration_;
  TimePoint signed_at_{};
};

}  // namespace dlb::loadgen
