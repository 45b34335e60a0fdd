// Lifecycle: when the process accepts and how it stops (L24). Runs on the main thread's loop, beside the
// signals.
//
//   Warming ──each backend checked once, or monitor-timeout──▶ Serving ──SIGTERM, SIGINT──▶ Notice
//   With [autoscale], Warming ends when one backend is up, or with start-timeout.
//   Notice: /lb/health says 503, requests are served with Connection: close ──drain-notice──▶ Draining
//   Draining: no new connections, what runs goes on, idle connections are closed when they have had
//   kIdleGrace since the signal to speak ──all requests done──▶ Tunnels, ──drain-timeout──▶ Refusing
//   Refusing: requests without an answer get one, those with half of one are cut
//   ──all gone, or kRefusing──▶ Tunnels
//   Tunnels: they are closed one by one, spread over tunnel-drain-timeout
//   ──▶ Cutting ──nothing left──▶ Stopped
//
// An upgrade (upgrade.h) hands over instead: straight to Draining, with every connection that idles left to
// its client for drain-timeout, since somebody else has the listening sockets.
//
// A second signal cuts at once. The listening socket is open from the start: who connects early waits in its
// backlog.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/event_loop.h"
#include "common/signals.h"
#include "common/timer_heap.h"
#include "lb/shared.h"
#include "lb/status_pages.h"

namespace dlb::lb {

// How many of `open` tunnels are still to be open when `left` of `total` time is left: all at first, none at
// the end, spread evenly. Pure.
std::uint64_t tunnels_to_keep(std::uint64_t open, Duration left, Duration total);

class Lifecycle final : public SignalHandler, public HeapTimerHandler {
 public:
  enum class State : std::uint8_t { Warming, Serving, Notice, Draining, Refusing, Tunnels, Cutting, Stopped };

  // Stops `loop` when it is over.
  Lifecycle(EventLoop& loop, TimerHeap& timers, Shared& shared, StatusPages& pages);

  void start();
  // Before start(): what is to be done as soon as this process accepts.
  void when_serving(std::function<void()> done) { when_serving_ = std::move(done); }
  // Another process accepts from now on: ends like a drain, without a notice.
  void hand_over();
  void on_signal(int signal_number) override;
  void on_heap_timer(HeapTimer& timer) override;

  State state() const { return state_; }
  bool handed_over() const { return handed_over_; }
  // Clients whose connection we have ended without an answer, and requests that we have answered ourselves,
  // since the drain was over.
  std::uint64_t connections_cut() const;
  std::uint64_t requests_refused() const;

 private:
  static constexpr Duration kPoll = std::chrono::milliseconds(10);
  static constexpr Duration kIdleGrace = std::chrono::milliseconds(250);
  // For those who have been refused to take their answer and close.
  static constexpr Duration kRefusing = std::chrono::seconds(1);

  std::shared_ptr<const Options> options() const;  // of the configuration in force
  void enter(State state);
  void tell_workers(WorkerMail::Kind kind);
  bool all_checked() const;
  std::uint64_t open_connections() const;
  std::uint64_t open_tunnels() const;
  void enter_tunnels_or_cut();
  void close_tunnels_due();

  EventLoop& loop_;
  Shared& shared_;
  StatusPages& pages_;
  HeapTimer timer_;
  TimePoint deadline_{};
  TimePoint close_idle_at_{};  // kNever: done
  bool handed_over_ = false;
  Duration tunnel_drain_timeout_{};
  State state_ = State::Warming;
  std::function<void()> when_serving_;
  std::vector<std::uint64_t> tunnels_;   // of each worker, when their turn came
  std::uint64_t connections_ended_ = 0;  // those whose request was refused, too
};

}  // namespace dlb::lb
