#include "loadgen/compare_stats.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/check.h"
#include "common/rng.h"

namespace dlb::loadgen {
namespace {

// Continued fraction of the incomplete beta function, by Lentz's method.
double beta_fraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300;
  constexpr int kTerms = 500;
  const auto kept = [](double value) { return std::abs(value) < kTiny ? kTiny : value; };
  double c = 1;
  double d = 1 / kept(1 - (a + b) * x / (a + 1));
  double sum = d;
  for (int m = 1; m <= kTerms; ++m) {
    const double n = m;
    const double even = n * (b - n) * x / ((a + 2 * n - 1) * (a + 2 * n));
    d = 1 / kept(1 + even * d);
    c = kept(1 + even / c);
    sum *= d * c;
    const double odd = -(a + n) * (a + b + n) * x / ((a + 2 * n) * (a + 2 * n + 1));
    d = 1 / kept(1 + odd * d);
    c = kept(1 + odd / c);
    sum *= d * c;
    if (std::abs(d * c - 1) < 1e-14) break;
  }
  return sum;
}

// Regularised incomplete beta function I_x(a, b).
double incomplete_beta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double front =
      std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x));
  if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(a, b, x) / a;
  return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Of single values, by n - 1; requires two or more.
double variance_of(std::span<const double> values) {
  const double mean = mean_of(values);
  double sum = 0;
  for (const double value : values) sum += (value - mean) * (value - mean);
  return sum / static_cast<double>(values.size() - 1);
}

// The mean of one side, the square of its standard error, and how well that is known.
struct Side {
  double mean = 0;
  double error2 = 0;
  double freedom = 1;
};

// On the scale of the sides: B - A with its interval.
Estimate welch(const Side& a, const Side& b, double confidence) {
  const double error2 = a.error2 + b.error2;
  Estimate estimate{true, b.mean - a.mean, b.mean - a.mean, b.mean - a.mean, 1};
  if (error2 <= 0) return estimate;  // both without an error: equal
  const double freedom =
      error2 * error2 / (a.error2 * a.error2 / a.freedom + b.error2 * b.error2 / b.freedom);
  const double error = std::sqrt(error2);
  const double reach = student_t(1 - confidence, freedom) * error;
  estimate.low -= reach;
  estimate.high += reach;
  estimate.p = student_p(estimate.value / error, freedom);
  return estimate;
}

Estimate as_ratio(Estimate estimate) {
  estimate.value = std::exp(estimate.value);
  estimate.low = std::exp(estimate.low);
  estimate.high = std::exp(estimate.high);
  return estimate;
}

Side side_of(std::span<const double> values, double least_variance) {
  const auto count = static_cast<double>(values.size());
  return {mean_of(values), std::max(variance_of(values), least_variance) / count, count - 1};
}

bool usable(std::span<const double> values, std::size_t least) {
  return values.size() >= least &&
         std::ranges::all_of(values, [](double v) { return std::isfinite(v) && v > 0; });
}

// Zeros are values, too; not all of them.
bool countable(std::span<const double> values, std::size_t least) {
  return values.size() >= least &&
         std::ranges::all_of(values, [](double v) { return std::isfinite(v) && v >= 0; }) &&
         mean_of(values) > 0;
}

std::vector<double> logs_of(std::span<const double> values) {
  std::vector<double> logs(values.size());
  std::ranges::transform(values, logs.begin(), [](double v) { return std::log(v); });
  return logs;
}

double share_of(std::span<const ErrorCount> counts) {
  double failed = 0;
  double done = 0;
  for (const ErrorCount& count : counts) {
    failed += count.failed;
    done += count.done;
  }
  return done > 0 ? failed / done : 0;
}

// Block bootstrap of a statistic of `size` seconds that follow each other in a ring: `of` gets the indices of
// one sample. The spread of the resampled statistics is that of k independent blocks, which is short by a
// factor of (k - 1) / k.
template <class Statistic>
Side bootstrap(std::size_t size, double observed, const SeriesSettings& settings, std::uint64_t stream,
               Statistic&& of) {
  const auto length = static_cast<std::size_t>(std::ceil(std::sqrt(static_cast<double>(size))));
  Rng rng(settings.seed * 2 + stream);
  std::vector<std::size_t> sample(size);
  std::vector<double> values(static_cast<std::size_t>(settings.resamples));
  for (double& value : values) {
    for (std::size_t i = 0; i < size; i += length) {
      const std::size_t start = rng.below(size);
      for (std::size_t j = i; j < std::min(size, i + length); ++j) sample[j] = (start + j - i) % size;
    }
    value = of(std::span<const std::size_t>(sample));
  }
  const double blocks = static_cast<double>(size) / static_cast<double>(length);
  return {observed, variance_of(values) * blocks / (blocks - 1), blocks - 1};
}

Side series_side(std::span<const double> values, bool logs, const SeriesSettings& settings,
                 std::uint64_t stream) {
  const auto statistic = [logs](double sum, std::size_t count) {
    const double mean = sum / static_cast<double>(count);
    return logs ? mean : std::log(mean);
  };
  const std::vector<double> taken =
      logs ? logs_of(values) : std::vector<double>(values.begin(), values.end());
  const double observed = statistic(std::accumulate(taken.begin(), taken.end(), 0.0), taken.size());
  Side side = bootstrap(taken.size(), observed, settings, stream, [&](std::span<const std::size_t> sample) {
    double sum = 0;
    for (const std::size_t i : sample) sum += taken[i];
    return statistic(sum, sample.size());
  });
  side.error2 = std::max(side.error2, kLeastLogSpread * kLeastLogSpread / static_cast<double>(values.size()));
  return side;
}

