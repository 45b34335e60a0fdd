#include "lb/policy/score.h"

#include <limits>

#include "test/support/catch.h"

namespace dlb::lb {
namespace {

TEST_CASE("the score is 0.25 cpu + 0.45 in flight + 0.30 latency") {
  ScoreInputs in;
  in.cpu_percent = 40;
  in.in_flight = 20;
  in.max_inflight = 100;
  in.latency_us = 50'000;
  in.latency_target_us = 100'000;
  const Score score = compute_score(in);
  CHECK(score.cpu == Approx(40));
  CHECK(score.in_flight == Approx(20));
  CHECK(score.latency == Approx(50));
  CHECK(score.total == Approx(0.25 * 40 + 0.45 * 20 + 0.30 * 50));
}

TEST_CASE("each part stays between 0 and 100") {
  ScoreInputs in;
  in.cpu_percent = 350;
  in.in_flight = 100'000;
  in.latency_us = 1e12;
  CHECK(compute_score(in).total == Approx(100));

  in.cpu_percent = -1;
  in.in_flight = 0;
  in.latency_us = -5;
  CHECK(compute_score(in).total == Approx(0));

  in.cpu_percent = std::numeric_limits<double>::quiet_NaN();
  in.latency_us = std::numeric_limits<double>::infinity();
  CHECK(compute_score(in).total == Approx(30));
}

TEST_CASE("stale statistics cost 15 points") {
  ScoreInputs in;
  in.cpu_percent = 20;
  const double fresh = compute_score(in).total;
  in.stale = true;
  CHECK(compute_score(in).total == Approx(fresh + 15));
  CHECK(compute_score(in).penalty == Approx(15));
}

TEST_CASE("a limit of 0 divides nothing by zero") {
  ScoreInputs in;
  in.max_inflight = 0;
  in.in_flight = 3;
  in.latency_target_us = 0;
  in.latency_us = 3;
  CHECK(compute_score(in).total == Approx(45));
}

}  // namespace
}  // namespace dlb::lb
