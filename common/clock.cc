#include "common/clock.h"

#include <time.h>

#include <array>
#include <cstdio>

namespace dlb {
namespace {

constexpr std::array<const char*, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                 "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

std::int64_t read_clock_ns(clockid_t id) {
  timespec ts{};
  clock_gettime(id, &ts);
  return static_cast<std::int64_t>(ts.tv_sec) * 1'000'000'000 + ts.tv_nsec;
}

tm utc_parts(std::int64_t wall_us) {
  const auto whole_seconds = static_cast<time_t>(wall_us / 1'000'000);
  tm parts{};
  gmtime_r(&whole_seconds, &parts);
  return parts;
}

}  // namespace

TimePoint monotonic_now() { return TimePoint(Duration(read_clock_ns(CLOCK_MONOTONIC))); }

std::int64_t wall_now_us() { return read_clock_ns(CLOCK_REALTIME) / 1000; }

// Stands in every row and every answer, so without printf. Years of four digits, as the calendar says.
std::string iso8601_utc(std::int64_t wall_us) {
  const std::chrono::sys_time<std::chrono::microseconds> time{std::chrono::microseconds(wall_us)};
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date{day};
  const std::int64_t in_day = (time - day).count();
  std::string text = "0000-00-00T00:00:00.000000+00:00";
  const auto put = [&text](std::size_t end, std::size_t digits, std::int64_t value) {
    for (; digits > 0; --digits, value /= 10) text[--end] = static_cast<char>('0' + value % 10);
  };
  put(4, 4, int{date.year()});
  put(7, 2, unsigned{date.month()});
  put(10, 2, unsigned{date.day()});
  put(13, 2, in_day / 3'600'000'000);
  put(16, 2, in_day / 60'000'000 % 60);
  put(19, 2, in_day / 1'000'000 % 60);
  put(26, 6, in_day % 1'000'000);
  return text;
}

std::string http_date(std::int64_t wall_us) {
  static constexpr std::array<const char*, 7> kDays = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  const tm parts = utc_parts(wall_us);
  std::array<char, 80> text{};
  const int length = std::snprintf(text.data(), text.size(), "%s, %02d %s %04d %02d:%02d:%02d GMT",
                                   kDays[static_cast<std::size_t>(parts.tm_wday)], parts.tm_mday,
                                   kMonths[static_cast<std::size_t>(parts.tm_mon)], parts.tm_year + 1900,
                                   parts.tm_hour, parts.tm_min, parts.tm_sec);
  return std::string(text.data(), static_cast<std::size_t>(length));
}

std::string common_log_time(std::int64_t wall_us) {
  const tm parts = utc_parts(wall_us);
  std::array<char, 80> text{};
  const int length = std::snprintf(text.data(), text.size(), "%02d/%s/%04d:%02d:%02d:%02d +0000",
                                   parts.tm_mday, kMonths[static_cast<std::size_t>(parts.tm_mon)],
                                   parts.tm_year + 1900, parts.tm_hour, parts.tm_min, parts.tm_sec);
  return std::string(text.data(), static_cast<std::size_t>(length));
}

}  // namespace dlb
