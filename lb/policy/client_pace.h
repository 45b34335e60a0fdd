// ClientPace: whether a client is too slow to be served (client-min-rate, L6). Counts only the time in which
// the client is the one who owes: bytes of its body, or reads of its response. What a backend, a queue or we
// need for ourselves never counts against it.
//
//              owes            owes nothing            owes: the window goes on
//   owed time  ├───────────────┤                       ├──────────── … ── window full: judged, a new one
//
// A window belongs to one of the two debts; another debt begins another window. Pure: values and a time in, a
// verdict out. Whoever owns it asks by timer, once a window, and so may be late by one window when the client
// has owed only part of the time.
#pragma once

#include <cstdint>

#include "common/clock.h"

namespace dlb::lb {

class ClientPace {
 public:
  enum class Owes : std::uint8_t { Nothing, Body, Reads };
  enum class Verdict : std::uint8_t {
    Unripe,   // has not owed for a whole window yet
    InTime,   // fast enough: a new window has begun
    TooSlow,  // to be cut
  };

  // What the client owes at this moment, and what the window is about (Nothing: it has never owed).
  constexpr Owes owes() const { return owes_; }
  constexpr Owes watched() const { return watched_; }

  // Begins a window about `what`; `moved` counts the bytes of that kind so far.
  constexpr void watch(Owes what, std::int64_t moved) {
    watched_ = what;
    moved_ = moved;
    owed_ = Duration::zero();
  }

  // From `now` on the client owes `what`. Requires Nothing, or what is watched.
  constexpr void set_owes(Owes what, TimePoint now) {
    if (owes_ != Owes::Nothing) owed_ += now - since_;
    owes_ = what;
    since_ = now;
  }

  // Judges: `moved` bytes since the start, `rate` bytes a second, over `window` of owed time. A client that
  // owes nothing now is never too slow.
  constexpr Verdict judge(TimePoint now, std::int64_t moved, std::uint64_t rate, Duration window) {
    const Duration owed = owed_ + (owes_ != Owes::Nothing ? now - since_ : Duration::zero());
    if (owed < window || owes_ == Owes::Nothing) return Verdict::Unripe;
    const double wanted = static_cast<double>(rate) * std::chrono::duration<double>(owed).count();
    if (static_cast<double>(moved - moved_) < wanted) return Verdict::TooSlow;
    moved_ = moved;
    owed_ = Duration::zero();
    since_ = now;
    return Verdict::InTime;
  }

 private:
  TimePoint since_{};  // when owes_ was set
  Duration owed_{};    // in this window, until since_
  std::int64_t moved_ = 0;
  Owes owes_ = Owes::Nothing;
  Owes watched_ = Owes::Nothing;
};

}  // namespace dlb::lb
