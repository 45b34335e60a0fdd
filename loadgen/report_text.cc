// The report for people, on the standard output.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <iterator>
#include <vector>

#include "loadgen/chat_report.h"
#include "loadgen/report.h"
#include "loadgen/report_parts.h"

namespace dlb::loadgen {
namespace {

constexpr std::size_t kMaxShares = 16;  // backends shown

// `reuse`, or with a rate `reuse, 500 a second (poisson)`.
std::string load_text(const Options& options) {
  std::string text(connection_mode_name(options.mode));
  if (options.rate > 0) {
    fmt::format_to(std::back_inserter(text), ", {:.6g} a second ({})", options.rate, options.arrival);
  }
  return text;
}

// `100 users`, `3 stages, 10 to 20 users`, or the profile's name.
std::string users_text(const RunResult& result) {
  const Options& options = result.options;
  if (!options.profile.empty()) return options.profile;
  if (options.stages.empty() || result.stages.empty()) return fmt::format("{} users", options.users);
  const auto users_of = [](const StageResult& stage) { return stage.plan.users; };
  const auto [smallest, largest] = std::ranges::minmax_element(result.stages, {}, users_of);
  const auto least = users_of(*smallest), most = users_of(*largest);
  const std::size_t count = result.stages.size();
  return fmt::format("{} stage{}, {} users", count, count == 1 ? "" : "s",
                     least == most ? std::to_string(least) : fmt::format("{} to {}", least, most));
}

// A line a stage; a run of one stage needs none.
void stages_text(std::string& text, const RunResult& result) {
  if (result.stages.size() <= 1) return;
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "{:<16} {:>8} {:>8} {:>8} {:>8} {:>9} {:>9} {:>9} {:>9}  ms\n", "stage", "ok", "failed",
                 "seconds", "ok/s", "post mean", "post p99", "feed mean", "feed p99");
  for (const StageResult& stage : result.stages) {
    const Recorder& recorder = stage.recorder;
    fmt::format_to(out, "{:<16} ", stage.plan.name);
    if (!stage.ran) {
      text += "not run\n";
      continue;
    }
    fmt::format_to(out, "{:>8} {:>8} {:>8.2f} {:>8.0f}", recorder.in(Bucket::Ok), recorder.failed(),
                   seconds(stage.elapsed), per_second(recorder.in(Bucket::Ok), stage.elapsed));
    for (const auto which : {OperationClass::Message, OperationClass::Feed}) {
      const Histogram& latency = recorder.of(which).latency_us;
      fmt::format_to(out, " {:>9.2f} {:>9.2f}", latency.mean() / 1000, as_ms(latency.percentile(99)));
    }
    text += stage.hit_window ? "  hit its window\n" : "\n";
  }
}

// The largest ones, by size; among equals in the order in which they came.
void shares_text(std::string& text, const Recorder& recorder) {
  if (recorder.backends().empty()) return;
  std::vector<const BackendShare*> shares;
  for (const BackendShare& share : recorder.backends()) shares.push_back(&share);
  if (shares.size() > kMaxShares) std::ranges::stable_sort(shares, std::greater(), &BackendShare::responses);
  text += "share:";
  for (std::size_t i = 0; i < shares.size() && i < kMaxShares; ++i) {
    fmt::format_to(std::back_inserter(text), " {} {} ({:.1f}%)", shares[i]->name, shares[i]->responses,
                   100 * static_cast<double>(shares[i]->responses) / static_cast<double>(recorder.done()));
  }
  if (shares.size() > kMaxShares) {
    fmt::format_to(std::back_inserter(text), " … and {} more", shares.size() - kMaxShares);
  }
  text += '\n';
}

void class_text(std::string& text, const ClassTotals& totals, OperationClass which, Duration elapsed) {
  if (totals.issued == 0) return;
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "{:<8} {:>9} {:>9} {:>9.0f}", operation_class_name(which), totals.issued,
                 totals.in(Bucket::Ok), per_second(totals.in(Bucket::Ok), elapsed));
  for (const Percentile& p : kPercentiles)
    fmt::format_to(out, " {:>8.2f}", as_ms(totals.latency_us.percentile(p.percent)));
  fmt::format_to(out, " {:>9.2f}\n", as_ms(totals.header_us.percentile(50)));
  if (totals.intended_us.count() == 0) return;
  fmt::format_to(out, "{:<38}", "  from the intended time");
  for (const Percentile& p : kPercentiles) {
    fmt::format_to(out, " {:>8.2f}", as_ms(totals.intended_us.percentile(p.percent)));
  }
  text += '\n';
}

// What ran, and its operations by class.
void operations_text(std::string& text, const RunResult& result) {
  const Recorder& recorder = result.total;
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "{} at {}: {}, seed {}, {}\n", result.options.experiment,
                 joined_by_commas(load_urls(result.options)), users_text(result), result.seed,
                 load_text(result.options));
  fmt::format_to(out, "planned {}, done {} in {:.2f} s, {:.0f} ok/s\n", recorder.planned(), recorder.done(),
                 seconds(result.elapsed), per_second(recorder.in(Bucket::Ok), result.elapsed));
  fmt::format_to(out, "{:<8} {:>9} {:>9} {:>9}", "", "issued", "ok", "ok/s");
  for (const Percentile& p : kPercentiles) fmt::format_to(out, " {:>8}", p.name);
  fmt::format_to(out, " {:>9}   ms\n", "head p50");
  for (const auto which : {OperationClass::Message, OperationClass::Feed}) {
    class_text(text, recorder.of(which), which, result.elapsed);
  }
}

