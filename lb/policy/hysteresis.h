// Hysteresis: a switch that turns on at a limit and off again only some points below it, so that a value that
// hovers about the limit does not flap. Pure.
//
//            value ≥ limit
//     off ─────────────────▶ on
//      ▲                      │
//      └──────────────────────┘
//        value ≤ limit - gap
#pragma once

namespace dlb::lb {

class Hysteresis {
 public:
  constexpr Hysteresis(double limit, double gap) : limit_(limit), gap_(gap) {}

  // Takes a new value (below 0: unknown, nothing changes) and returns whether the switch is on.
  constexpr bool update(double value) {
    if (value < 0) return on_;
    if (value >= limit_) {
      on_ = true;
    } else if (value <= limit_ - gap_) {
      on_ = false;
    }
    return on_;
  }
  constexpr void set_limit(double limit) { limit_ = limit; }  // of the values from now on
  constexpr bool on() const { return on_; }
  constexpr void reset() { on_ = false; }

 private:
  double limit_;
  double gap_;
  bool on_ = false;
};

// The two guards over one backend's memory (L3). Both judge what cannot be reclaimed, in percent of the
// tightest limit.
class BackendMemoryGuards {
 public:
  static constexpr double kMemoryGap = 5;       // points under max-memory
  static constexpr double kTotalMemoryGap = 4;  // points under max-total-memory

  constexpr BackendMemoryGuards(double max_memory, double max_total_memory)
      : memory_(max_memory, kMemoryGap), total_(max_total_memory, kTotalMemoryGap) {}

  // Below 0: unknown, the last judgement stands. Returns whether the backend is blocked.
  constexpr bool update(double unreclaimable_percent) {
    const bool memory = memory_.update(unreclaimable_percent);
    const bool total = total_.update(unreclaimable_percent);
    return memory || total;
  }
  // Of the figures from now on.
  constexpr void set_limits(double max_memory, double max_total_memory) {
    memory_.set_limit(max_memory);
    total_.set_limit(max_total_memory);
  }
  constexpr bool blocked() const { return memory_.on() || total_.on(); }
  constexpr void reset() {
    memory_.reset();
    total_.reset();
  }

 private:
  Hysteresis memory_;
  Hysteresis total_;
};

}  // namespace dlb::lb
