// How sure one can be that two sets of figures differ: intervals and p-values of a ratio or a difference B to
// A, and what remains of several of them that are judged at once. Pure; what figures there are is
// compare.h's.
//
// Few repetitions (3 to 6 a side) are judged by Welch's t on logarithms: an exact permutation of 3 and 3
// cannot go under p = 0.1, and a bootstrap over three runs calls twice the differences that it may.
// compare_stats_test.cc counts both. Runs of a fresh system lie in modes some percent apart (which process
// got which core, where its memory lies), and three can all lie in one, so the spread of a sample has a
// floor. A single run a side is judged by its seconds, which depend on each other: a bootstrap of blocks of
// them gives the standard error, Student's t with the number of blocks the interval. It knows nothing of what
// differs from run to run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace dlb::loadgen {

// Both on the scale of the estimate: a factor B/A for ratios, B - A for differences.
struct Estimate {
  bool judged = false;  // false: too little was measured, and nothing below holds
  double value = 1;
  double low = 0, high = 0;  // the interval at the confidence asked for
  double p = 1;              // two-sided, of "no difference"
};

// The two-sided p of |t| with `freedom` (> 0) degrees of freedom, which need be no whole number.
double student_p(double t, double freedom);
// The t that is exceeded, either way, with probability `p` (0 < p < 1).
double student_t(double p, double freedom);

// The smallest spread (standard deviation) that a single value can have, whatever the sample says: figures
// are rounded, and two or three of them may be equal by chance. Of logarithms: a histogram's cell is 0.4 %.
inline constexpr double kLeastLogSpread = 0.0012;

// Ratio of the geometric means of two sets of repetitions, whose spread is taken for at least `least_spread`
// (of logarithms, >= 0). Not judged unless each side has at least two, all positive.
Estimate compare_runs(std::span<const double> a, std::span<const double> b, double confidence,
                      double least_spread = 0);

// `failed` of `done` in one repetition, or in one second.
struct ErrorCount {
  double failed = 0;
  double done = 0;
};
// Difference of the mean shares of errors over repetitions. Their spread is at least the binomial one of the
// shares taken together, so that sides of none and of a few errors are not told apart by luck.
Estimate compare_error_runs(std::span<const ErrorCount> a, std::span<const ErrorCount> b, double confidence);

struct SeriesSettings {
  double confidence = 0.95;
  std::uint64_t seed = 1;
  int resamples = 1000;
};
inline constexpr std::size_t kLeastSeconds = 10;

// Ratio of the means of two series of values a second (`logs` false: throughput), or of their geometric means
// (`logs` true: latencies, all positive). Where a throughput has zeros, a logarithm of a mean is next to
// nothing's: then the interval is that of the difference of the means, as a factor of A's. Not judged under
// kLeastSeconds a side, nor where a side is all 0.
Estimate compare_series(std::span<const double> a, std::span<const double> b, bool logs,
                        const SeriesSettings& settings);
// Difference of the shares of errors, by their seconds.
Estimate compare_error_series(std::span<const ErrorCount> a, std::span<const ErrorCount> b,
                              const SeriesSettings& settings);

// Holm's step-down: the p-values as they count when `families` such sets are judged at once; compared with
// 0.05 the chance of any false alarm among them is at most 5 %. At most 1, in the order of `p`.
std::vector<double> holm(std::span<const double> p, std::size_t families = 1);

}  // namespace dlb::loadgen
