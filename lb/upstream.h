// Upstream: one connection to a backend. An exchange borrows it while it is Busy; between exchanges it idles
// in its worker's pool. Data moves in the exchange; here are its states, its registration and what an idle
// one may meet.
//
//   Connecting ──▶ Busy ⇄ Idle
//        └───────────┴──────┴──▶ Closed (fd closed, handle stale, destroyed at the end of the turn)
#pragma once

#include <cstdint>

#include "common/event_loop.h"
#include "common/handle.h"
#include "common/timer_list.h"
#include "common/transport.h"
#include "lb/backend_set.h"

namespace dlb::lb {

class Exchange;
class Worker;

class Upstream final : public EventHandler, public TimerHandler {
 public:
  enum class State : std::uint8_t { Connecting, Busy, Idle, Closed };

  Upstream(Worker& worker, std::uint32_t backend, TransportClass transport_class, Fd fd, bool connecting,
           Handle<Upstream> self);
  Upstream(const Upstream&) = delete;
  Upstream& operator=(const Upstream&) = delete;

  Result<void> attach();
  void on_events(std::uint32_t events) override;  // May close.
  void on_timer(Timer& timer) override;           // idle for too long. May close.

  // Lends it to `user`, which gets its events from now on.
  void lend(Exchange& user);
  // Into the pool's Idle state. The caller has put it into the pool.
  void rest();
  void mark_connected() { enter(State::Busy); }
  // True when nothing waits to be read: what is idle must stay silent. One syscall (a peek).
  bool peek_clean() const;
  void close();  // idempotent; leaves the pool when idle
  // Gives the socket of a Busy connection away and ends without closing it.
  Transport hand_over();

  Transport& transport() { return transport_; }
  State state() const { return state_; }
  std::uint32_t backend() const { return backend_; }
  TransportClass transport_class() const { return transport_class_; }
  Handle<Upstream> self() const { return self_; }
  bool reused() const { return exchanges_ > 1; }
  std::uint64_t idle_since_turn() const { return idle_since_turn_; }

 private:
  friend class UpstreamPool;

  void enter(State state);

  Worker& worker_;
  Exchange* user_ = nullptr;  // while Connecting or Busy
  Transport transport_;
  Timer idle_timer_;
  Handle<Upstream> self_;
  // The pool's list: most recently used first.
  Upstream* pool_prev_ = nullptr;
  Upstream* pool_next_ = nullptr;
  std::uint64_t idle_since_turn_ = 0;
  std::uint32_t backend_;
  std::uint32_t exchanges_ = 0;
  TransportClass transport_class_;
  State state_ = State::Closed;  // entered for good in the constructor
};

}  // namespace dlb::lb
