// OutlierMonitor: outlier ejection (L12) of the running process. Data workers tell it how exchanges came out,
// the control thread samples and judges once a second; what the OutlierDetector (policy/outlier.h) decides is
// published in the backends' atomics, logged and counted here.
//
//   any worker   succeeded(): a load or two, no store while all is well
//                failed(): an atomic count; from the 5th failure in a row on, or on probation, the detector
//   control      a sample of each backend a second; the end of a cooldown; checks that end ejections early
//
// The mutex guards the detector, its rules and its view of the backends, and is taken in the rare cases only.
// What counts as failed: answers of 5xx, and exchanges that the backend reset, let time out or broke. Never
// 4xx, never a client that left, and no failed connects, which are HealthChecker's. Outcomes of requests that
// were given to a backend before its ejection ended say nothing new, and don't count.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "common/event_loop.h"
#include "common/log.h"
#include "common/mailbox.h"
#include "common/timer_heap.h"
#include "lb/backend_events.h"
#include "lb/backend_set.h"
#include "lb/options.h"
#include "lb/outlier_counters.h"
#include "lb/policy/outlier.h"

namespace dlb::lb {

class OutlierMonitor final : public HeapTimerHandler, public MailboxHandler<std::uint32_t> {
 public:
  static constexpr Duration kSampleInterval = std::chrono::seconds(1);

  // `seed`: of the cooldowns' jitter. The loop is the control thread's, which with all but options and
  // backends must outlive it.
  OutlierMonitor(EventLoop& loop, TimerHeap& timers, const Options& options, const BackendSet& backends,
                 BackendEvents& events, Log& log, std::uint64_t seed);
  OutlierMonitor(const OutlierMonitor&) = delete;
  OutlierMonitor& operator=(const OutlierMonitor&) = delete;

  // Control thread: from now on, by these. Backends that stay keep their ejections; without ejection all end.
  void apply(const Options& options, const BackendSet& backends);

  // Any thread: an exchange that was given to `backend` at `picked` got its whole answer, under 500.
  void succeeded(Backend& backend, TimePoint picked, TimePoint now) {
    // Read first: the words stay shared between workers while all is well.
    if (backend.ejection.failures_in_row.load(std::memory_order_relaxed) != 0) {
      backend.ejection.failures_in_row.store(0, std::memory_order_relaxed);
    }
    if (backend.ejected_until_ns.load(std::memory_order_relaxed) != 0) note_recovery(backend, picked, now);
  }
  // Any thread: it failed; `what` is for the log and the status page, such as `answered 500`.
  void failed(Backend& backend, TimePoint picked, TimePoint now, std::string_view what);
  // Control thread: an active check that began at `began` has passed; it has brought the backend up, or, when
  // that was up, ends an ejection by configuration only.
  void check_passed(std::uint32_t index, TimePoint began, TimePoint now, bool came_up);

  const OutlierCounters& counters() const { return counters_; }

  void on_heap_timer(HeapTimer& timer) override;
  void on_mail(std::uint32_t index) override;  // its ejection began, or is over

 private:
  void note_recovery(Backend& backend, TimePoint picked, TimePoint now);
  bool knows(const Backend& backend) const;
  void look_at_peers();
  void apply(std::uint32_t index, const OutlierDecision& decision, TimePoint now, std::string_view what);
  void publish(std::uint32_t index, TimePoint judged_from);
  void tell(const Backend& backend, const OutlierDecision& decision, TimePoint now, std::string_view what);
  void sample(TimePoint now);
  void end_cooldowns(TimePoint now);

  EventLoop& loop_;
  BackendEvents& events_;
  Log& log_;
  std::atomic<bool> enabled_{false};
  bool check_ends_ejection_ = false;  // control thread only
  OutlierCounters counters_;
  Mailbox<std::uint32_t> mail_;
  HeapTimer sample_timer_;
  HeapTimer end_timer_;  // of the ejection that ends next

  std::mutex mutex_;
  BackendSet backends_;  // written by the control thread, which may read it without the mutex
  OutlierDetector detector_;
  std::vector<OutlierPeer> peers_;   // scratch
  std::vector<bool> cooldown_told_;  // by index: the end of its cooldown has been acted on
};

}  // namespace dlb::lb
