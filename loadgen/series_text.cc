// The series as JSON and as rows of EXPERIMENT-TIME-series.csv.
#include <functional>

#include "common/json_writer.h"
#include "loadgen/csv.h"
#include "loadgen/series.h"

namespace dlb::loadgen {
namespace {

constexpr int kDecimals = 3;

// One element a row; what is below 0 is null.
void numbers(JsonWriter& json, std::string_view name, const std::vector<SeriesRow>& rows,
             const std::function<double(const SeriesRow&)>& value) {
  json.key(name).begin_array();
  for (const SeriesRow& row : rows) {
    const double v = value(row);
    if (v < 0) {
      json.null();
    } else {
      json.value(v, kDecimals);
    }
  }
  json.end_array();
}

template <class Value>
void counts(JsonWriter& json, std::string_view name, const std::vector<SeriesRow>& rows, Value value) {
  json.key(name).begin_array();
  for (const SeriesRow& row : rows) json.value(value(row));
  json.end_array();
}

void latencies(JsonWriter& json, std::string_view prefix, const std::vector<SeriesRow>& rows,
               SeriesLatency SeriesRow::*which) {
  const std::string start(prefix);
  numbers(json, start + "p50_ms", rows, [=](const SeriesRow& row) { return (row.*which).p50_ms; });
  numbers(json, start + "p95_ms", rows, [=](const SeriesRow& row) { return (row.*which).p95_ms; });
  numbers(json, start + "p99_ms", rows, [=](const SeriesRow& row) { return (row.*which).p99_ms; });
}

std::uint64_t in_bucket(const SeriesRow& row, std::size_t bucket) { return row.buckets[bucket]; }

}  // namespace

void series_json(JsonWriter& json, const Series& series) {
  const std::vector<SeriesRow>& rows = series.rows();
  json.begin_object().field("step_seconds", series.step_seconds());
  counts(json, "second", rows, [](const SeriesRow& row) { return row.second; });
  json.key("stage").begin_array();
  for (const SeriesRow& row : rows) {
    if (row.stage < 0) {
      json.null();
    } else {
      json.value(series.stages()[static_cast<std::size_t>(row.stage)]);
    }
  }
  json.end_array();
  counts(json, "users", rows, [](const SeriesRow& row) { return row.users; });
  counts(json, "planned", rows, [](const SeriesRow& row) { return row.planned; });
  counts(json, "issued", rows, [](const SeriesRow& row) { return row.issued; });
  counts(json, "done", rows, [](const SeriesRow& row) { return row.done(); });
  counts(json, "ok", rows, [](const SeriesRow& row) { return row.ok(); });
  counts(json, "failed", rows, [](const SeriesRow& row) { return row.failed(); });
  latencies(json, "", rows, &SeriesRow::message);
  latencies(json, "feed_", rows, &SeriesRow::feed);
  if (series.intended()) latencies(json, "intended_", rows, &SeriesRow::intended);

  json.key("buckets").begin_object();
  for (std::size_t bucket = 1; bucket < kBuckets; ++bucket) {
    bool any = false;
    for (const SeriesRow& row : rows) any = any || row.buckets[bucket] > 0;
    if (!any) continue;
    counts(json, bucket_name(static_cast<Bucket>(bucket)), rows,
           [=](const SeriesRow& row) { return in_bucket(row, bucket); });
  }
  json.end_object().key("backends").begin_object();
  for (std::size_t backend = 0; backend < series.backends().size(); ++backend) {
    counts(json, series.backends()[backend], rows,
           [=](const SeriesRow& row) { return backend < row.responses.size() ? row.responses[backend] : 0; });
  }
  json.end_object().end_object();
}

std::string series_csv_header() {
  std::string text = "schema,second,stage,users,planned,issued,done,ok,failed";
  for (const std::string_view which : {"", "feed_", "intended_"}) {
    for (const std::string_view percentile : {"p50", "p95", "p99"}) {
      text += ",";
      text += which;
      text += percentile;
      text += "_ms";
    }
  }
  for (std::size_t bucket = 1; bucket < kBuckets; ++bucket) {
    if (static_cast<Bucket>(bucket) == Bucket::NotIssued) continue;
    text += ",";
    text += bucket_name(static_cast<Bucket>(bucket));
  }
  return text + ",answers,backends\n";
}

std::string series_csv_row(const SeriesRow& row, std::string_view stage,
                           const std::vector<std::string>& backends) {
  std::string text;
  CsvRow csv(text);
  csv.number(std::int64_t{kSeriesSchema}).number(row.second).text(stage).number(row.users);
  csv.number(row.planned).number(row.issued).number(row.done()).number(row.ok()).number(row.failed());
  for (const SeriesLatency* latency : {&row.message, &row.feed, &row.intended}) {
    for (const double ms : {latency->p50_ms, latency->p95_ms, latency->p99_ms}) {
      csv.number(ms, kDecimals, true);
    }
  }
  for (std::size_t bucket = 1; bucket < kBuckets; ++bucket) {
    if (static_cast<Bucket>(bucket) != Bucket::NotIssued) csv.number(std::uint64_t{row.buckets[bucket]});
  }
  std::string shares;
  for (std::size_t i = 0; i < row.responses.size() && i < backends.size(); ++i) {
    shares += (shares.empty() ? "" : " ") + backends[i] + "=" + std::to_string(row.responses[i]);
  }
  csv.number(row.answers).text(shares).end();
  return text;
}

}  // namespace dlb::loadgen
