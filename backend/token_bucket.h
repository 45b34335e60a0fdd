// TokenBucket: `rate` a second on average, up to `burst` at once. Starts full. Pure.
#pragma once

#include <algorithm>

#include "common/clock.h"

namespace dlb::backend {

class TokenBucket {
 public:
  // A rate of 0: no limit.
  TokenBucket(double rate, double burst) : rate_(rate), burst_(std::max(burst, 1.0)), tokens_(burst_) {}

  // Takes one; false when there is none now.
  bool take(TimePoint now) {
    if (rate_ <= 0) return true;
    if (now > last_) {
      if (last_ != TimePoint{}) tokens_ = std::min(burst_, tokens_ + rate_ * seconds(now - last_));
      last_ = now;
    }
    if (tokens_ < 1) return false;
    tokens_ -= 1;
    return true;
  }

 private:
  double rate_;
  double burst_;
  double tokens_;
  TimePoint last_{};
};

}  // namespace dlb::backend
