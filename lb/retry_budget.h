// RetryBudget (L14): retries in progress may be at most 20 % of the requests in flight, and at least 3, so
// that a dying pool is not buried under second attempts. Counted from the decision to the end of the
// exchange. Pure; one worker's.
#pragma once

#include <algorithm>
#include <cstdint>

namespace dlb::lb {

class RetryBudget {
 public:
  static constexpr std::uint64_t kMinimum = 3;
  static constexpr std::uint64_t kPercent = 20;

  bool try_take(std::uint64_t requests_in_flight) {
    if (taken_ >= std::max(kMinimum, requests_in_flight * kPercent / 100)) return false;
    ++taken_;
    return true;
  }
  void give_back() { --taken_; }
  std::uint64_t taken() const { return taken_; }

 private:
  std::uint64_t taken_ = 0;
};

}  // namespace dlb::lb
