#include "common/log_repeats.h"

namespace dlb {

std::optional<std::uint64_t> LogRepeats::judge(std::uint64_t key, LogLevel level, std::string_view message,
                                               TimePoint now, std::optional<Held>& evicted) {
  Entry* const set = &entries_[(key % kSets) * kWays];
  Entry* entry = nullptr;
  Entry* oldest = set;
  for (Entry* candidate = set; candidate != set + kWays; ++candidate) {
    if (candidate->used && candidate->key == key) entry = candidate;
    if (!candidate->used || (oldest->used && candidate->window_start < oldest->window_start))
      oldest = candidate;
  }
  if (entry == nullptr) {
    entry = oldest;
    if (entry->suppressed > 0) evicted = take(*entry);
    *entry = Entry{key, true, level, 1, 0, now, {}};
    return 0;
  }
  if (now - entry->window_start >= interval_) {
    entry->window_start = now;
    entry->passed = 1;
    return entry->suppressed > 0 ? take(*entry).suppressed : 0;
  }
  if (entry->passed < limit_) {
    ++entry->passed;
    return 0;
  }
  if (entry->suppressed++ == 0) {
    ++holding_;
    entry->message = message.substr(0, kMaxMessage);
  }
  return std::nullopt;
}

}  // namespace dlb
