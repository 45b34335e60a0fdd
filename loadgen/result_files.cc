#include "loadgen/result_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "loadgen/report.h"

namespace dlb::loadgen {
namespace {

constexpr int kMaxStems = 100;  // runs of one name that began in the same millisecond

// 20261130T014500.123Z
std::string file_time(std::int64_t wall_us) {
  std::string text = iso8601_utc(wall_us).substr(0, 23);
  std::erase_if(text, [](char c) { return c == '-' || c == ':'; });
  return text + "Z";
}

}  // namespace

ResultFiles::ResultFiles(std::string folder, std::string experiment)
    : folder_(std::move(folder)), experiment_(std::move(experiment)) {}

void ResultFiles::tell(const Error& error) {
  failed_ = true;
  std::fprintf(stderr, "loadgen: %s\n", error.text.c_str());
}

void ResultFiles::begin(std::int64_t wall_us, bool samples) {
  if (folder_.empty()) return;
  std::error_code made;
  std::filesystem::create_directories(folder_, made);
  if (made) {
    tell(errno_error("make " + folder_, made.value()));
    return;
  }
  const std::string first =
      (std::filesystem::path(folder_) / (experiment_ + "-" + file_time(wall_us))).string();
  for (int attempt = 1; attempt <= kMaxStems; ++attempt) {
    const std::string stem = attempt == 1 ? first : first + "-" + std::to_string(attempt);
    auto file = StreamFile::create(stem + "-series.csv", series_csv_header());
    if (!file) {
      if (file.error().code == EEXIST && attempt < kMaxStems) continue;
      tell(file.error());
      return;
    }
    stem_ = stem;
    series_ = std::move(*file);
    break;
  }
  if (!samples || stem_.empty()) return;
  auto file = StreamFile::create(stem_ + "-metrics.csv", metrics_csv_header());
  if (file) {
    metrics_ = std::move(*file);
  } else {
    tell(file.error());
  }
}

void ResultFiles::on_second(const SeriesRow& row, std::string_view stage,
                            const std::vector<std::string>& backends) {
  if (series_ != nullptr) series_->append(series_csv_row(row, stage, backends));
}

void ResultFiles::on_sample(const MetricsRow& row) {
  if (metrics_ != nullptr) metrics_->append(metrics_csv_row(row));
}

void ResultFiles::append(std::string& text, const std::string& name, std::string_view header,
                         std::string_view rows) {
  const auto path = append_rows(folder_, name, header, rows);
  if (!path) {
    tell(path.error());
  } else if (std::filesystem::path(*path).filename() != name + ".csv") {
    text += fmt::format("NOTE: {}.csv has other columns, so the row went to {}\n", name, *path);
  }
}

void ResultFiles::end_streams() {
  for (const auto& file : {series_.get(), metrics_.get()}) {
    if (file == nullptr) continue;
    if (const auto finished = file->finish(); !finished) tell(finished.error());
  }
}

std::string ResultFiles::finish(const RunResult& result) {
  std::string text;
  if (stem_.empty()) return text;
  append(text, "summary", summary_header(), summary_row(result));
  append(text, "operation-summary", operation_summary_header(), operation_summary_rows(result));
  append(text, "header-acceptance", header_acceptance_header(), header_acceptance_rows(result));
  const std::string report = report_json(result);
  const std::pair<std::string, std::string> files[] = {
      {stem_ + ".json", report},
      {stem_ + "-report.html", report_html(result, report)},
  };
  for (const auto& [path, bytes] : files) {
    if (const auto written = write_new_file(path, bytes); written) {
      text += "report: " + path + "\n";
    } else {
      tell(written.error());
    }
  }
  return text;
}

}  // namespace dlb::loadgen