// Where operations ended, with all that explains it.
void buckets_text(std::string& text, const Recorder& recorder) {
  const auto out = std::back_inserter(text);
  text += "buckets:";
  for (std::size_t i = 0; i < kBuckets; ++i) {
    const auto bucket = static_cast<Bucket>(i);
    if (bucket == Bucket::Ok || recorder.in(bucket) > 0) {
      fmt::format_to(out, " {} {}", bucket_name(bucket), recorder.in(bucket));
    }
  }
  if (recorder.queue_full() > 0) fmt::format_to(out, " [queue full: {}]", recorder.queue_full());
  for (const auto which : {OperationClass::Message, OperationClass::Feed}) {
    const auto& statuses = recorder.of(which).statuses;
    for (std::size_t i = 0; i < statuses.size(); ++i) {
      if (statuses[i] > 0)
        fmt::format_to(out, " [{} {}: {}]", operation_class_name(which), i + 100, statuses[i]);
    }
  }
  for (const auto& [err, count] : recorder.errnos()) {
    const char* name = ::strerrorname_np(err);
    fmt::format_to(out, " [{}: {}]", name != nullptr ? name : "errno", count);
  }
  if (recorder.idle_close_races() > 0)
    fmt::format_to(out, " [idle-close races: {}]", recorder.idle_close_races());
  text += '\n';
}

void generator_text(std::string& text, const RunResult& result) {
  const Histogram& lag = result.total.schedule_lag_us();
  const auto out = std::back_inserter(text);
  fmt::format_to(out,
                 "generator: {:.2f} s cpu, waited {:.2f} s for a core ({:.2f} ms each time), longest turn "
                 "{:.1f} ms, {} connections",
                 result.cpu_seconds, seconds(result.waits.waited), result.waits.mean_ms(),
                 seconds(result.longest_turn) * 1000, result.connections_opened);
  if (lag.count() > 0) {
    fmt::format_to(out, ", schedule lag p50 {:.2f} p99 {:.2f} max {:.2f} ms", as_ms(lag.percentile(50)),
                   as_ms(lag.percentile(99)), as_ms(lag.max()));
  }
  text += '\n';
}

void held_text(std::string& text, const HeldTotals& held) {
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "held: {} wanted, {} opened, {} not; closed by the server while silent {}", held.wanted,
                 held.opened, held.connect_failed, held.closed_silent);
  if (held.closed_silent > 0) {
    fmt::format_to(out, " (age p50 {:.0f} max {:.0f} ms)", as_ms(held.closed_age_us.percentile(50)),
                   as_ms(held.closed_age_us.max()));
  }
  fmt::format_to(out, ", answered {}, failed {}, unfinished {}", held.answered, held.failed, held.unfinished);
  for (const auto& [name, count] : held.failures) fmt::format_to(out, " [{} {}]", name, count);
  text += '\n';
}

void feed_text(std::string& text, const CheckedFeed& feed) {
  const auto out = std::back_inserter(text);
  const FeedSummary& s = feed.summary;
  fmt::format_to(out, "feed {}: ", feed.url);
  if (!feed.fetched) {
    fmt::format_to(out, "NOT CHECKED, {}\n", feed.error);
    return;
  }
  fmt::format_to(out,
                 "{}, {} rows ({} bytes), {} accepted messages found, lost {}, duplicated {}, altered {}, "
                 "out of order {}{}{}; ambiguous ones found {}, rows of others {}\n",
                 feed.passed() ? "verified" : "FAILED", s.rows, s.bytes, s.found, s.faults.lost,
                 s.faults.duplicated, s.faults.altered, s.faults.out_of_order,
                 s.faults.wrong_count ? ", wrong count" : "",
                 s.faults.malformed.empty() ? "" : ", " + s.faults.malformed, s.ambiguous_found, s.foreign);
  for (const std::string& example : s.faults.examples) fmt::format_to(out, "  {}\n", example);
}

void verification_text(std::string& text, const Verification& verification) {
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "verification: {} accepted, {} ambiguous\n", verification.accepted,
                 verification.ambiguous);
  feed_text(text, verification.feed);
  for (const CheckedFeed& feed : verification.backends) feed_text(text, feed);
  if (!verification.backends.empty()) {
    fmt::format_to(out, "feeds of the backends: {}\n",
                   verification.backends_equal ? "byte-equal" : "DIFFERENT");
  }
}

// What it comes to: thresholds, faults, verdict.
void judgement_text(std::string& text, const RunResult& result) {
  const auto out = std::back_inserter(text);
  text += thresholds_text(judge_thresholds(result));
  if (result.total.queue_full() > 0) {
    fmt::format_to(out, "NOTE: {} operations were not issued, since all users were busy and {} waited\n",
                   result.total.queue_full(), result.options.queue_max);
  }
  for (const std::string& reason : failures(result)) fmt::format_to(out, "FAILED: {}\n", reason);
  for (const std::string& reason : invalid_reasons(result)) {
    fmt::format_to(out, "INVALID: {}\n", reason);
  }
  if (result.leaderboard) text += verdict_text(verdict_of(result));
  if (result.interrupted) text += "INTERRUPTED: these figures are of a part of the run\n";
}

}  // namespace

std::string report_text(const RunResult& result) {
  std::string text;
  operations_text(text, result);
  stages_text(text, result);
  buckets_text(text, result.total);
  shares_text(text, result.total);
  generator_text(text, result);
  for (const CountedReason& reason : result.tls_failures) {
    text += fmt::format("no TLS, {} times: {}\n", reason.times, reason.text);
  }
  if (result.held) held_text(text, *result.held);
  if (result.chat) text += chat_text(*result.chat);
  if (result.verification) verification_text(text, *result.verification);
  judgement_text(text, result);
  return text;
}

}  // namespace dlb::loadgen
