// The files of a run: its JSON report and a row of summary.csv.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "common/fd.h"
#include "loadgen/report.h"
#include "loadgen/report_parts.h"

namespace dlb::loadgen {
namespace {

// 20261130T014500.123Z
std::string file_time(std::int64_t wall_us) {
  std::string text = iso8601_utc(wall_us).substr(0, 23);
  std::erase_if(text, [](char c) { return c == '-' || c == ':'; });
  return text + "Z";
}

Error file_error(const std::string& path, int err) { return errno_error("write " + path, err); }

Result<void> write_all(int fd, const std::string& path, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0) {
      const int err = errno;
      if (err == EINTR) continue;
      return file_error(path, err);
    }
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

}  // namespace

std::string summary_header() {
  std::string text = "started,experiment,url,seed,users,feed_percent,connection_mode,elapsed_seconds,planned";
  for (std::size_t i = 0; i < kBuckets; ++i) {
    text += ",";
    text += bucket_name(static_cast<Bucket>(i));
  }
  text += ",ok_per_second";
  for (const std::string_view which : {"message", "feed"}) {
    for (const Percentile& p : kPercentiles)
      fmt::format_to(std::back_inserter(text), ",{}_{}_ms", which, p.name);
  }
  return text + ",generator_cpu_seconds,longest_turn_ms,verified,lost,duplicated,exit_code\n";
}

std::string summary_row(const RunResult& result) {
  const Recorder& recorder = result.total;
  const Options& o = result.options;
  std::string text = fmt::format("{},{},\"{}\",{},{},{},{},{:.6f},{}", iso8601_utc(result.started_wall_us),
                                 o.experiment, joined_by_commas(o.url), result.seed, o.users, o.feed_percent,
                                 connection_mode_name(o.mode), seconds(result.elapsed), recorder.planned());
  const auto out = std::back_inserter(text);
  for (std::size_t i = 0; i < kBuckets; ++i) fmt::format_to(out, ",{}", recorder.in(static_cast<Bucket>(i)));
  fmt::format_to(out, ",{:.1f}", per_second(recorder.in(Bucket::Ok), result.elapsed));
  for (const auto which : {OperationClass::Message, OperationClass::Feed}) {
    for (const Percentile& p : kPercentiles) {
      fmt::format_to(out, ",{:.3f}", as_ms(recorder.of(which).latency_us.percentile(p.percent)));
    }
  }
  fmt::format_to(out, ",{:.3f},{:.3f}", result.cpu_seconds, seconds(result.longest_turn) * 1000);
  if (result.verification) {
    const FeedFaults& faults = result.verification->feed.summary.faults;
    fmt::format_to(out, ",{},{},{}", result.verification->passed() ? "yes" : "no", faults.lost,
                   faults.duplicated);
  } else {
    text += ",,,";
  }
  fmt::format_to(out, ",{}\n", static_cast<int>(exit_code(result)));
  return text;
}

Result<std::string> write_files(const RunResult& result) {
  const std::filesystem::path folder(result.options.out_dir);
  std::error_code made;
  std::filesystem::create_directories(folder, made);
  if (made) return errno_error("make " + folder.string(), made.value());

  const std::string stem = result.options.experiment + "-" + file_time(result.started_wall_us);
  std::string path;
  Fd file;
  for (int attempt = 1; !file; ++attempt) {
    path =
        (folder / (attempt == 1 ? stem + ".json" : stem + "-" + std::to_string(attempt) + ".json")).string();
    file = Fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    const int err = errno;
    if (!file && (err != EEXIST || attempt > 100)) return file_error(path, err);
  }
  if (auto written = write_all(file.get(), path, report_json(result)); !written) return written.error();

  const std::string summary = (folder / "summary.csv").string();
  const Fd csv(::open(summary.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!csv) return file_error(summary, errno);
  // Runs side by side may append at once: the header comes from the one that finds the file empty.
  if (::flock(csv.get(), LOCK_EX) != 0) return file_error(summary, errno);
  struct stat facts {};
  if (::fstat(csv.get(), &facts) != 0) return file_error(summary, errno);
  std::string rows = facts.st_size == 0 ? summary_header() : std::string();
  rows += summary_row(result);
  if (auto written = write_all(csv.get(), summary, rows); !written) return written.error();
  return path;
}

}  // namespace dlb::loadgen
