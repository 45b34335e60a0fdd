// The verdict, the JSON report and summary.csv; the text for people is in report_text.cc.
#include "loadgen/report.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "common/fd.h"
#include "common/json_writer.h"
#include "loadgen/report_parts.h"

namespace dlb::loadgen {
namespace {

void histogram_json(JsonWriter& json, std::string_view name, const Histogram& histogram) {
  json.key(name).begin_object().field("count", histogram.count()).field("mean", histogram.mean() / 1000, 3);
  for (const Percentile& p : kPercentiles) json.field(p.name, as_ms(histogram.percentile(p.percent)), 3);
  json.end_object();
}

void class_json(JsonWriter& json, const ClassTotals& totals, OperationClass which, Duration elapsed) {
  json.key(operation_class_name(which)).begin_object();
  json.field("issued", totals.issued);
  json.field("throughput_per_second", per_second(totals.in(Bucket::Ok), elapsed), 1);
  json.key("buckets").begin_object();
  for (std::size_t i = 0; i < kBuckets; ++i) {
    const auto bucket = static_cast<Bucket>(i);
    if (bucket != Bucket::NotIssued) json.field(bucket_name(bucket), totals.in(bucket));
  }
  json.end_object().key("statuses").begin_object();
  for (std::size_t i = 0; i < totals.statuses.size(); ++i) {
    if (totals.statuses[i] > 0) json.field(std::to_string(i + 100), totals.statuses[i]);
  }
  json.end_object().field("body_bytes", totals.body_bytes);
  histogram_json(json, "latency_ms", totals.latency_us);
  histogram_json(json, "header_latency_ms", totals.header_us);
  histogram_json(json, "intended_latency_ms", totals.intended_us);
  json.end_object();
}

void config_json(JsonWriter& json, const RunResult& result) {
  const Options& o = result.options;
  json.key("config").begin_object().key("url").begin_array();
  for (const std::string& url : o.url) json.value(url);
  json.end_array()
      .field("users", o.users)
      .field("requests", o.requests)
      .field("duration_seconds", seconds(o.duration))
      .field("warmup_seconds", seconds(o.warmup))
      .field("message_min", o.message_min)
      .field("message_max", o.message_max)
      .field("interval_min_seconds", seconds(o.interval_min))
      .field("interval_max_seconds", seconds(o.interval_max))
      .field("rate", o.rate)
      .field("arrival", o.arrival)
      .field("queue_max", o.queue_max)
      .field("feed_percent", o.feed_percent)
      .field("seed", result.seed)
      .field("connection_mode", connection_mode_name(o.mode))
      .field("response_read_delay_seconds", seconds(o.response_read_delay))
      .field("request_timeout_seconds", seconds(o.request_timeout))
      .field("max_errors", o.max_errors)
      .end_object();
}

void feed_json(JsonWriter& json, const CheckedFeed& feed) {
  const FeedSummary& s = feed.summary;
  json.begin_object().field("url", feed.url).field("passed", feed.passed()).field("fetched", feed.fetched);
  if (!feed.fetched) {
    json.field("error", feed.error).end_object();
    return;
  }
  json.field("sha256", feed.sha256)
      .field("bytes", s.bytes)
      .field("rows", s.rows)
      .field("last_sequence", s.last_sequence)
      .field("found", s.found)
      .field("ambiguous_found", s.ambiguous_found)
      .field("foreign_rows", s.foreign)
      .field("lost", s.faults.lost)
      .field("duplicated", s.faults.duplicated)
      .field("altered", s.faults.altered)
      .field("out_of_order", s.faults.out_of_order)
      .field("wrong_count", s.faults.wrong_count);
  if (!s.faults.malformed.empty()) json.field("malformed", s.faults.malformed);
  json.key("examples").begin_array();
  for (const std::string& example : s.faults.examples) json.value(example);
  json.end_array().end_object();
}

void verification_json(JsonWriter& json, const RunResult& result) {
  json.key("verification");
  if (!result.verification) {
    json.null();
    return;
  }
  const Verification& v = *result.verification;
  json.begin_object()
      .field("passed", v.passed())
      .field("interrupted", v.interrupted)
      .field("accepted", v.accepted)
      .field("ambiguous", v.ambiguous);
  json.key("feed");
  feed_json(json, v.feed);
  if (!v.backends.empty()) json.field("backends_equal", v.backends_equal);
  json.key("backends").begin_array();
  for (const CheckedFeed& feed : v.backends) feed_json(json, feed);
  json.end_array().end_object();
}

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

std::vector<ThresholdVerdict> judge_thresholds(const RunResult& result, const Recorder& recorder) {
  Measured measured{recorder, result.elapsed, nullptr};
  FeedFaults worst;
  if (result.verification && !result.verification->interrupted) {
    const Verification& v = *result.verification;
    bool whole = v.feed.fetched;
    const auto take = [&](const FeedFaults& faults) {
      worst.lost = std::max(worst.lost, faults.lost);
      worst.duplicated = std::max(worst.duplicated, faults.duplicated);
      worst.altered = std::max(worst.altered, faults.altered);
    };
    take(v.feed.summary.faults);
    for (const CheckedFeed& feed : v.backends) {
      whole = whole && feed.fetched;
      take(feed.summary.faults);
    }
    if (whole) measured.faults = &worst;
  }
  return judge(result.options.thresholds, measured);
}

std::vector<std::string> failures(const RunResult& result, const Recorder& recorder) {
  std::vector<std::string> reasons;
  if (!result.options.error_limit.allows(recorder.failed(), recorder.done())) {
    reasons.push_back(fmt::format("{} of {} operations failed (max-errors {})", recorder.failed(),
                                  recorder.done(), result.options.max_errors));
  }
  if (recorder.mismatched_answers() > 0) {
    reasons.push_back(fmt::format("{} answers named another message's id", recorder.mismatched_answers()));
  }
  if (result.verification && !result.verification->passed()) reasons.emplace_back("the feed is not verified");
  for (const ThresholdVerdict& verdict : judge_thresholds(result, recorder)) {
    if (!verdict.held) reasons.push_back(fmt::format("{}: {}", verdict.text, value_text(verdict)));
  }
  return reasons;
}

ExitCode exit_code(const RunResult& result, const Recorder& recorder) {
  if (result.interrupted) return ExitCode::Interrupted;
  const bool wrong =
      recorder.mismatched_answers() > 0 || (result.verification && !result.verification->passed());
  if (wrong) return ExitCode::NotVerified;
  if (!invalid_reasons(recorder, result.generator()).empty()) return ExitCode::Invalid;
  return failures(result, recorder).empty() ? ExitCode::Passed : ExitCode::NotVerified;
}

std::string report_json(const RunResult& result, const Recorder& recorder) {
  std::string text;
  JsonWriter json(text);
  json.begin_object()
      .field("schema", kReportSchema)
      .field("program", "loadgen " DLB_VERSION)
      .field("experiment", result.options.experiment)
      .field("started", iso8601_utc(result.started_wall_us))
      .field("elapsed_seconds", seconds(result.elapsed), 6)
      .field("interrupted", result.interrupted)
      .field("exit_code", static_cast<int>(exit_code(result, recorder)));
  json.key("failures").begin_array();
  for (const std::string& reason : failures(result, recorder)) json.value(reason);
  json.end_array().key("invalid").begin_array();
  for (const std::string& reason : invalid_reasons(recorder, result.generator())) json.value(reason);
  json.end_array().key("thresholds");
  thresholds_json(json, judge_thresholds(result, recorder));
  config_json(json, result);
  json.key("operations").begin_object();
  json.field("planned", recorder.planned()).field("done", recorder.done()).field("failed", recorder.failed());
  json.field("throughput_per_second", per_second(recorder.in(Bucket::Ok), result.elapsed), 1);
  json.key("buckets").begin_object();
  for (std::size_t i = 0; i < kBuckets; ++i) {
    json.field(bucket_name(static_cast<Bucket>(i)), recorder.in(static_cast<Bucket>(i)));
  }
  json.end_object().field("idle_close_races", recorder.idle_close_races());
  json.field("queue_full", recorder.queue_full());
  json.field("mismatched_answers", recorder.mismatched_answers());
  json.key("errnos").begin_object();
  for (const auto& [err, count] : recorder.errnos()) {
    const char* name = ::strerrorname_np(err);
    json.field(name != nullptr ? std::string(name) : std::to_string(err), count);
  }
  json.end_object();
  for (const auto which : {OperationClass::Message, OperationClass::Feed}) {
    class_json(json, recorder.of(which), which, result.elapsed);
  }
  json.end_object();
  json.key("backends").begin_array();
  for (const BackendShare& share : recorder.backends()) {
    const double mean_us =
        share.ok == 0 ? 0 : static_cast<double>(share.latency_us_sum) / static_cast<double>(share.ok);
    json.begin_object()
        .field("id", share.name)
        .field("responses", share.responses)
        .field("ok", share.ok)
        .field("latency_ms_mean", mean_us / 1000, 3)
        .end_object();
  }
  json.end_array();
  json.key("connections").begin_object().field("opened", result.connections_opened);
  json.field("stray_bytes", result.stray_bytes);
  histogram_json(json, "connect_ms", recorder.connect_us());
  json.end_object();
  verification_json(json, result);
  const std::uint64_t done = recorder.done();
  json.key("generator").begin_object().field("cpu_seconds", result.cpu_seconds, 6);
  json.field("cpu_us_per_operation", done == 0 ? 0 : result.cpu_seconds * 1e6 / static_cast<double>(done), 2);
  json.field("longest_turn_ms", seconds(result.longest_turn) * 1000, 3);
  json.field("cpu_share", result.generator().cpu_share(), 4);
  histogram_json(json, "schedule_lag_ms", recorder.schedule_lag_us());
  json.end_object().end_object();
  text += '\n';
  return text;
}

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

std::string summary_row(const RunResult& result, const Recorder& recorder) {
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
  fmt::format_to(out, ",{}\n", static_cast<int>(exit_code(result, recorder)));
  return text;
}

Result<std::string> write_files(const RunResult& result, const Recorder& recorder) {
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
  if (auto written = write_all(file.get(), path, report_json(result, recorder)); !written)
    return written.error();

  const std::string summary = (folder / "summary.csv").string();
  const Fd csv(::open(summary.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!csv) return file_error(summary, errno);
  // Runs side by side may append at once: the header comes from the one that finds the file empty.
  if (::flock(csv.get(), LOCK_EX) != 0) return file_error(summary, errno);
  struct stat facts {};
  if (::fstat(csv.get(), &facts) != 0) return file_error(summary, errno);
  std::string rows = facts.st_size == 0 ? summary_header() : std::string();
  rows += summary_row(result, recorder);
  if (auto written = write_all(csv.get(), summary, rows); !written) return written.error();
  return path;
}

}  // namespace dlb::loadgen
