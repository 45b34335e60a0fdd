#include "common/metric.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "common/check.h"

namespace dlb {
namespace metric_detail {
namespace {

// Upper bounds of the buckets of a Histogram metric, microseconds. The last one, +Inf, is written apart.
struct Bucket {
  std::uint64_t us;
  std::string_view label;
};
constexpr Bucket kBuckets[] = {
    {500, "le=\"0.0005\""},   {1'000, "le=\"0.001\""},   {2'500, "le=\"0.0025\""},  {5'000, "le=\"0.005\""},
    {10'000, "le=\"0.01\""},  {25'000, "le=\"0.025\""},  {50'000, "le=\"0.05\""},   {100'000, "le=\"0.1\""},
    {250'000, "le=\"0.25\""}, {500'000, "le=\"0.5\""},   {1'000'000, "le=\"1\""},   {2'500'000, "le=\"2.5\""},
    {5'000'000, "le=\"5\""},  {10'000'000, "le=\"10\""}, {30'000'000, "le=\"30\""},
};

std::string_view kind_name(MetricKind kind) {
  switch (kind) {
    case MetricKind::Counter:
      return "counter";
    case MetricKind::Gauge:
      return "gauge";
    case MetricKind::Summary:
      return "summary";
    case MetricKind::Histogram:
      return "histogram";
  }
  return "untyped";
}

MetricValue read(const MetricRow& row, const void* source) {
  MetricValue value;
  row.get(source, value);
  const bool is_summary = value.kind == MetricValue::Kind::Summary;
  const bool is_histogram = value.kind == MetricValue::Kind::Histogram;
  DLB_CHECK_MSG(is_summary == (row.spec.kind == MetricKind::Summary), row.spec.name);
  DLB_CHECK_MSG(is_histogram == (row.spec.kind == MetricKind::Histogram), row.spec.name);
  return value;
}

void append_real(std::string& out, double value) {
  if (std::isnan(value))
    out += "NaN";
  else if (std::isinf(value))
    out += value > 0 ? "+Inf" : "-Inf";
  else
    append_json_double(out, value);
}

// `name_suffix{labels...} ` of one sample line.
void append_sample_head(std::string& out, std::string_view name, std::string_view suffix,
                        std::initializer_list<std::string_view> labels) {
  out += name;
  out += suffix;
  bool open = false;
  for (const std::string_view label : labels) {
    if (label.empty()) continue;
    out += open ? ',' : '{';
    open = true;
    out += label;
  }
  if (open) out += '}';
  out += ' ';
}

void append_plain(std::string& out, const MetricRow& row, std::string_view labels, const MetricValue& value) {
  append_sample_head(out, row.spec.name, "", {labels, row.spec.labels});
  switch (value.kind) {
    case MetricValue::Kind::Signed:
      append_json_integer(out, value.signed_value);
      break;
    case MetricValue::Kind::Real:
      append_real(out, value.real_value);
      break;
    default:
      append_json_unsigned(out, value.unsigned_value);
      break;
  }
  out += '\n';
}

void append_sum_and_count(std::string& out, const MetricRow& row, std::string_view labels, double sum,
                          std::uint64_t count) {
  append_sample_head(out, row.spec.name, "_sum", {labels, row.spec.labels});
  append_real(out, sum);
  out += '\n';
  append_sample_head(out, row.spec.name, "_count", {labels, row.spec.labels});
  append_json_unsigned(out, count);
  out += '\n';
}

void append_summary(std::string& out, const MetricRow& row, std::string_view labels, const Quantiles& q) {
  const std::pair<std::string_view, double> quantiles[] = {
      {"quantile=\"0.5\"", q.p50}, {"quantile=\"0.95\"", q.p95}, {"quantile=\"0.99\"", q.p99}};
  for (const auto& [label, value] : quantiles) {
    append_sample_head(out, row.spec.name, "", {labels, row.spec.labels, label});
    append_real(out, q.count == 0 ? std::nan("") : value);
    out += '\n';
  }
  append_sum_and_count(out, row, labels, q.total_sum, q.total_count);
}

void append_histogram(std::string& out, const MetricRow& row, std::string_view labels, const Histogram& h) {
  for (const Bucket& bucket : kBuckets) {
    append_sample_head(out, row.spec.name, "_bucket", {labels, row.spec.labels, bucket.label});
    append_json_unsigned(out, h.count_at_or_below(bucket.us));
    out += '\n';
  }
  append_sample_head(out, row.spec.name, "_bucket", {labels, row.spec.labels, "le=\"+Inf\""});
  append_json_unsigned(out, h.count());
  out += '\n';
  append_sum_and_count(out, row, labels, static_cast<double>(h.sum()) / 1e6, h.count());
}

void append_header(std::string& out, const MetricSpec& spec) {
  out += "# HELP ";
  out += spec.name;
  out += ' ';
  for (const char c : spec.help) {
    if (c == '\\')
      out += "\\\\";
    else if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  out += "\n# TYPE ";
  out += spec.name;
  out += ' ';
  out += kind_name(spec.kind);
  out += '\n';
}

void write_json_value(JsonWriter& json, const MetricSpec& spec, const MetricValue& value) {
  const auto real = [&](double v) { json.value(v * spec.json_scale, spec.json_decimals); };
  const auto distribution = [&](const Quantiles& q, double unit) {
    const double mean = q.total_count == 0 ? 0 : q.total_sum / static_cast<double>(q.total_count);
    json.begin_object().field("count", q.total_count).key("mean");
    real(mean * unit);
    const std::pair<std::string_view, double> parts[] = {
        {"p50", q.p50}, {"p95", q.p95}, {"p99", q.p99}, {"max", q.max}};
    for (const auto& [name, part] : parts) {
      json.key(name);
      real(part * unit);
    }
    json.end_object();
  };
  const bool scaled = spec.json_scale != 1;
  switch (value.kind) {
    case MetricValue::Kind::Unsigned:
      scaled ? real(static_cast<double>(value.unsigned_value)) : void(json.value(value.unsigned_value));
      break;
    case MetricValue::Kind::Signed:
      scaled ? real(static_cast<double>(value.signed_value)) : void(json.value(value.signed_value));
      break;
    case MetricValue::Kind::Real:
      real(value.real_value);
      break;
    case MetricValue::Kind::Bool:
      json.value(value.unsigned_value != 0);
      break;
    case MetricValue::Kind::Summary:
      distribution(value.quantiles, 1);
      break;
    case MetricValue::Kind::Histogram:
      distribution(value.histogram->quantiles(), 1e-6);
      break;
  }
}

std::vector<std::string_view> split_path(std::string_view path) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t dot = path.find('.');
    parts.push_back(path.substr(0, dot));
    if (dot == std::string_view::npos) return parts;
    path.remove_prefix(dot + 1);
  }
}

}  // namespace

void prometheus(std::string& out, std::span<const MetricRow> rows, std::span<const ErasedSeries> series,
                const void* owner) {
  std::string_view current_name;
  for (const MetricRow& row : rows) {
    DLB_CHECK_MSG(row.owner == owner, row.spec.name);
    if (row.spec.name.empty() || series.empty()) continue;
    if (row.spec.name != current_name) append_header(out, row.spec);
    current_name = row.spec.name;
    for (const ErasedSeries& one : series) {
      const MetricValue value = read(row, one.source);
      if (value.kind == MetricValue::Kind::Summary)
        append_summary(out, row, one.labels, value.quantiles);
      else if (value.kind == MetricValue::Kind::Histogram)
        append_histogram(out, row, one.labels, *value.histogram);
      else
        append_plain(out, row, one.labels, value);
    }
  }
}

void json_members(JsonWriter& json, std::span<const MetricRow> rows, const void* source, const void* owner) {
  std::vector<std::string_view> open;  // objects that are open inside the caller's
  for (const MetricRow& row : rows) {
    DLB_CHECK_MSG(row.owner == owner, row.spec.name);
    if (row.spec.json.empty()) continue;
    const std::vector<std::string_view> path = split_path(row.spec.json);
    std::size_t shared = 0;
    while (shared < open.size() && shared + 1 < path.size() && open[shared] == path[shared]) ++shared;
    for (; open.size() > shared; open.pop_back()) json.end_object();
    for (; open.size() + 1 < path.size(); open.push_back(path[open.size()])) {
      json.key(path[open.size()]).begin_object();
    }
    json.key(path.back());
    write_json_value(json, row.spec, read(row, source));
  }
  for (; !open.empty(); open.pop_back()) json.end_object();
}

}  // namespace metric_detail

std::string metric_label(std::string_view name, std::string_view value) {
  std::string label(name);
  label += "=\"";
  while (!value.empty()) {
    const std::size_t good = valid_utf8_prefix(value);
    for (const char c : value.substr(0, good)) {
      if (c == '\\' || c == '"') label += '\\';
      if (c == '\n')
        label += "\\n";
      else
        label += c;
    }
    value.remove_prefix(good);
    if (value.empty()) break;
    label += "\xEF\xBF\xBD";
    value.remove_prefix(1);
  }
  label += '"';
  return label;
}

std::string metrics_markdown(std::span<const MetricRow> rows, std::string_view label_names) {
  std::string out = "| metric | kind | unit | labels | JSON | meaning |\n|---|---|---|---|---|---|\n";
  const auto code_cell = [&](std::string_view text) {
    if (text.empty())
      out += " |";
    else
      (((out += " `") += text) += "` |");
  };
  for (const MetricRow& row : rows) {
    std::string labels(label_names);
    if (!labels.empty() && !row.spec.labels.empty()) labels += ", ";
    labels += row.spec.labels;
    out += '|';
    code_cell(row.spec.name);
    ((out += ' ') += metric_detail::kind_name(row.spec.kind)) += " | ";
    (out += row.spec.unit) += " |";
    code_cell(labels);
    code_cell(row.spec.json);
    ((out += ' ') += row.spec.help) += " |\n";
  }
  return out;
}

namespace {

// Walks rows in order and keeps what it needs of those before.
class RowChecker {
 public:
  void check(const MetricRow& row) {
    id_ = row.spec.name.empty() ? row.spec.json : row.spec.name;
    const std::string_view help = row.spec.help;
    if (help.empty() || help.find('\n') != std::string_view::npos) fault("help must be one line of text");
    if (!row.spec.name.empty()) check_name(row.spec);
    if (!row.spec.json.empty()) check_json(std::string(row.spec.json));
  }
  std::vector<std::string> take() { return std::move(faults_); }

