#include "loadgen/schedule.h"

#include <cmath>

#include "common/check.h"

namespace dlb::loadgen {

Schedule::Schedule(double rate, Arrival arrival, std::uint64_t seed)
    : gap_ns_(1e9 / rate), arrival_(arrival), rng_(seed) {
  DLB_CHECK(rate > 0);
}

Duration Schedule::next() {
  if (arrival_ == Arrival::Even) {
    at_ns_ = static_cast<double>(number_++) * gap_ns_;
  } else {
    at_ns_ -= gap_ns_ * std::log1p(-rng_.unit());
  }
  return Duration(static_cast<Duration::rep>(at_ns_));
}

}  // namespace dlb::loadgen
