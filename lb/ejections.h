// Ejections: the OutlierDetector (policy/outlier.h) beside the backends' atomics: what it is told of them,
// and where its decisions are published. No thread, no lock, no clock, no log, so that the simulator runs
// what the balancer runs; lb/outlier_monitor.h adds those.
//
//   note_failure(), note_success()   any thread, at any time: atomics only. True: ask the detector
//   all else                         under one lock of the caller's
//
// A decision is carried out by carry_out(), so that the caller may count before anybody can see it.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "common/clock.h"
#include "lb/backend_set.h"
#include "lb/options.h"
#include "lb/policy/outlier.h"

namespace dlb::lb {

class Ejections {
 public:
  // `seed`: of the cooldowns' jitter.
  Ejections(const Options& options, const BackendSet& backends, std::uint64_t seed);

  // At the start: goes on with what the backends' atomics hold of another process's (lb/handover.h).
  void take_over(TimePoint now);

  // From now on, by these. Backends that stay keep their ejections; without ejection all end.
  void apply(const Options& options, const BackendSet& backends, TimePoint now);
  bool enabled() const { return enabled_.load(std::memory_order_relaxed); }

  // An exchange that was given to `backend` at `picked` failed. True: failed() is to be asked.
  bool note_failure(Backend& backend, TimePoint picked) const;
  // It got its whole answer, under 500. True: succeeded() is to be asked.
  static bool note_success(Backend& backend, TimePoint picked);

  // These only decide. None when another backend is in its place, or none yet: a worker may be a reload ahead
  // or behind.
  OutlierDecision failed(const Backend& backend, TimePoint now);
  OutlierDecision succeeded(const Backend& backend, TimePoint now);
  OutlierDecision end_early(std::uint32_t index, TimePoint began, TimePoint now);

  // Publishes what was decided about `index`.
  void carry_out(std::uint32_t index, const OutlierDecision& decision, TimePoint now);

  // Once a second: takes a sample of each backend's counters and judges each; `act` is given every decision
  // (index, decision), and carries it out before the next backend is judged.
  template <class Act>
  void sample(TimePoint now, Act&& act) {
    take_samples();
    for (std::uint32_t i = 0; i < backends_.size(); ++i) {
      const OutlierDecision decision = detector_.judge(i, peers_, now);
      backends_.at(i).ejection.times.store(detector_.times(i), std::memory_order_relaxed);
      if (decision.action != OutlierDecision::Action::None) act(i, decision);
    }
  }

  const OutlierDetector& detector() const { return detector_; }
  const BackendSet& backends() const { return backends_; }

 private:
  bool knows(const Backend& backend) const;
  void look_at_peers();
  void take_samples();
  void publish(std::uint32_t index, TimePoint judged_from);

  std::atomic<bool> enabled_{false};
  BackendSet backends_;
  OutlierDetector detector_;
  std::vector<OutlierPeer> peers_;  // scratch
};

}  // namespace dlb::lb
