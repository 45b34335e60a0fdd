// What the figures of a comparison have in common, whatever they are of. Internal to compare.cc and
// compare_chat.cc. Pure.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "loadgen/compare.h"

namespace dlb::loadgen {

inline constexpr std::array<std::string_view, 3> kComparedPercentiles = {"p50", "p95", "p99"};
inline constexpr std::array<double, 3> kBeyondShare = {0.5, 0.05, 0.01};  // of the operations

template <class Of>
std::vector<double> values_of(std::span<const ComparedRun> runs, Of&& of) {
  std::vector<double> values;
  for (const ComparedRun& run : runs) values.push_back(of(run));
  return values;
}

inline double geometric_mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += std::log(value);
  return std::exp(sum / static_cast<double>(values.size()));
}

// Of what a side got wrong, where 0 is right: no statistics are needed. A side that is wrong is never the
// same or better, not even than another wrong one. NaN: the side has none of it; then only B can be worse.
inline Verdict verdict_on_wrong(double a, double b) {
  if (std::isnan(b)) return a == 0 ? Verdict::Same : Verdict::NotJudged;
  if (b > (std::isnan(a) ? 0 : a)) return Verdict::Worse;
  if (b > 0) return Verdict::NotJudged;
  return a > 0 ? Verdict::Better : Verdict::Same;
}

}  // namespace dlb::loadgen
