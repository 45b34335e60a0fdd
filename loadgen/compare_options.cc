#include "loadgen/compare_options.h"

#include <filesystem>
#include <set>

namespace dlb::loadgen {
namespace {

constexpr std::string_view kCommands[] = {"compare"};
constexpr std::size_t kMaxFiles = 1000;  // a side

constexpr OptionRow kRows[] = {
    option<&CompareOptions::json>("json", {.help = "Print the verdicts as JSON."}),
    option<&CompareOptions::force>("force", {.help = "Take runs that are INVALID or were interrupted."}),
    option<&CompareOptions::min_change>(
        "min-change",
        {.max = 1000, .unit = "percent", .help = "A ratio nearer to 1 than this is called the same."}),
    option<&CompareOptions::run_spread>(
        "run-spread", {.max = 1000,
                       .unit = "percent",
                       .help = "Repetitions are taken to differ by at least this much (standard deviation), "
                               "since a few of them seldom show it."}),
    option<&CompareOptions::confidence>(
        "confidence",
        {.min = 50,
         .max = 99.99,
         .unit = "percent",
         .help = "Of the intervals; and so often no figure of equal sides is called a difference."}),
    option<&CompareOptions::comparisons>(
        "comparisons",
        {.min = 1, .max = 10'000, .help = "So many comparisons like this one are judged together."}),
    option<&CompareOptions::resamples>(
        "resamples", {.min = 100, .max = 100'000, .help = "Of the seconds, with one run a side."}),
    option<&CompareOptions::seed>("seed", {.max = 9'007'199'254'740'992,
                                           .help = "Of the resampling: the same seed, the same intervals."}),
};

Result<std::vector<std::string>> files_of(std::string_view list) {
  std::vector<std::string> files;
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    if (comma != 0) files.emplace_back(list.substr(0, comma));
    list = comma == std::string_view::npos ? "" : list.substr(comma + 1);
  }
  if (files.empty()) return Error{"a side has no file"};
  if (files.size() > kMaxFiles) return Error{"a side may have 1000 files"};
  std::set<std::filesystem::path> seen;
  for (const std::string& file : files) {
    std::error_code failed;
    const auto path = std::filesystem::weakly_canonical(file, failed);
    if (!seen.insert(failed ? std::filesystem::path(file) : path).second) {
      return Error{file + " stands twice on one side: repetitions are runs of their own"};
    }
  }
  return files;
}

}  // namespace

const OptionTable kCompareOptionTable = {
    .program = "loadgen",
    .intro =
        "loadgen compare A.json[,A2.json...] B.json[,B2.json...] says of each figure of B whether it is "
        "better, the "
        "same\nor worse, with the interval of the ratio B/A. Several files of a side are repetitions of one "
        "run.\n"
        "Exit codes: 0 same or better, 2 bad usage or files that can't be compared, 3 worse in something,\n4 "
        "no verdict.",
    .environment_prefix = "LOADGEN_COMPARE_",
    .rows = kRows,
    .commands = kCommands,
};

Result<CompareFiles> compare_files(const LoadedOptions& loaded) {
  if (loaded.operands.size() != 2)
    return Error{"two sides are needed: loadgen compare A.json[,...] B.json[,...]"};
  auto a = files_of(loaded.operands[0]);
  if (!a) return a.error();
  auto b = files_of(loaded.operands[1]);
  if (!b) return b.error();
  return CompareFiles{std::move(*a), std::move(*b)};
}

}  // namespace dlb::loadgen
