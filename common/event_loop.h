// EventLoop: one thread's epoll, its clock, its timers and its turn.
//
//   one turn:  wait ──▶ now ──▶ events (stale ones dropped and counted) ──▶ runnable list ──▶ timers ──▶
//   turn-end hooks
//
// Every fd is registered once, edge-triggered, and never modified. Its owner keeps *want* and *ready* per
// direction (see transport.h): an edge sets ready, EAGAIN or a short transfer clears it, and after its own
// back-pressure an owner goes on by itself, since no event will come for bytes that are already there.
//
//                     │ not ready              │ ready
//   ──────────────────┼────────────────────────┼──────────────────────────────────────────
//   not wanted        │ nothing                │ nothing: the kernel's buffer is the queue
//   wanted            │ wait for the edge      │ transfer now, within the turn's budget; over it:
//   make_runnable()
//
// Destruction: an owner closes at once (remove(), close the fd), which makes events of that fd that are still
// in this turn's batch stale; memory is given back by turn-end hooks (Slab::reap). One thread only, except
// stop() and wake().
#pragma once

#include <sys/epoll.h>

#include <atomic>
#include <cstdint>
#include <vector>

#include "common/clock.h"
#include "common/fd.h"
#include "common/result.h"

namespace dlb {

// The owner of a registered fd. `events` are EPOLL* bits, 0 when it runs because of make_runnable(). May
// close.
class EventHandler {
 public:
  virtual void on_events(std::uint32_t events) = 0;

 protected:
  ~EventHandler() = default;
};

// A set of deadlines that the loop asks each turn: TimerList, TimerHeap.
class TimerSource {
 public:
  virtual TimePoint next_deadline() const = 0;  // kNever when empty
  virtual void expire(TimePoint now) = 0;       // fires all that is due

 protected:
  ~TimerSource() = default;
};

// Runs at the end of each turn: reaping slabs, flushing what a turn has gathered.
class TurnEndHook {
 public:
  virtual void on_turn_end() = 0;

 protected:
  ~TurnEndHook() = default;
};

// Names a registration. A default one names nothing; one that was removed never matches again.
struct SourceId {
  std::uint32_t index = 0;
  std::uint32_t generation = 0;
  explicit operator bool() const { return generation != 0; }
};

struct EventLoopCounters {
  std::uint64_t turns = 0;
  std::uint64_t events = 0;
  std::uint64_t stale_events = 0;  // for an fd closed earlier in the same batch
  std::int64_t turn_ns_max = 0;    // longest turn without its wait, since start
  std::uint64_t turns_over_5ms = 0;
};

class EventLoop {
 public:
  static constexpr std::uint32_t kConnectionEvents = EPOLLIN | EPOLLPRI | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  // A listening socket shared by workers: EPOLLEXCLUSIVE refuses EPOLLRDHUP.
  static constexpr std::uint32_t kListenerEvents = EPOLLIN | EPOLLET | EPOLLEXCLUSIVE;
  static constexpr std::uint32_t kReadOnlyEvents = EPOLLIN | EPOLLET;

  EventLoop();  // aborts when epoll or eventfd can't be made (start-up, before any client)
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;
  ~EventLoop();

  // The turn's time: read once after the wait. Use it for every deadline and duration on this loop.
  TimePoint now() const { return now_; }

  // Registers `fd` for good. `handler` must live until remove(). Fails only as epoll_ctl does (ENOSPC,
  // ENOMEM, EPERM).
  Result<SourceId> add(int fd, EventHandler& handler, std::uint32_t events = kConnectionEvents);

  // From now on `handler` gets its events, also those that are still in this turn's batch: how a connection
  // changes its owner.
  void rebind(SourceId id, EventHandler& handler);

  // Forgets the registration; call it before closing the fd. Does not call epoll_ctl when `closing` (close()
  // does the work); pass false to keep the fd open. Idempotent; an unknown id is ignored.
  void remove(SourceId id, int fd, bool closing = true);

  // Calls handler.on_events(0) in the next round of this turn's runnable list, without sleeping in between.
  void make_runnable(SourceId id);

  void add_timer_source(TimerSource& source);
  void remove_timer_source(TimerSource& source);
  void add_turn_end_hook(TurnEndHook& hook);
  void remove_turn_end_hook(TurnEndHook& hook);

  // Runs until stop(). run_once() does one turn, waiting at most `longest_wait`.
  void run();
  void run_once(Duration longest_wait);

  // Thread-safe and async-signal-safe.
  void stop();
  void wake();

  const EventLoopCounters& counters() const { return counters_; }

 private:
  struct Source {
    EventHandler* handler = nullptr;
    std::uint32_t generation = 1;
    std::uint32_t next_free = 0;
    bool runnable = false;
  };

  Source* find(SourceId id);
  int wait_ms(Duration longest_wait) const;
  void run_runnables();
  void run_timers();

  Fd epoll_;
  Fd wake_;
  TimePoint now_;
  std::vector<Source> sources_;
  std::uint32_t free_head_;
  std::vector<SourceId> runnable_;
  std::vector<SourceId> runnable_now_;
  std::vector<TimerSource*> timer_sources_;
  std::vector<TurnEndHook*> hooks_;
  std::vector<epoll_event> batch_;
  std::atomic<bool> stop_{false};
  EventLoopCounters counters_;
};

}  // namespace dlb
