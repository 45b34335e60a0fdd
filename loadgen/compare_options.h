// Options of `loadgen compare`, with their defaults; the row array stands in compare_options.cc. Plain
// values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/option.h"
#include "common/result.h"

namespace dlb::loadgen {

struct CompareOptions {
  bool json = false;
  bool force = false;
  double min_change = 2;
  double run_spread = 5;
  double confidence = 95;
  std::int64_t comparisons = 1;
  std::int64_t resamples = 1000;
  std::int64_t seed = 1;
};

extern const OptionTable kCompareOptionTable;

// The files of both sides, from the two operands.
struct CompareFiles {
  std::vector<std::string> a, b;
};
Result<CompareFiles> compare_files(const LoadedOptions& loaded);

}  // namespace dlb::loadgen
