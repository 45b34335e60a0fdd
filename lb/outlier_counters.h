// What outlier ejection has done, for metrics. Any thread writes and reads; the events are rare.
#pragma once

#include <atomic>
#include <cstdint>

namespace dlb::lb {

struct OutlierCounters {
  std::atomic<std::uint64_t> in_row{0}, share{0}, probation{0};  // ejections, by their reason
  std::atomic<std::uint64_t> refused{0};      // not ejected: max-ejected-percent; once in a row of failures
  std::atomic<std::uint64_t> ended_early{0};  // ejections that a passed check has ended, or coming up again
  std::atomic<std::uint64_t> lifted{0};       // times that all ejections ended, since all others failed too
};

}  // namespace dlb::lb
