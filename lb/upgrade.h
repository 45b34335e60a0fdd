// Upgrade: SIGUSR2 starts the program's file anew beside this process, with the listening sockets handed over
// as systemd hands them over (L24). While the new process checks its backends, this one goes on accepting;
// from its word on the two change places: it accepts, this one drains and ends.
//
//   Idle ──request──▶ Starting ──"ready"──▶ HandedOver: Lifecycle drains; what is set there is followed here
//     ▲                  │
//     └── it ended, or said nothing for kReadyTimeout: it is ended, this one goes on as before
//
// No connection is lost: both processes hold the same sockets, so whoever waits in a backlog is taken by the
// one or the other. What the new one is told of the backends, and tells: handover.h. While it is starting
// nothing can be set, so that nothing is set in one of them only. Main thread.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "common/event_loop.h"
#include "common/fd.h"
#include "common/timer_heap.h"
#include "lb/backend_events.h"
#include "lb/lifecycle.h"
#include "lb/predecessor.h"
#include "lb/reload_figures.h"
#include "lb/reloader.h"
#include "lb/shared.h"

namespace dlb::lb {

class AdminServer;
class Autoscale;

// What a process that was started by an upgrade finds in its environment.
struct TakenOver {
  Fd socket;             // of Predecessor
  std::string backends;  // handover.h
  Fd supervisor;         // of [autoscale]; none: there was none

  // Reads and removes it; empty when this is no upgrade.
  static TakenOver from_environment();
};

class Upgrade final : public EventHandler, public HeapTimerHandler {
 public:
  // `more`: listening sockets besides Shared::listeners, borrowed. `admin`: whose requests the new process
  // takes; null: there is none. `autoscale`: likewise.
  Upgrade(EventLoop& loop, TimerHeap& timers, const OptionSources& sources, std::vector<int> more,
          AdminServer* admin, Autoscale* autoscale, const Predecessor& predecessor, BackendEvents& events,
          Shared& shared, Lifecycle& lifecycle, ReloadFigures& figures);
  Upgrade(const Upgrade&) = delete;
  Upgrade& operator=(const Upgrade&) = delete;
  ~Upgrade();

  void request();  // SIGUSR2
  // SIGHUP and SIGUSR1 while the new process is starting: it may have read the file already.
  void pass_on(int signal_number) const;
  // This process is to stop: so is the new one. False when that has just become ready: it has the sockets
  // now, and this one drains already.
  bool abandon();

  void on_events(std::uint32_t events) override;
  void on_heap_timer(HeapTimer& timer) override;

 private:
  static constexpr Duration kReadyTimeout = std::chrono::seconds(60);
  static constexpr Duration kEndTimeout = std::chrono::seconds(1);  // of a process that was killed

  pid_t start(int their_end, int text_fd);
  void succeeded();
  void failed(std::string_view why);
  void follow(std::string_view words);
  std::string end_child();  // how it has ended; empty: there was none
  void forget();

  EventLoop& loop_;
  const OptionSources sources_;
  const std::vector<int> more_;
  AdminServer* const admin_;
  Autoscale* const autoscale_;
  const Predecessor& predecessor_;
  BackendEvents& events_;
  Shared& shared_;
  Lifecycle& lifecycle_;
  ReloadFigures& figures_;
  const std::string program_;  // the file that this process was started from
  HeapTimer timer_;
  Fd socket_;  // to the new process, for as long as there is one
  SourceId source_;
  std::string words_;  // of it, up to a newline
  pid_t child_ = 0;    // while it is starting
};

}  // namespace dlb::lb
