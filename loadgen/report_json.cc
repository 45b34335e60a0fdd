// The report for programs: one JSON object, whose schema number is kReportSchema.
#include <array>
#include <cstring>

#include "common/json_writer.h"
#include "loadgen/chat_report.h"
#include "loadgen/report.h"
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
  json.field("heads", totals.heads).field("heads_2xx", totals.heads_2xx);
  histogram_json(json, "slow_reader_latency_ms", totals.slow_us);
  json.end_object();
}

void config_json(JsonWriter& json, const RunResult& result) {
  const Options& o = result.options;
  json.key("config").begin_object().field("profile", o.profile).field("altered", result.altered);
  json.key("url").begin_array();
  for (const std::string& url : o.url) json.value(url);
  json.end_array()
      .field("users", o.users)
      .field("requests", o.requests)
      .field("duration_seconds", seconds(o.duration))
      .field("warmup_seconds", seconds(o.warmup))
      .field("cooldown_seconds", seconds(o.cooldown))
      .field("stage_issue_timeout_seconds", seconds(o.stage_issue_timeout))
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
      .field("stages", o.stages)
      .field("ramp_up_seconds", seconds(o.ramp_up))
      .field("duplicate_percent", o.duplicate_percent)
      .field("requests_per_connection", o.requests_per_connection)
      .field("source_addresses", joined_by_commas(o.source_addresses))
      .field("slow_reader_percent", o.slow_reader_percent)
      .field("slow_reader_rate", o.slow_reader_rate)
      .field("held_new_connections", o.held_new_connections)
      .field("held_new_stage", o.held_stage)
      .field("held_new_age_seconds", seconds(o.held_new_age))
      .field("response_read_delay_seconds", seconds(o.response_read_delay))
      .field("request_timeout_seconds", seconds(o.request_timeout))
      .field("max_errors", o.max_errors)
      .field("fail", joined_by_commas(o.fail))
      .field("verify_feed", o.verify_feed)
      .field("verify_urls", joined_by_commas(o.verify_urls))
      .field("ca", o.ca)
      .field("insecure", o.insecure)
      .field("lb_url", o.lb_url)
      .field("system_urls", joined_by_commas(o.system_urls))
      .field("metrics_interval_seconds", seconds(o.metrics_interval))
      .field("wss_url", joined_by_commas(o.wss_url))
      .field("subscribers", o.subscribers)
      .field("publishers", o.publishers)
      .field("chat_key", o.chat_key)
      .field("reconnect_percent", o.reconnect_percent)
      .field("settle_timeout_seconds", seconds(o.settle_timeout))
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

// Everything that a recorder knows of operations: of the run, or of one stage.
void operations_json(JsonWriter& json, const Recorder& recorder, Duration elapsed) {
  json.key("operations").begin_object();
  json.field("planned", recorder.planned()).field("done", recorder.done()).field("failed", recorder.failed());
  json.field("throughput_per_second", per_second(recorder.in(Bucket::Ok), elapsed), 1);
  json.key("buckets").begin_object();
  for (std::size_t i = 0; i < kBuckets; ++i) {
    json.field(bucket_name(static_cast<Bucket>(i)), recorder.in(static_cast<Bucket>(i)));
  }
  json.end_object().field("idle_close_races", recorder.idle_close_races());
  json.field("queue_full", recorder.queue_full()).field("repeats", recorder.repeats());
  json.field("mismatched_answers", recorder.mismatched_answers());
  json.key("errnos").begin_object();
  for (const auto& [err, count] : recorder.errnos()) {
    const char* name = ::strerrorname_np(err);
    json.field(name != nullptr ? std::string(name) : std::to_string(err), count);
  }
  json.end_object();
  for (const auto which : {OperationClass::Message, OperationClass::Feed}) {
    class_json(json, recorder.of(which), which, elapsed);
  }
  json.end_object();
}

void held_json(JsonWriter& json, const RunResult& result) {
  json.key("held");
  if (!result.held) {
    json.null();
    return;
  }
  const HeldTotals& held = *result.held;
  json.begin_object()
      .field("wanted", held.wanted)
      .field("stage", result.options.held_stage)
      .field("age_seconds", seconds(result.options.held_new_age))
      .field("opened", held.opened)
      .field("connect_failed", held.connect_failed)
      .field("closed_silent", held.closed_silent)
      .field("answered", held.answered)
      .field("failed", held.failed)
      .field("unfinished", held.unfinished);
  json.key("failures").begin_object();
  for (const auto& [name, count] : held.failures) json.field(name, count);
  json.end_object();
  histogram_json(json, "closed_age_ms", held.closed_age_us);
  histogram_json(json, "latency_ms", held.latency_us);
  json.end_object();
}

void stages_json(JsonWriter& json, const RunResult& result) {
  json.key("stages").begin_array();
  for (const StageResult& stage : result.stages) {
    json.begin_object()
        .field("name", stage.plan.name)
        .field("ladder", stage.plan.ladder)
        .field("users", stage.plan.users)
        .field("rate", stage.plan.rate)
        .field("seed", stage.plan.seed)
        .field("ran", stage.ran)
        .field("hit_window", stage.hit_window)
        .field("started_after_seconds", seconds(stage.started_after), 6)
        .field("elapsed_seconds", seconds(stage.elapsed), 6)
        .field("connections_opened", stage.connections_opened)
        .field("generator_cpu_seconds", stage.cpu_seconds, 6);
    operations_json(json, stage.recorder, stage.elapsed);
    json.end_object();
  }
  json.end_array();
}

}  // namespace

