#include "loadgen/thresholds.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <memory>
#include <utility>

#include "common/json_writer.h"
#include "common/units.h"

namespace dlb::loadgen {
namespace {

template <class Value>
struct Named {
  std::string_view name;
  Value value;
};

constexpr std::array kStatistics = {
    Named<Statistic>{"p50", Statistic::P50},   Named<Statistic>{"p90", Statistic::P90},
    Named<Statistic>{"p95", Statistic::P95},   Named<Statistic>{"p99", Statistic::P99},
    Named<Statistic>{"p999", Statistic::P999}, Named<Statistic>{"mean", Statistic::Mean},
    Named<Statistic>{"max", Statistic::Max}};
constexpr std::array kClasses = {Named<std::optional<OperationClass>>{"post", OperationClass::Message},
                                 Named<std::optional<OperationClass>>{"ack", OperationClass::Message},
                                 Named<std::optional<OperationClass>>{"feed", OperationClass::Feed},
                                 Named<std::optional<OperationClass>>{"all", std::nullopt}};
constexpr std::array kQuantities = {Named<Quantity>{"errors", Quantity::Errors},
                                    Named<Quantity>{"lost", Quantity::Lost},
                                    Named<Quantity>{"duplicated", Quantity::Duplicated},
                                    Named<Quantity>{"altered", Quantity::Altered},
                                    Named<Quantity>{"reordered", Quantity::Reordered},
                                    Named<Quantity>{"missed", Quantity::Missed},
                                    Named<Quantity>{"rate", Quantity::Rate}};
// The longer ones first: `<=` is not `<`.
constexpr std::array kComparisons = {
    Named<Comparison>{"<=", Comparison::AtMost}, Named<Comparison>{">=", Comparison::AtLeast},
    Named<Comparison>{"==", Comparison::Equal}, Named<Comparison>{"<", Comparison::Less},
    Named<Comparison>{">", Comparison::Greater}};

template <class Table>
auto row_named(const Table& table, std::string_view name) {
  return std::find_if(table.begin(), table.end(), [&](const auto& row) { return row.name == name; });
}

class ThresholdParser {
 public:
  explicit ThresholdParser(std::string_view text) : text_(text) {}

  Result<std::vector<Threshold>> parse() {
    std::vector<Threshold> thresholds;
    skip_blanks();
    if (at_ == text_.size()) return thresholds;
    for (;;) {
      Threshold threshold;
      if (auto one = parse_one(threshold); !one) return one.error();
      thresholds.push_back(std::move(threshold));
      if (at_ == text_.size()) return thresholds;
      ++at_;  // the separator that ended the value
    }
  }

 private:
  static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  }
  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  std::string_view word() {
    const std::size_t from = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    return text_.substr(from, at_ - from);
  }
  Error error(std::size_t at, std::string_view what) const {
    return Error{fmt::format("\"{}\", column {}: {}", text_, at + 1, what)};
  }

  Result<void> parse_one(Threshold& threshold) {
    skip_blanks();
    const std::size_t from = at_;
    if (auto metric = parse_metric(threshold); !metric) return metric;
    skip_blanks();
    const auto comparison = std::find_if(kComparisons.begin(), kComparisons.end(), [&](const auto& row) {
      return text_.substr(at_).starts_with(row.name);
    });
    if (comparison == kComparisons.end()) return error(at_, "one of < <= > >= == is expected");
    threshold.comparison = comparison->value;
    at_ += comparison->name.size();
    skip_blanks();
    if (auto value = parse_value(threshold); !value) return value;
    threshold.text = text_.substr(from, at_ - from);
    while (threshold.text.back() == ' ' || threshold.text.back() == '\t') threshold.text.pop_back();
    return {};
  }

  Result<void> parse_metric(Threshold& threshold) {
    const std::size_t from = at_;
    const std::string_view name = word();
    if (const auto row = row_named(kStatistics, name); row != kStatistics.end()) {
      threshold.quantity = Quantity::Latency;
      threshold.statistic = row->value;
      return parse_class(threshold);
    }
    if (const auto row = row_named(kQuantities, name); row != kQuantities.end()) {
      threshold.quantity = row->value;
      return {};
    }
    for (std::size_t i = 0; i < kBuckets; ++i) {
      if (bucket_name(static_cast<Bucket>(i)) != name) continue;
      threshold.quantity = Quantity::Bucket;
      threshold.bucket = static_cast<Bucket>(i);
      return {};
    }
    return error(
        from,
        "a metric is expected: p50 p90 p95 p99 p999 mean max of (post), (ack), (feed), (all) or (fanout), "
        "errors, lost, duplicated, altered, reordered, missed, rate, or the name of a bucket");
  }

