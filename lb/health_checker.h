// HealthChecker: the one owner of "up" and "down". Asks each backend at its interval (L9), takes what data
// workers say of failed connects (L10), and publishes the result in the backend's atomics.
//
//   active   health-path each health-interval, on a connection of its own, at most one at a time per backend,
//   one deadline
//            from connect to verdict. A streak (policy/health_streak.h) turns verdicts into up and down.
//   passive  failure-limit failed connects in a row take a backend out at once, until a check that began
//   later succeeds.
//            The active streak is never moved by traffic.
//
//   healthy = active streak is up, and not out by failed connects
//
// The rules are backend_health.h's, which knows no socket. A check answered 503 with {"status":"draining"} is
// neither success nor failure: the backend leaves the rotation on its own word and comes back when a check
// says otherwise.
//
// Checks run on the control loop; note_connect_*() on any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/event_loop.h"
#include "common/log.h"
#include "common/mailbox.h"
#include "common/timer_heap.h"
#include "lb/backend_events.h"
#include "lb/backend_health.h"
#include "lb/backend_set.h"
#include "lb/options.h"
#include "lb/policy/health_streak.h"
#include "lb/shared.h"

namespace dlb::lb {

class OutlierMonitor;

// The verdict of an HTTP check from its answer: 2xx and 3xx pass, 503 with {"status":"draining"} drains.
// Pure.
CheckVerdict judge_answer(int status, std::string_view body);

class HealthChecker final : public PassiveHealth, public MailboxHandler<std::uint32_t> {
 public:
  // Sends the first check of every backend at once, further ones spread over the interval.
  // `options` and `backends` must outlive it, or the next apply().
  HealthChecker(EventLoop& loop, TimerHeap& timers, const Options& options, const BackendSet& backends,
                BackendEvents& events, Log& log);
  HealthChecker(const HealthChecker&) = delete;
  HealthChecker& operator=(const HealthChecker&) = delete;
  ~HealthChecker();

  // Checks that pass are told to `outliers` from now on. Before the first.
  void tell_of_passes(OutlierMonitor& outliers) { outliers_ = &outliers; }
  // From now on, by these: checks of backends that stay keep their streak and, unless the interval is another
  // one, their time; new backends are checked at once; those that are gone no more.
  void apply(const Options& options, const BackendSet& backends);

  // Any thread.
  void note_connect_failure(Backend& backend, int err) override;
  void note_connect_success(Backend& backend) override;

  // A data worker's failed connects have taken a backend out.
  void on_mail(std::uint32_t backend) override;

 private:
  class Check;

  void finished(std::uint32_t index, const CheckVerdict& verdict, TimePoint began, TimePoint now);
  void log_panic();
  void publish(std::uint32_t index, const CheckVerdict& verdict, bool more_capacity);

  EventLoop& loop_;
  TimerHeap& timers_;
  const Options* options_;
  const BackendSet* backends_;
  BackendEvents& events_;
  Log& log_;
  OutlierMonitor* outliers_ = nullptr;
  std::atomic<std::uint32_t> failure_limit_;  // for the data workers
  Mailbox<std::uint32_t> passive_mail_;
  std::vector<std::unique_ptr<Check>> checks_;  // by index; null: gone
  bool panic_ = false;                          // as last logged
};

}  // namespace dlb::lb
