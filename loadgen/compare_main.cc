#include "loadgen/compare_main.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "common/result.h"
#include "loadgen/compare.h"
#include "loadgen/compare_options.h"
#include "loadgen/report.h"

namespace dlb::loadgen {
namespace {

constexpr int kUsage = 2;
constexpr int kWorse = 3;
constexpr int kNotJudged = 4;
constexpr std::size_t kMaxFileBytes = std::size_t{32} << 20;  // a report has some 3,600 seconds at most

int refuse(const std::string& text) {
  std::fprintf(stderr, "loadgen compare: %s\n", text.c_str());
  return kUsage;
}

Result<std::string> file_text(const std::string& path) {
  std::error_code unknown;  // then reading finds out
  const auto size = std::filesystem::file_size(path, unknown);
  if (!unknown && size > kMaxFileBytes) return Error{path + ": over 32 MiB"};
  std::FILE* file = std::fopen(path.c_str(), "rbe");
  if (file == nullptr) return errno_error("read " + path, errno);
  std::string text;
  char block[65536];
  std::size_t got = 0;
  while (text.size() <= kMaxFileBytes && (got = std::fread(block, 1, sizeof block, file)) > 0)
    text.append(block, got);
  const int err = std::ferror(file) != 0 ? errno : 0;
  std::fclose(file);
  if (err != 0) return errno_error("read " + path, err);
  if (text.size() > kMaxFileBytes) return Error{path + ": over 32 MiB"};
  return text;
}

Result<std::vector<ComparedRun>> read_side(const std::vector<std::string>& files, bool force) {
  std::vector<ComparedRun> runs;
  for (const std::string& path : files) {
    const auto text = file_text(path);
    if (!text) return text.error();
    auto run = read_compared_run(*text, path);
    if (!run) return run.error();
    runs.push_back(std::move(*run));
  }
  std::string all;
  for (const std::string& reason : refusals(runs, kReportSchema, force))
    all += (all.empty() ? "" : "\nloadgen compare: ") + reason;
  if (!all.empty()) return Error{all};
  return runs;
}

}  // namespace

int compare_main(int argc, const char* const* argv) {
  CompareOptions options;
  const auto loaded = load_options(kCompareOptionTable, options, argc, argv, environ);
  if (!loaded) return refuse(loaded.error().text);
  if (const auto code = finish_action(kCompareOptionTable, *loaded, options)) return *code;
  const auto files = compare_files(*loaded);
  if (!files) return refuse(files.error().text);
  const auto a = read_side(files->a, options.force);
  if (!a) return refuse(a.error().text);
  const auto b = read_side(files->b, options.force);
  if (!b) return refuse(b.error().text);

  const CompareSettings settings{options.confidence / 100,
                                 options.min_change / 100,
                                 options.run_spread / 100,
                                 static_cast<std::size_t>(options.comparisons),
                                 static_cast<std::uint64_t>(options.seed),
                                 static_cast<int>(options.resamples)};
  const CompareResult result = compare(*a, *b, settings);
  const std::string text =
      options.json ? compare_json(result, *a, *b, settings) : compare_text(result, *a, *b, settings);
  std::fputs(text.c_str(), stdout);
  switch (result.overall) {
    case Verdict::Same:
    case Verdict::Better:
      return 0;
    case Verdict::Worse:
    case Verdict::Mixed:
      return kWorse;
    case Verdict::NotJudged:
      break;
  }
  return kNotJudged;
}

}  // namespace dlb::loadgen
