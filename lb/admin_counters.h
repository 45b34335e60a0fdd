// What the admin listener has done, for metrics. The control thread writes, any thread reads.
#pragma once

#include <atomic>
#include <cstdint>

namespace dlb::lb {

struct AdminCounters {
  std::atomic<std::uint64_t> requests{0};
  std::atomic<std::uint64_t> changes{0};       // of a backend's state
  std::atomic<std::uint64_t> foreign{0};       // 403: Host or Origin
  std::atomic<std::uint64_t> unauthorized{0};  // 401
};

}  // namespace dlb::lb
