// Metrics: one row array per kind of source is the only place where a metric is declared; Prometheus text,
// JSON and the README table are renderers of the rows.
//
//   constexpr MetricRow kRows[] = {
//       metric<&Counters::requests>({.name = "dlb_requests_total", .json = "requests.total", .help = "..."}),
//       metric<[](const Counters& c) { return c.slots.used(); }>(
//           {.name = "dlb_in_flight", .kind = MetricKind::Gauge, .json = "in_flight", .help = "..."}),
//   };
//
// A getter is a member pointer or a captureless lambda of the source; it may give any number, bool,
// std::atomic of those, Quantiles (kind Summary) or a const Histogram& (kind Histogram, microseconds shown as
// seconds). Unlabelled programs have one source; labelled series (per backend) pass several. Renders on the
// control thread; getters must be safe there.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "common/histogram.h"
#include "common/json_writer.h"

namespace dlb {

enum class MetricKind : std::uint8_t { Counter, Gauge, Summary, Histogram };

struct MetricSpec {
  std::string_view name{};  // `dlb_…`, base units; a counter ends in `_total`. Empty: JSON only
  MetricKind kind = MetricKind::Counter;
  std::string_view unit{};    // "seconds", "bytes", "percent", ...; for the README
  std::string_view labels{};  // fixed ones of this row, `class="2xx"`; rows of one name stand side by side
  std::string_view json{};    // path in the JSON document, `requests.total`; empty: Prometheus only
  double json_scale = 1;      // e.g. 1000 for `latency_ms`
  int json_decimals = -1;     // of reals; -1: shortest
  std::string_view help{};    // one sentence, no newline
};

// A value as a getter gave it.
struct MetricValue {
  enum class Kind : std::uint8_t { Unsigned, Signed, Real, Bool, Summary, Histogram } kind = Kind::Unsigned;
  std::uint64_t unsigned_value = 0;
  std::int64_t signed_value = 0;
  double real_value = 0;
  Quantiles quantiles{};
  const Histogram* histogram = nullptr;
};

struct MetricRow {
  MetricSpec spec{};
  const void* owner = nullptr;  // identifies the source's type
  void (*get)(const void* source, MetricValue& out) = nullptr;
};

// One labelled series: `labels` as metric_label() makes them, e.g. `backend="sys2"`; empty for none.
template <class Source>
struct MetricSeries {
  std::string labels;
  const Source* source;
};

// `name="value"` with the value escaped as Prometheus wants it. Join several with commas.
std::string metric_label(std::string_view name, std::string_view value);

inline constexpr std::string_view kPrometheusContentType = "text/plain; version=0.0.4; charset=utf-8";

// Appends all rows in Prometheus text format 0.0.4, HELP and TYPE once a name.
template <class Source>
void append_prometheus(std::string& out, std::span<const MetricRow> rows, const Source& source,
                       std::string_view labels = {});
template <class Source>
void append_prometheus(std::string& out, std::span<const MetricRow> rows,
                       std::span<const MetricSeries<Source>> series);

// Writes the rows as members of the object that `json` is in: `requests.total` and `requests.failed`, side by
// side, become "requests":{"total":…,"failed":…}. A summary is {"count","mean","p50","p95","p99","max"}.
template <class Source>
void append_json_members(JsonWriter& json, std::span<const MetricRow> rows, const Source& source);

// A table `| metric | kind | unit | labels | JSON | meaning |`; `label_names` of the series, e.g. "backend".
std::string metrics_markdown(std::span<const MetricRow> rows, std::string_view label_names = {});

// What breaks our naming rules (prefix, `_total`, base units, grouping, unique), one sentence each; for unit
// tests.
std::vector<std::string> metric_row_faults(std::span<const MetricRow> rows);

// ---- below: how rows are made and the type-erased functions behind the templates ----

namespace metric_detail {

template <class T>
inline constexpr char kOwnerTag = 0;

template <class T>
struct SourceOf;
template <class Class, class Value>
struct SourceOf<Value Class::*> {
  using Type = Class;
};
template <class Class, class Value>
struct SourceOf<Value (Class::*)() const> {
  using Type = Class;
};
template <class Lambda, class Value, class Source>
struct SourceOf<Value (Lambda::*)(const Source&) const> {
  using Type = Source;
};

template <class Getter>
constexpr auto source_of() {
  if constexpr (std::is_member_pointer_v<Getter>)
    return SourceOf<Getter>{};
  else
    return SourceOf<decltype(&Getter::operator())>{};
}

inline void store(MetricValue& out, const Quantiles& value) {
  out.kind = MetricValue::Kind::Summary;
  out.quantiles = value;
}
inline void store(MetricValue& out, const Histogram& value) {
  out.kind = MetricValue::Kind::Histogram;
  out.histogram = &value;
}
template <class Number>
requires std::is_arithmetic_v<Number>
void store(MetricValue& out, Number value) {
  if constexpr (std::is_same_v<Number, bool>) {
    out.kind = MetricValue::Kind::Bool;
    out.unsigned_value = value ? 1 : 0;
  } else if constexpr (std::is_floating_point_v<Number>) {
    out.kind = MetricValue::Kind::Real;
    out.real_value = static_cast<double>(value);
  } else if constexpr (std::is_signed_v<Number>) {
    out.kind = MetricValue::Kind::Signed;
    out.signed_value = value;
  } else {
    out.kind = MetricValue::Kind::Unsigned;
    out.unsigned_value = value;
  }
}
template <class Number>
void store(MetricValue& out, const std::atomic<Number>& value) {
  store(out, value.load(std::memory_order_relaxed));
}

struct ErasedSeries {
  std::string_view labels;
  const void* source;
};
void prometheus(std::string& out, std::span<const MetricRow> rows, std::span<const ErasedSeries> series,
                const void* owner);
void json_members(JsonWriter& json, std::span<const MetricRow> rows, const void* source, const void* owner);

}  // namespace metric_detail

template <auto Getter>
constexpr MetricRow metric(MetricSpec spec) {
  using Source = typename decltype(metric_detail::source_of<std::remove_cv_t<decltype(Getter)>>())::Type;
  MetricRow row;
  row.spec = spec;
  row.owner = &metric_detail::kOwnerTag<Source>;
  row.get = [](const void* source, MetricValue& out) {
    metric_detail::store(out, std::invoke(Getter, *static_cast<const Source*>(source)));
  };
  return row;
}

template <class Source>
void append_prometheus(std::string& out, std::span<const MetricRow> rows, const Source& source,
                       std::string_view labels) {
  const metric_detail::ErasedSeries series{labels, &source};
  metric_detail::prometheus(out, rows, {&series, 1}, &metric_detail::kOwnerTag<Source>);
}

template <class Source>
void append_prometheus(std::string& out, std::span<const MetricRow> rows,
                       std::span<const MetricSeries<Source>> series) {
  std::vector<metric_detail::ErasedSeries> erased;
  erased.reserve(series.size());
  for (const auto& one : series) erased.push_back({one.labels, one.source});
  metric_detail::prometheus(out, rows, erased, &metric_detail::kOwnerTag<Source>);
}

template <class Source>
void append_json_members(JsonWriter& json, std::span<const MetricRow> rows, const Source& source) {
  metric_detail::json_members(json, rows, &source, &metric_detail::kOwnerTag<Source>);
}

}  // namespace dlb
