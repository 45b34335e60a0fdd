// Time. Only clock.cc reads the clocks; everything else is handed a TimePoint (policies, guards, codecs) or
// uses its loop's EventLoop::now(), which is read once a turn.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace dlb {

// The tag of our monotonic time line (CLOCK_MONOTONIC). It has no now(): call monotonic_now().
struct MonotonicClock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<MonotonicClock>;
  static constexpr bool is_steady = true;
};

using Duration = MonotonicClock::duration;
using TimePoint = MonotonicClock::time_point;

// Never armed, never reached.
inline constexpr TimePoint kNever = TimePoint::max();

TimePoint monotonic_now();

// Microseconds since 1970-01-01T00:00:00Z.
std::int64_t wall_now_us();

// Seconds as a double, for rates and reports.
constexpr double seconds(Duration d) { return std::chrono::duration<double>(d).count(); }

// `2026-09-10T14:00:00.123456+00:00` from microseconds since the epoch.
std::string iso8601_utc(std::int64_t wall_us);

// `Thu, 10 Sep 2026 14:00:00 GMT`, the HTTP-date of RFC 9110 section 5.6.7.
std::string http_date(std::int64_t wall_us);

// `10/Sep/2026:14:00:00 +0000`, as access logs have it.
std::string common_log_time(std::int64_t wall_us);

}  // namespace dlb
