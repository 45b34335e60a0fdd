// Autoscale: [autoscale] at work (L25), on the control thread: each `interval` it shows the Autoscaler
// (policy/autoscaler.h) what it knows of the instances, and carries out what that decides, by the supervisor
// (processes), the reloader (backends of the configuration) and the admin axis (drains).
//
//   start    port ─▶ process ─▶ backend of the configuration ─▶ its first good check: traffic
//   drain    as an operator's; taken back when a request has come since the decision
//   stop     out of the configuration ─▶ every worker has taken that over, nothing runs on it ─▶ SIGTERM
//   ended    the supervisor says so ─▶ out of the configuration, if it is there still ─▶ the supervisor has
//            forgotten it: its port is free
//
// An upgrade freezes it: the new process finds the instances by asking the supervisor, whose socket it has
// been handed; when it fails, this one asks too and goes on. While the process drains nothing is decided; at
// its end the instances are ended, unless another has taken over, or this one never has.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/event_loop.h"
#include "common/mailbox.h"
#include "common/timer_heap.h"
#include "lb/autoscale_figures.h"
#include "lb/backend_events.h"
#include "lb/control.h"
#include "lb/instance_life.h"
#include "lb/policy/autoscaler.h"
#include "lb/predecessor.h"
#include "lb/reloader.h"
#include "lb/shared.h"
#include "lb/supervisor_link.h"

namespace dlb::lb {

// What start-up knows before there is a configuration: the supervisor and what it runs already.
struct AutoscaleStart {
  SupervisorLink link{};
  std::vector<SupervisedChild> children{};
};
// Takes the supervisor over that an upgrade has handed on, or starts one; nothing without [autoscale]. Adds
// the instances that run to options.backends. Before there are threads.
Result<AutoscaleStart> start_autoscale(Options& options, Fd handed_over, const OptionSources& sources,
                                       Log& log);

enum class AutoscaleMail : std::uint8_t { Thaw };

class Autoscale final : public HeapTimerHandler, public EventHandler, public MailboxHandler<AutoscaleMail> {
 public:
  // Before control.start(); destroyed after control.stop(). Everything must outlive it.
  Autoscale(AutoscaleStart start, const OptionSources& sources, Control& control, Reloader& reloader,
            Shared& shared, const Predecessor& predecessor, BackendEvents& events, AutoscaleFigures& figures);
  Autoscale(const Autoscale&) = delete;
  Autoscale& operator=(const Autoscale&) = delete;
  ~Autoscale();

  // Any thread, during an upgrade: nothing is decided or read from freeze() on, until thaw().
  void freeze();
  void thaw() { std::ignore = mail_.post(AutoscaleMail::Thaw); }
  // The supervisor's socket, for the process that takes over; -1: there is none. While frozen.
  int supervisor_fd() const { return link_ ? link_.fd() : -1; }

  // After control.stop(): ends the instances and waits for that.
  void end();

  void on_heap_timer(HeapTimer& timer) override;
  void on_events(std::uint32_t events) override;
  void on_mail(AutoscaleMail mail) override;

 private:
  // How far a stop has come.
  enum class Stop : std::uint8_t { No, Leaving, Told };
  struct Instance {
    std::uint16_t port = 0;
    InstanceLife life{};
    bool been_up = false;
    bool replaced = false;  // it is stopped whatever runs on it
    Stop stop = Stop::No;
    std::uint64_t left_with = 0;         // the serial of the configuration that is without it
    std::shared_ptr<Backend> backend{};  // also when it is in no configuration any more
    std::uint64_t requests_seen = 0;     // at the last turn
  };

  void turn();
  void take_state(const std::vector<SupervisedChild>& children);
  void hear();
  void forget(const Instance& one) const;
  void note_ended(const Instance& instance, const std::string& how);
  void lose_supervisor();
  void listen();
  InstanceFacts facts_of(Instance& instance, const Options& options, TimePoint now) const;
  void look_at_others(AutoscaleView& view, const Configuration& configuration, TimePoint now) const;
  void carry_out(const AutoscaleAction& action);
  void start_one(const std::string& reason);
  std::uint16_t free_port() const;
  bool drain(Instance& instance, bool anyway);
  void leave(Instance& instance);
  void finish_stops();
  void publish();
  void rest();
  void tell_figures();
  Instance* find(std::uint32_t port);
  void note(std::string_view action, std::string instance, std::string reason);

  const OptionSources sources_;
  Control& control_;
  Reloader& reloader_;
  Shared& shared_;
  const Predecessor& predecessor_;
  BackendEvents& events_;
  AutoscaleFigures& figures_;
  std::mutex mutex_;  // of all below: freeze() comes from another thread
  bool frozen_ = false;
  SupervisorLink link_;
  SourceId source_{};
  Autoscaler scaler_;
  std::vector<Instance> instances_;  // the eldest first
  std::uint32_t grace_told_ = 0;     // to the supervisor, in milliseconds
  std::uint16_t last_port_ = 0;      // that was given out
  HeapTimer timer_;                  // the next turn
  HeapTimer stop_timer_;             // while a stop waits for workers
  Mailbox<AutoscaleMail> mail_;
};

}  // namespace dlb::lb
