// Counting: which operations of a stage are counted. With a cool-down the load goes on behind the counted
// operations, so that the last of them still see all of it; what begins then is recorded apart, and told to
// nobody.
//
//   counted ── stop(): the duration is over, or the last planned operation was issued ──▶ uncounted
//
// An operation is judged once when it begins, and in the open model once when its time comes: of a plan by
// number, those behind it are uncounted at once. Pure. One thread.
#pragma once

#include <cstdint>
#include <memory>

#include "common/clock.h"
#include "loadgen/recorder.h"

namespace dlb::loadgen {

class Counting {
 public:
  // `requests` 0: no plan by number. `counted` outlives it.
  Counting(Recorder& counted, std::uint64_t requests, bool cool_down)
      : counted_(counted),
        requests_(requests),
        uncounted_(cool_down ? std::make_unique<Recorder>() : nullptr) {}

  // Open model: nothing that is intended for `end` or later is counted.
  void set_end(TimePoint end) { end_ = end; }
  // What begins from now on isn't counted. Requires a cool-down.
  void stop() { stopped_ = true; }
  bool stopped() const { return stopped_; }

  // The recorder of operation `index`, which begins now, or whose time has come.
  Recorder& of(std::uint64_t index, TimePoint intended) const {
    const bool behind = stopped_ || (requests_ > 0 && index >= requests_) || intended >= end_;
    return uncounted_ != nullptr && behind ? *uncounted_ : counted_;
  }
  // All of a plan by number has begun, or found the queue full.
  bool plan_issued() const {
    return requests_ > 0 && counted_.issued_count() + counted_.queue_full() >= requests_;
  }
  // Those that have begun have ended.
  bool counted_ended() const { return counted_.issued_count() == counted_.done(); }
  Recorder* uncounted() const { return uncounted_.get(); }  // null without a cool-down

 private:
  Recorder& counted_;
  std::uint64_t requests_;
  std::unique_ptr<Recorder> uncounted_;
  TimePoint end_ = kNever;
  bool stopped_ = false;
};

}  // namespace dlb::loadgen
