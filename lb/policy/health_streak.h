// HealthStreak: rise and fall of one backend by its active checks (L9). `failure-limit` failures in a row
// take it out, the first success brings it back. A backend that was never up needs no streak to be down.
// Pure; traffic never moves it.
//
//              success                    failure × limit in a row
//   Unknown ────────────▶ Up ───────────────────────────────────────▶ Down
//      │                  ▲                                            │
//      │                  └──────────────────── success ───────────────┘
//      └── failure ──▶ Down
#pragma once

#include <cstdint>

namespace dlb::lb {

enum class HealthState : std::uint8_t { Unknown, Up, Down };

class HealthStreak {
 public:
  explicit constexpr HealthStreak(std::uint32_t failure_limit, HealthState known = HealthState::Unknown)
      : limit_(failure_limit == 0 ? 1 : failure_limit), state_(known) {}

  // Takes a check's verdict; true when the state has changed.
  constexpr bool record(bool passed) {
    const HealthState before = state_;
    if (passed) {
      failures_in_row_ = 0;
      state_ = HealthState::Up;
    } else {
      ++failures_in_row_;
      if (state_ == HealthState::Unknown || failures_in_row_ >= limit_) state_ = HealthState::Down;
    }
    return state_ != before;
  }

  // Of the verdicts from now on.
  constexpr void set_limit(std::uint32_t failure_limit) { limit_ = failure_limit == 0 ? 1 : failure_limit; }

  constexpr HealthState state() const { return state_; }
  constexpr std::uint32_t failures_in_row() const { return failures_in_row_; }

 private:
  std::uint32_t limit_;
  std::uint32_t failures_in_row_ = 0;
  HealthState state_ = HealthState::Unknown;
};

}  // namespace dlb::lb
