// OutlierMonitor: outlier ejection (L12) of the running process. Data workers tell it how exchanges came out,
// the control thread samples and judges once a second; what the OutlierDetector (policy/outlier.h) decides is
// published in the backends' atomics, logged and counted here.
//
//   any worker   succeeded(): a load or two, no store while all is well
//                failed(): an atomic count; from the 5th failure in a row on, or on probation, the detector
//   control      a sample of each backend a second; the end of a cooldown; checks that end ejections early
//
// The mutex guards Ejections (ejections.h), and is taken in the rare cases only.
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
#include "lb/ejections.h"
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
    if (Ejections::note_success(backend, picked)) note_recovery(backend, now);
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
  void take_over_ejections(TimePoint now);
  void note_recovery(Backend& backend, TimePoint now);
  void carry_out(std::uint32_t index, const OutlierDecision& decision, TimePoint now, std::string_view what);
  void tell(const Backend& backend, const OutlierDecision& decision, TimePoint now, std::string_view what);
  void sample(TimePoint now);
  void end_cooldowns(TimePoint now);

  EventLoop& loop_;
  BackendEvents& events_;
  Log& log_;
  bool check_ends_ejection_ = false;  // control thread only
  OutlierCounters counters_;
  Mailbox<std::uint32_t> mail_;
  HeapTimer sample_timer_;
  HeapTimer end_timer_;  // of the ejection that ends next

  std::mutex mutex_;
  Ejections ejections_;  // its backends: written by the control thread, which may read them without it
  std::vector<bool> cooldown_told_;  // by index: the end of its cooldown has been acted on
};

}  // namespace dlb::lb