std::string report_json(const RunResult& result) {
  const Recorder& recorder = result.total;
  std::string text;
  JsonWriter json(text);
  json.begin_object()
      .field("schema", kReportSchema)
      .field("program", "loadgen " DLB_VERSION)
      .field("experiment", result.options.experiment)
      .field("started", iso8601_utc(result.started_wall_us))
      .field("elapsed_seconds", seconds(result.elapsed), 6)
      .field("interrupted", result.interrupted)
      .field("exit_code", static_cast<int>(exit_code(result)));
  json.key("failures").begin_array();
  for (const std::string& reason : failures(result)) json.value(reason);
  json.end_array().key("invalid").begin_array();
  for (const std::string& reason : invalid_reasons(result)) json.value(reason);
  json.end_array().key("thresholds");
  thresholds_json(json, judge_thresholds(result));
  config_json(json, result);
  operations_json(json, recorder, result.elapsed);
  stages_json(json, result);
  json.key("series");
  series_json(json, result.series);
  json.key("systems");
  systems_json(json, result.systems);
  if (result.leaderboard) {
    json.key("verdict");
    verdict_json(json, verdict_of(result));
  }
  json.key("backends").begin_array();
  for (const BackendShare& share : recorder.backends()) {
    json.begin_object()
        .field("id", share.name)
        .field("responses", share.responses)
        .field("ok", share.ok)
        .field("latency_ms_mean", share.latency_us_mean() / 1000, 3)
        .end_object();
  }
  json.end_array();
  json.key("connections").begin_object().field("opened", result.connections_opened);
  json.field("stray_bytes", result.stray_bytes);
  json.key("tls_failures").begin_object();
  for (const CountedReason& reason : result.tls_failures) json.field(reason.text, reason.times);
  json.end_object();
  histogram_json(json, "connect_ms", recorder.connect_us());
  json.end_object();
  held_json(json, result);
  verification_json(json, result);
  if (result.chat) {
    json.key("chat");
    chat_json(json, *result.chat);
  }
  const std::uint64_t done = recorder.done();
  json.key("generator").begin_object().field("cpu_seconds", result.cpu_seconds, 6);
  json.field("cpu_us_per_operation", done == 0 ? 0 : result.cpu_seconds * 1e6 / static_cast<double>(done), 2);
  json.field("longest_turn_ms", seconds(result.longest_turn) * 1000, 3);
  json.field("cpu_share", result.generator().cpu_share(), 4);
  json.field("core_wait_share", result.generator().wait_share(), 4);
  json.field("core_wait_ms_mean", result.waits.mean_ms(), 3);
  histogram_json(json, "schedule_lag_ms", recorder.schedule_lag_us());
  json.end_object().end_object();
  text += '\n';
  return text;
}

}  // namespace dlb::loadgen
