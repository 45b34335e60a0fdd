// ServiceTime: how long a server works on one request, as a distribution with a name that people type. Shared
// by the simulated servers and by fixture_server, so that both mean the same by `exponential 20ms`. Pure: a
// distribution and an Rng in, a duration out.
//
//   fixed 20ms             always that
//   exponential 20ms       that on average, memoryless: p99 is 4.6 times as much
//   uniform 500ms 5s       anything between the two
//   lognormal 20ms 1.0     that at the median, with that sigma of its logarithm: a long tail
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/clock.h"
#include "common/result.h"
#include "common/rng.h"

namespace dlb::bench {

class ServiceTime {
 public:
  ServiceTime() = default;  // fixed 0

  static Result<ServiceTime> parse(std::string_view text);

  Duration draw(Rng& rng) const;
  // Of many draws.
  Duration mean() const;
  const std::string& text() const { return text_; }

 private:
  enum class Kind : std::uint8_t { Fixed, Exponential, Uniform, Lognormal };

  Kind kind_ = Kind::Fixed;
  double first_ns_ = 0;  // value, mean, low or median
  double second_ = 0;    // high in ns, or sigma
  std::string text_ = "fixed 0";
};

// Exponential with this mean: also the gaps between arrivals of a Poisson stream.
Duration draw_exponential(double mean_ns, Rng& rng);

}  // namespace dlb::bench