 private:
  using Names = std::set<std::string, std::less<>>;

  void fault(std::string_view text) { faults_.push_back(id_ + ": " + std::string(text)); }

  void check_name(const MetricSpec& spec) {
    const auto allowed = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
    if (!spec.name.starts_with("dlb_")) fault("must start with dlb_");
    if (!std::ranges::all_of(spec.name, allowed)) fault("only a-z, 0-9 and _ are allowed");
    if (spec.name.ends_with("_total") != (spec.kind == MetricKind::Counter)) {
      fault("_total is for counters, and only them");
    }
    for (const std::string_view bad :
         {"_ms", "_us", "_millis", "_micros", "_kb", "_mb", "_kib", "_mib", "_minutes"}) {
      if (spec.name.ends_with(bad) || spec.name.find(std::string(bad) + "_") != std::string_view::npos) {
        fault("must use base units (seconds, bytes)");
      }
    }
    const bool has_unit = spec.unit == "seconds" || spec.unit == "bytes";
    if (has_unit && spec.name.find("_" + std::string(spec.unit)) == std::string_view::npos) {
      fault("must name its unit, as in _" + std::string(spec.unit));
    }
    const bool same_group = group_.name == spec.name;
    if (!same_group && !names_.insert(id_).second) fault("rows of one name must stand side by side");
    if (same_group && group_.kind != spec.kind) fault("rows of one name must have one kind");
    if (!labelled_.insert(id_ + "{" + std::string(spec.labels)).second) {
      fault("is declared twice with the same labels");
    }
    group_ = spec;
  }

  void check_json(const std::string& path) {
    if (!values_.insert(path).second) fault("JSON path is used twice");
    std::vector<std::string> objects;
    for (std::size_t dot = path.find('.'); dot != std::string::npos; dot = path.find('.', dot + 1)) {
      objects.push_back(path.substr(0, dot));
    }
    bool both = objects_.contains(path);
    for (std::size_t i = 0; i < objects.size(); ++i) {
      const bool is_open = i < open_.size() && open_[i] == objects[i];
      if (!is_open && !objects_.insert(objects[i]).second)
        fault("JSON members of one object must stand side by side");
      both = both || values_.contains(objects[i]);
    }
    if (both) fault("JSON path is both a value and an object");
    open_ = std::move(objects);
  }

  std::string id_;
  std::vector<std::string> faults_;
  MetricSpec group_;               // the row before
  Names names_, labelled_;         // Prometheus: names, and names with fixed labels
  Names values_, objects_;         // JSON: paths of values and of objects
  std::vector<std::string> open_;  // objects that the row before was in
};

}  // namespace

std::vector<std::string> metric_row_faults(std::span<const MetricRow> rows) {
  RowChecker checker;
  for (const MetricRow& row : rows) checker.check(row);
  return checker.take();
}

}  // namespace dlb
