// turn_share(): how long one piece of a turn's work may go on. Several share a turn (handshakes, live rows,
// writes, signatures); each has a most of its own, but what came before it in the same turn counts too, so
// that all of them together stay under what the loop calls a slow turn. Each gets a little in any case.
#pragma once

#include <algorithm>
#include <chrono>

#include "common/clock.h"
#include "common/event_loop.h"

namespace dlb {

// Work that begins now ends when the clock reaches this.
inline TimePoint turn_share(const EventLoop& loop, Duration most) {
  constexpr Duration kLeast = std::chrono::microseconds(300);
  constexpr Duration kTurn = std::chrono::milliseconds(3);  // the last piece may go over it by its own length
  const TimePoint now = monotonic_now();
  return std::max(now + std::min(kLeast, most), std::min(now + most, loop.now() + kTurn));
}

}  // namespace dlb
