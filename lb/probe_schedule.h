// ProbeSchedule: when one backend's checks (or polls) are due. The first at once; the others keep a grid of
// `interval` whose offset differs from backend to backend, so that they spread over the interval. The first
// gap is never longer than one interval. Pure.
#pragma once

#include <cstdint>

#include "common/clock.h"

namespace dlb::lb {

class ProbeSchedule {
 public:
  // For backend `index` of `count`; requires index < count and interval > 0.
  ProbeSchedule(TimePoint start, Duration interval, std::uint32_t index, std::size_t count)
      : interval_(interval),
        next_(start),
        offset_(interval * static_cast<std::int64_t>(index + 1) / static_cast<std::int64_t>(count)) {}

  TimePoint next() const { return next_; }
  Duration interval() const { return interval_; }

  // From now on, for backend `index` of `count`: the next tick comes within one new interval of `now`.
  void change(TimePoint now, Duration interval, std::uint32_t index, std::size_t count) {
    interval_ = interval;
    offset_ = interval * static_cast<std::int64_t>(index + 1) / static_cast<std::int64_t>(count);
    if (!first_) next_ = now + offset_;
  }

  // The tick that was due has been taken at `now`. Ticks that have been missed altogether are left out.
  void advance(TimePoint now) {
    next_ += first_ ? offset_ : interval_;
    first_ = false;
    if (next_ <= now) next_ += interval_ * ((now - next_) / interval_ + 1);
  }

 private:
  Duration interval_;
  TimePoint next_;
  Duration offset_;
  bool first_ = true;
};

}  // namespace dlb::lb
