// The rows that a run adds to the files that all runs share: summary.csv, operation-summary.csv and
// header-acceptance.csv. Each begins with the number of its schema; the columns are in docs/results.md.
#include <iterator>

#include "loadgen/csv.h"
#include "loadgen/report.h"
#include "loadgen/report_parts.h"

namespace dlb::loadgen {
namespace {

constexpr int kMs = 3;  // decimals
constexpr std::string_view kShort[] = {"p50", "p95", "p99"};

void add_percentile_names(std::string& header, std::string_view prefix) {
  for (const Percentile& p : kPercentiles) {
    header += ",";
    header += prefix;
    header += p.name;
    header += "_ms";
  }
}

void add_percentiles(CsvRow& csv, const Histogram& histogram_us) {
  for (const Percentile& p : kPercentiles) {
    if (histogram_us.count() == 0) {
      csv.empty();
    } else {
      csv.number(as_ms(histogram_us.percentile(p.percent)), kMs);
    }
  }
}

void add_short_names(std::string& header, std::string_view prefix) {
  for (const std::string_view name : kShort) {
    header += ",";
    header += prefix;
    header += name;
    header += "_ms";
  }
}

void add_short_percentiles(CsvRow& csv, const Histogram& histogram_us) {
  for (const double percent : {50.0, 95.0, 99.0}) {
    if (histogram_us.count() == 0) {
      csv.empty();
    } else {
      csv.number(as_ms(histogram_us.percentile(percent)), kMs);
    }
  }
}

std::uint64_t whole_bodies(const ClassTotals& totals) {
  return totals.in(Bucket::Ok) + totals.in(Bucket::OtherSuccess) + totals.in(Bucket::Redirect) +
         totals.in(Bucket::ClientError) + totals.in(Bucket::ServerError);
}

void start_row(CsvRow& csv, int schema, const RunResult& result) {
  csv.number(std::int64_t{schema}).text(iso8601_utc(result.started_wall_us)).text(result.options.experiment);
}

void add_verification(CsvRow& csv, const RunResult& result) {
  if (!result.verification) {
    csv.empty().empty().empty().empty();
    return;
  }
  const FeedFaults& faults = result.verification->feed.summary.faults;
  csv.text(result.verification->passed() ? "yes" : "no");
  csv.number(faults.lost).number(faults.duplicated).number(faults.altered);
}

void operation_row(std::string& text, const RunResult& result, const StageResult& stage,
                   OperationClass operation_class) {
  const ClassTotals& totals = stage.recorder.of(operation_class);
  if (totals.issued == 0) return;
  const std::uint64_t whole = whole_bodies(totals);
  const std::uint64_t interrupted = totals.in(Bucket::Interrupted);
  CsvRow csv(text);
  start_row(csv, kOperationSummarySchema, result);
  csv.text(stage.plan.name).text(operation_class_name(operation_class)).number(stage.plan.users);
  csv.empty().number(totals.issued).empty();
  csv.number(totals.heads).number(whole).number(totals.in(Bucket::Ok)).number(totals.failed());
  csv.number(totals.issued - totals.heads - interrupted).number(totals.heads - whole).number(interrupted);
  csv.number(totals.body_bytes);
  add_percentiles(csv, totals.header_us);
  add_percentiles(csv, totals.latency_us);
  add_percentiles(csv, totals.intended_us);
  csv.end();
}

// Of both kinds together, with the plan: what was not issued has no kind.
void all_operations_row(std::string& text, const RunResult& result, const StageResult& stage) {
  const Recorder& recorder = stage.recorder;
  std::uint64_t heads = 0;
  std::uint64_t whole = 0;
  std::uint64_t bytes = 0;
  for (const auto which : {OperationClass::Message, OperationClass::Feed}) {
    heads += recorder.of(which).heads;
    whole += whole_bodies(recorder.of(which));
    bytes += recorder.of(which).body_bytes;
  }
  const std::uint64_t interrupted = recorder.in(Bucket::Interrupted);
  CsvRow csv(text);
  start_row(csv, kOperationSummarySchema, result);
  csv.text(stage.plan.name).text("all").number(stage.plan.users);
  csv.number(recorder.planned()).number(recorder.issued_count()).number(recorder.not_issued());
  csv.number(heads).number(whole).number(recorder.in(Bucket::Ok)).number(recorder.failed());
  csv.number(recorder.issued_count() - heads - interrupted).number(heads - whole).number(interrupted);
  csv.number(bytes);
  for (std::size_t i = 0; i < 3 * kPercentiles.size(); ++i) csv.empty();
  csv.end();
}

}  // namespace

std::string summary_header() {
  std::string text =
      "schema,started,experiment,profile,altered,url,seed,users,rate,arrival,feed_percent,connection_mode,"
      "elapsed_seconds,stages,stages_ran,windows_hit,planned";
  for (std::size_t i = 0; i < kBuckets; ++i) {
    text += ",";
    text += bucket_name(static_cast<Bucket>(i));
  }
  text += ",ok_per_second";
  for (const std::string_view which : {"message_", "message_intended_", "feed_"}) {
    text += ",";
    text += which;
    text += "mean_ms";
    add_percentile_names(text, which);
  }
  return text +
         ",generator_cpu_seconds,longest_turn_ms,schedule_lag_p99_ms,verified,lost,duplicated,altered_"
         "messages,"
         "invalid,promotable,exit_code\n";
}

std::string summary_row(const RunResult& result) {
  const Recorder& recorder = result.total;
  const Options& o = result.options;
  std::int64_t ran = 0;
  std::int64_t windows = 0;
  for (const StageResult& stage : result.stages) {
    ran += stage.ran ? 1 : 0;
    windows += stage.hit_window ? 1 : 0;
  }
  std::string text;
  CsvRow csv(text);
  start_row(csv, kSummarySchema, result);
  csv.text(o.profile).text(result.altered ? "yes" : "no").text(joined_by_commas(load_urls(o)));
  csv.number(result.seed).number(o.users).number(o.rate, 3).text(o.arrival).number(o.feed_percent, 3);
  csv.text(connection_mode_name(o.mode)).number(seconds(result.elapsed), 6);
  csv.number(static_cast<std::int64_t>(result.stages.size())).number(ran).number(windows);
  csv.number(recorder.planned());
  for (std::size_t i = 0; i < kBuckets; ++i) csv.number(recorder.in(static_cast<Bucket>(i)));
  csv.number(per_second(recorder.in(Bucket::Ok), result.elapsed), 1);
  const ClassTotals& message = recorder.of(OperationClass::Message);
  for (const Histogram* histogram :
       {&message.latency_us, &message.intended_us, &recorder.of(OperationClass::Feed).latency_us}) {
    if (histogram->count() == 0) {
      csv.empty();
    } else {
      csv.number(histogram->mean() / 1000, kMs);
    }
    add_percentiles(csv, *histogram);
  }
  csv.number(result.cpu_seconds, kMs).number(seconds(result.longest_turn) * 1000, kMs);
  const Histogram& lag = recorder.schedule_lag_us();
  if (lag.count() == 0) {
    csv.empty();
  } else {
    csv.number(as_ms(lag.percentile(99)), kMs);
  }
  add_verification(csv, result);
  csv.text(invalid_reasons(result).empty() ? "no" : "yes");
  csv.text(!result.leaderboard ? "" : verdict_of(result).promotable() ? "yes" : "no");
  csv.number(std::int64_t{static_cast<int>(exit_code(result))}).end();
  return text;
}

std::string operation_summary_header() {
  std::string text =
      "schema,started,experiment,stage,operation,users,planned,issued,not_issued,heads,complete_bodies,ok,"
      "failed,"
      "transport_errors,body_errors,interrupted,body_bytes";
  add_percentile_names(text, "header_");
  add_percentile_names(text, "latency_");
  add_percentile_names(text, "intended_");
  return text + "\n";
}

std::string operation_summary_rows(const RunResult& result) {
  std::string text;
  for (const StageResult& stage : result.stages) {
    for (const auto which : {OperationClass::Message, OperationClass::Feed}) {
      operation_row(text, result, stage, which);
    }
    all_operations_row(text, result, stage);
  }
  return text;
}

std::string header_acceptance_header() {
  std::string text =
      "schema,started,experiment,stage,operation,issued,heads_2xx,complete_2xx,incomplete_2xx,ok,"
      "accepted_percent,ok_percent";
  add_short_names(text, "header_2xx_");
  add_short_names(text, "ok_");
  return text + "\n";
}

std::string header_acceptance_rows(const RunResult& result) {
  std::string text;
  for (const StageResult& stage : result.stages) {
    for (const auto which : {OperationClass::Message, OperationClass::Feed}) {
      const ClassTotals& totals = stage.recorder.of(which);
      if (totals.issued == 0) continue;
      const std::uint64_t whole = totals.in(Bucket::Ok) + totals.in(Bucket::OtherSuccess);
      const auto percent = [&](std::uint64_t part) {
        return 100 * static_cast<double>(part) / static_cast<double>(totals.issued);
      };
      CsvRow csv(text);
      start_row(csv, kHeaderAcceptanceSchema, result);
      csv.text(stage.plan.name).text(operation_class_name(which)).number(totals.issued);
      csv.number(totals.heads_2xx).number(whole).number(totals.heads_2xx - whole);
      csv.number(totals.in(Bucket::Ok)).number(percent(totals.heads_2xx), 4);
      csv.number(percent(totals.in(Bucket::Ok)), 4);
      add_short_percentiles(csv, totals.header_2xx_us);
      add_short_percentiles(csv, totals.latency_us);
      csv.end();
    }
  }
  return text;
}

}  // namespace dlb::loadgen