// Of the mean itself.
Side linear_side(std::span<const double> values, const SeriesSettings& settings, std::uint64_t stream) {
  const double mean = mean_of(values);
  Side side = bootstrap(values.size(), mean, settings, stream, [&](std::span<const std::size_t> sample) {
    double sum = 0;
    for (const std::size_t i : sample) sum += values[i];
    return sum / static_cast<double>(sample.size());
  });
  const double least = kLeastLogSpread * mean;
  side.error2 = std::max(side.error2, least * least / static_cast<double>(values.size()));
  return side;
}

// A difference to a mean of `a`, which is > 0, as a factor.
Estimate as_factor_of(double a, Estimate difference) {
  for (double* part : {&difference.value, &difference.low, &difference.high})
    *part = std::max(0.0, 1 + *part / a);
  return difference;
}

double total_done(std::span<const ErrorCount> counts) {
  double done = 0;
  for (const ErrorCount& count : counts) done += count.done;
  return done;
}

// The variance of the share of one operation, of both sides together.
double binomial_variance(std::span<const ErrorCount> a, std::span<const ErrorCount> b) {
  const double done_a = total_done(a);
  const double done_b = total_done(b);
  const double share = (share_of(a) * done_a + share_of(b) * done_b) / (done_a + done_b);
  return share * (1 - share);
}

bool countable(std::span<const ErrorCount> counts, std::size_t least) {
  return counts.size() >= least && total_done(counts) > 0;
}

}  // namespace

double student_p(double t, double freedom) {
  DLB_CHECK(freedom > 0);
  return incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t));
}

double student_t(double p, double freedom) {
  DLB_CHECK(p > 0 && p < 1);
  double low = 0;
  double high = 1;
  while (student_p(high, freedom) > p && high < 1e12) high *= 2;
  for (int i = 0; i < 200 && high - low > 1e-12 * high; ++i) {
    const double middle = (low + high) / 2;
    (student_p(middle, freedom) > p ? low : high) = middle;
  }
  return (low + high) / 2;
}

Estimate compare_runs(std::span<const double> a, std::span<const double> b, double confidence,
                      double least_spread) {
  if (!usable(a, 2) || !usable(b, 2)) return {};
  const double spread = std::max(least_spread, kLeastLogSpread);
  const double variance = spread * spread;
  return as_ratio(welch(side_of(logs_of(a), variance), side_of(logs_of(b), variance), confidence));
}

Estimate compare_error_runs(std::span<const ErrorCount> a, std::span<const ErrorCount> b, double confidence) {
  if (!countable(a, 2) || !countable(b, 2)) return {};
  const double variance = binomial_variance(a, b);
  const auto side = [variance](std::span<const ErrorCount> counts) {
    std::vector<double> shares;
    for (const ErrorCount& count : counts) shares.push_back(count.done > 0 ? count.failed / count.done : 1);
    const double operations = std::max(1.0, total_done(counts) / static_cast<double>(counts.size()));
    return side_of(shares, variance / operations);
  };
  return welch(side(a), side(b), confidence);
}

Estimate compare_series(std::span<const double> a, std::span<const double> b, bool logs,
                        const SeriesSettings& settings) {
  if (!usable(a, kLeastSeconds) || !usable(b, kLeastSeconds)) {
    if (logs || !countable(a, kLeastSeconds) || !countable(b, kLeastSeconds)) return {};
    const Side side_a = linear_side(a, settings, 0);
    return as_factor_of(side_a.mean, welch(side_a, linear_side(b, settings, 1), settings.confidence));
  }
  return as_ratio(
      welch(series_side(a, logs, settings, 0), series_side(b, logs, settings, 1), settings.confidence));
}

Estimate compare_error_series(std::span<const ErrorCount> a, std::span<const ErrorCount> b,
                              const SeriesSettings& settings) {
  if (!countable(a, kLeastSeconds) || !countable(b, kLeastSeconds)) return {};
  const double variance = binomial_variance(a, b);
  const auto side = [&](std::span<const ErrorCount> counts, std::uint64_t stream) {
    std::vector<ErrorCount> sampled(counts.size());
    Side made = bootstrap(counts.size(), share_of(counts), settings, stream,
                          [&](std::span<const std::size_t> sample) {
                            for (std::size_t i = 0; i < sample.size(); ++i) sampled[i] = counts[sample[i]];
                            return share_of(sampled);
                          });
    made.error2 = std::max(made.error2, variance / total_done(counts));
    return made;
  };
  return welch(side(a, 0), side(b, 1), settings.confidence);
}

std::vector<double> holm(std::span<const double> p, std::size_t families) {
  std::vector<std::size_t> order(p.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return p[i]; });
  std::vector<double> adjusted(p.size());
  double least = 0;
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    const auto factor = static_cast<double>((p.size() - rank) + p.size() * (families - 1));
    least = std::max(least, std::min(1.0, p[order[rank]] * factor));
    adjusted[order[rank]] = least;
  }
  return adjusted;
}

}  // namespace dlb::loadgen