  Result<void> parse_class(Threshold& threshold) {
    skip_blanks();
    if (at_ == text_.size() || text_[at_] != '(') return error(at_, "(post), (feed) or (all) is expected");
    ++at_;
    skip_blanks();
    const std::size_t from = at_;
    const std::string_view name = word();
    const auto row = row_named(kClasses, name);
    skip_blanks();
    if (name == "fanout" && at_ < text_.size() && text_[at_] == ')') {
      threshold.fanout = true;
      ++at_;
      return {};
    }
    if (row == kClasses.end()) return error(from, "post, feed or all is expected");
    threshold.operation_class = row->value;
    skip_blanks();
    if (at_ < text_.size() && text_[at_] == ',') {
      ++at_;
      skip_blanks();
      const std::size_t kind = at_;
      if (word() != "intended") return error(kind, "intended is expected");
      threshold.intended = true;
      skip_blanks();
    }
    if (at_ == text_.size() || text_[at_] != ')') return error(at_, "a closing bracket is expected");
    ++at_;
    return {};
  }

  Result<void> parse_value(Threshold& threshold) {
    const std::size_t from = at_;
    at_ = std::min(text_.find_first_of(",;", at_), text_.size());
    std::string_view value = text_.substr(from, at_ - from);
    while (!value.empty() && (value.back() == ' ' || value.back() == '\t')) value.remove_suffix(1);
    if (threshold.quantity == Quantity::Latency) {
      const auto duration = parse_duration(value);
      if (!duration) return error(from, "a duration such as 50ms or 1.5s is expected");
      threshold.limit = seconds(*duration) * 1000;
      return {};
    }
    const bool may_be_share =
        threshold.quantity == Quantity::Errors || threshold.quantity == Quantity::Bucket;
    threshold.share = may_be_share && value.ends_with('%');
    if (threshold.share) value.remove_suffix(1);
    const auto [end, problem] = std::from_chars(value.data(), value.data() + value.size(), threshold.limit);
    const bool good = problem == std::errc() && end == value.data() + value.size() &&
                      std::isfinite(threshold.limit) && threshold.limit >= 0 &&
                      (!threshold.share || threshold.limit <= 100);
    if (good) return {};
    return error(from,
                 may_be_share ? "a number, or a share such as 0.1%, is expected" : "a number is expected");
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

double statistic_ms(const Histogram& histogram, Statistic statistic) {
  const auto at = [&](double percent) { return static_cast<double>(histogram.percentile(percent)) / 1000; };
  switch (statistic) {
    case Statistic::P50:
      return at(50);
    case Statistic::P90:
      return at(90);
    case Statistic::P95:
      return at(95);
    case Statistic::P99:
      return at(99);
    case Statistic::P999:
      return at(99.9);
    case Statistic::Mean:
      return histogram.mean() / 1000;
    case Statistic::Max:
      break;
  }
  return static_cast<double>(histogram.max()) / 1000;
}

std::optional<double> latency_ms(const Threshold& threshold, const Recorder& recorder,
                                 const ChatResult* chat) {
  if (threshold.fanout) {
    if (chat == nullptr || chat->fanout_us.count() == 0) return std::nullopt;
    return statistic_ms(chat->fanout_us, threshold.statistic);
  }
  const auto joined = std::make_unique<Histogram>();
  for (const auto which : {OperationClass::Message, OperationClass::Feed}) {
    if (threshold.operation_class.value_or(which) != which) continue;
    const ClassTotals& totals = recorder.of(which);
    joined->merge(threshold.intended ? totals.intended_us : totals.latency_us);
  }
  if (joined->count() == 0) return std::nullopt;
  return statistic_ms(*joined, threshold.statistic);
}

std::optional<double> count_or_share(std::uint64_t count, std::uint64_t whole, bool share) {
  if (!share) return static_cast<double>(count);
  if (whole == 0) return std::nullopt;
  return 100 * static_cast<double>(count) / static_cast<double>(whole);
}

std::optional<double> value_of(const Threshold& threshold, const Measured& measured) {
  const Recorder& recorder = measured.recorder;
  const auto fault = [&](std::uint64_t FeedFaults::*member,
                         std::uint64_t StreamFaults::*streams = nullptr) -> std::optional<double> {
    const bool by_streams = streams != nullptr && measured.chat != nullptr;
    if (measured.faults == nullptr && !by_streams) return std::nullopt;
    std::uint64_t sum = measured.faults == nullptr ? 0 : measured.faults->*member;
    if (by_streams) sum += measured.chat->delivery.faults().*streams;
    return static_cast<double>(sum);
  };
  switch (threshold.quantity) {
    case Quantity::Latency:
      return latency_ms(threshold, recorder, measured.chat);
    case Quantity::Errors:
      return count_or_share(recorder.failed(), recorder.done(), threshold.share);
    case Quantity::Bucket:
      return count_or_share(recorder.in(threshold.bucket), recorder.planned(), threshold.share);
    case Quantity::Lost:
      return fault(&FeedFaults::lost);
    case Quantity::Duplicated:
      return fault(&FeedFaults::duplicated, &StreamFaults::duplicated);
    case Quantity::Altered:
      return fault(&FeedFaults::altered, &StreamFaults::altered);
    case Quantity::Reordered:
      return fault(&FeedFaults::out_of_order, &StreamFaults::reordered);
    case Quantity::Missed:
      if (measured.chat == nullptr) return std::nullopt;
      return static_cast<double>(measured.chat->delivery.faults().missed);
    case Quantity::Rate:
      break;
  }
  if (measured.elapsed <= Duration::zero()) return std::nullopt;
  return static_cast<double>(recorder.in(Bucket::Ok)) / seconds(measured.elapsed);
}

bool holds(double value, Comparison comparison, double limit) {
  switch (comparison) {
    case Comparison::Less:
      return value < limit;
    case Comparison::AtMost:
      return value <= limit;
    case Comparison::Greater:
      return value > limit;
    case Comparison::AtLeast:
      return value >= limit;
    case Comparison::Equal:
      break;
  }
  return value == limit;
}

std::string_view unit_of(const Threshold& threshold) {
  if (threshold.quantity == Quantity::Latency) return "ms";
  if (threshold.quantity == Quantity::Rate) return "per_second";
  return threshold.share ? "percent" : "count";
}

}  // namespace

Result<std::vector<Threshold>> parse_thresholds(std::string_view text) {
  return ThresholdParser(text).parse();
}

bool need_verification(const std::vector<Threshold>& thresholds, bool subscribers) {
  return std::any_of(thresholds.begin(), thresholds.end(), [&](const Threshold& threshold) {
    const bool of_both = threshold.quantity == Quantity::Duplicated ||
                         threshold.quantity == Quantity::Altered || threshold.quantity == Quantity::Reordered;
    return threshold.quantity == Quantity::Lost || (of_both && !subscribers);
  });
}

std::vector<ThresholdVerdict> judge(const std::vector<Threshold>& thresholds, const Measured& measured) {
  std::vector<ThresholdVerdict> verdicts;
  for (const Threshold& threshold : thresholds) {
    const auto value = value_of(threshold, measured);
    const bool held = value && holds(*value, threshold.comparison, threshold.limit);
    verdicts.push_back(ThresholdVerdict{threshold.text, value, unit_of(threshold), held});
  }
  return verdicts;
}

std::string value_text(const ThresholdVerdict& verdict) {
  if (!verdict.value) return "not measured";
  if (verdict.unit == "ms") return fmt::format("{:.3f} ms", *verdict.value);
  if (verdict.unit == "percent") return fmt::format("{:.4g}%", *verdict.value);
  if (verdict.unit == "per_second") return fmt::format("{:.1f} a second", *verdict.value);
  return fmt::format("{:.0f}", *verdict.value);
}

std::string thresholds_text(const std::vector<ThresholdVerdict>& verdicts) {
  if (verdicts.empty()) return {};
  std::size_t width = 0;
  for (const ThresholdVerdict& verdict : verdicts) width = std::max(width, verdict.text.size());
  std::string text = "thresholds:\n";
  for (const ThresholdVerdict& verdict : verdicts) {
    fmt::format_to(std::back_inserter(text), "  {}  {:<{}}  {}\n", verdict.held ? "pass" : "FAIL",
                   verdict.text, width, value_text(verdict));
  }
  return text;
}

void thresholds_json(JsonWriter& json, const std::vector<ThresholdVerdict>& verdicts) {
  json.begin_array();
  for (const ThresholdVerdict& verdict : verdicts) {
    json.begin_object().field("expression", verdict.text).field("held", verdict.held);
    if (verdict.value) {
      json.field("value", *verdict.value, 6);
    } else {
      json.key("value").null();
    }
    json.field("unit", verdict.unit).end_object();
  }
  json.end_array();
}

}  // namespace dlb::loadgen
