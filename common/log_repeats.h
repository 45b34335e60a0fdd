// LogRepeats: decides whether a line that repeats may be written. Each key (level, message, identity fields,
// hashed) has a window that begins with its first line: `limit` lines pass in it, the rest is counted, and
// the first line after it shows the count. Fixed memory: 64 sets of 4 entries; a full set gives up its oldest
// entry and hands its count out, so that no suppressed line goes untold. Pure: time is passed in. The caller
// locks.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/clock.h"
#include "common/log.h"

namespace dlb {

class LogRepeats {
 public:
  // Lines that were suppressed and had no successor to show it.
  struct Held {
    LogLevel level = LogLevel::Warn;
    std::string message;  // at most kMaxMessage bytes of it
    std::uint64_t suppressed = 0;
  };

  LogRepeats(std::uint32_t limit, Duration interval) : limit_(limit), interval_(interval) {}

  // The line may be written: how many like it were suppressed since the last one. It may not: nothing.
  // `evicted` is set when another key's count had to be given up.
  std::optional<std::uint64_t> judge(std::uint64_t key, LogLevel level, std::string_view message,
                                     TimePoint now, std::optional<Held>& evicted);

  // Hands out the counts of keys that have been quiet since their window ended (of all keys when `all`).
  template <class Report>
  void sweep(TimePoint now, bool all, Report&& report) {
    if (holding_ == 0) return;
    for (Entry& entry : entries_) {
      if (entry.suppressed == 0 || (!all && now - entry.window_start < 2 * interval_)) continue;
      report(take(entry));
    }
  }

 private:
  static constexpr std::size_t kWays = 4;
  static constexpr std::size_t kSets = 64;
  static constexpr std::size_t kMaxMessage = 120;

  struct Entry {
    std::uint64_t key = 0;
    bool used = false;
    LogLevel level = LogLevel::Warn;
    std::uint32_t passed = 0;
    std::uint64_t suppressed = 0;
    TimePoint window_start{};
    std::string message{};  // kept only while something is suppressed
  };

  Held take(Entry& entry) {
    --holding_;
    return {entry.level, std::exchange(entry.message, {}), std::exchange(entry.suppressed, 0)};
  }

  std::uint32_t limit_;
  Duration interval_;
  std::size_t holding_ = 0;  // entries with suppressed > 0
  std::array<Entry, kWays * kSets> entries_{};
};

}  // namespace dlb
