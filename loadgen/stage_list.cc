#include "loadgen/stage_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "common/units.h"

namespace dlb::loadgen {
namespace {

constexpr std::size_t kMostStages = 100;  // each has histograms of its own
constexpr std::string_view kBlanks = " \t\r\n";

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= 60 &&
         text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") ==
             std::string_view::npos;
}

template <class Number>
std::optional<Number> number_within(std::string_view text, Number low, Number high) {
  Number value{};
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc{} || end != text.data() + text.size() || !(value >= low && value <= high)) {
    return std::nullopt;
  }
  return value;
}

std::optional<Duration> duration_up_to(std::string_view text, Duration most) {
  const auto value = parse_duration(text);
  if (!value || *value < Duration::zero() || *value > most) return std::nullopt;
  return *value;
}

// False when the stage has that key already or the value isn't one.
template <class Value>
bool take(std::optional<Value>& into, std::optional<Value> value) {
  if (into.has_value() || !value.has_value()) return false;
  into = value;
  return true;
}

struct Key {
  std::string_view name;
  bool (*take)(StageSpec& stage, std::string_view value);
  std::string_view expected;
};

constexpr std::array kKeys = {
    Key{"name",
        [](StageSpec& stage, std::string_view value) {
          if (!stage.name.empty() || !is_name(value)) return false;
          stage.name = value;
          return true;
        },
        "letters, digits, dot, underscore, hyphen, at most 60"},
    Key{"users",
        [](StageSpec& stage, std::string_view value) {
          return take(stage.users, number_within<std::int64_t>(value, 1, 100'000));
        },
        "1 to 100000"},
    Key{"duration",
        [](StageSpec& stage, std::string_view value) {
          return take(stage.duration, duration_up_to(value, std::chrono::hours(24 * 30)));
        },
        "a time up to 30d"},
    Key{"requests",
        [](StageSpec& stage, std::string_view value) {
          return take(stage.requests, number_within<std::int64_t>(value, 0, 1'000'000'000));
        },
        "0 to 1000000000"},
    Key{"rate",
        [](StageSpec& stage, std::string_view value) {
          const auto rate = number_within<double>(value, 0, 1e6);
          return (!rate || *rate == 0 || *rate >= 0.001) && take(stage.rate, rate);
        },
        "0, or 0.001 to 1000000 a second"},
    Key{"feed-percent",
        [](StageSpec& stage, std::string_view value) {
          return take(stage.feed_percent, number_within<double>(value, 0, 100));
        },
        "0 to 100"},
    Key{"issue-timeout",
        [](StageSpec& stage, std::string_view value) {
          return take(stage.issue_timeout, duration_up_to(value, std::chrono::hours(24)));
        },
        "a time up to 1d"},
    Key{"ramp-up",
        [](StageSpec& stage, std::string_view value) {
          return take(stage.ramp_up, duration_up_to(value, std::chrono::hours(24)));
        },
        "a time up to 1d"},
};

class StageListParser {
 public:
  explicit StageListParser(std::string_view text) : text_(text) {}

  Result<std::vector<StageSpec>> parse() {
    std::vector<StageSpec> stages;
    skip_blanks();
    if (at_ == text_.size()) return stages;
    for (;;) {
      StageSpec stage;
      const std::size_t begin = at_;
      if (auto one = parse_stage(stage); !one) return one.error();
      if (stage.name.empty()) stage.name = "stage-" + std::to_string(stages.size() + 1);
      if (std::ranges::find(stages, stage.name, &StageSpec::name) != stages.end()) {
        return wrong(begin, "two stages are named " + stage.name);
      }
      if (stages.size() == kMostStages) return wrong(begin, fmt::format("over {} stages", kMostStages));
      stages.push_back(std::move(stage));
      if (at_ < text_.size()) ++at_;  // the semicolon
      skip_blanks();
      if (at_ == text_.size()) return stages;  // one at the end is no stage
    }
  }

 private:
  void skip_blanks() { at_ = std::min(text_.find_first_not_of(kBlanks, at_), text_.size()); }

  static Error wrong(std::size_t at, std::string_view what) {
    return Error{fmt::format("column {}: {}", at + 1, what)};
  }

  Result<void> parse_stage(StageSpec& stage) {
    const std::size_t begin = at_;
    skip_blanks();
    while (at_ < text_.size() && text_[at_] != ';') {
      if (auto one = parse_setting(stage); !one) return one;
      skip_blanks();
    }
    const bool empty = text_.substr(begin, at_ - begin).find_first_not_of(kBlanks) == std::string_view::npos;
    if (empty) return wrong(begin, "a stage with nothing in it");
    return {};
  }

  Result<void> parse_setting(StageSpec& stage) {
    const std::size_t begin = at_;
    const std::size_t end = std::min(text_.find_first_of(" \t\r\n;", at_), text_.size());
    const std::string_view word = text_.substr(begin, end - begin);
    const std::size_t equals = word.find('=');
    const std::string_view name = word.substr(0, equals);
    const auto key = std::ranges::find(kKeys, name, &Key::name);
    if (key == kKeys.end())
      return wrong(begin, fmt::format("\"{}\" is no setting of a stage: {}", name, names()));
    if (equals == std::string_view::npos) return wrong(begin, fmt::format("{}=VALUE is expected", name));
    if (!key->take(stage, word.substr(equals + 1))) {
      return wrong(begin + equals + 1, fmt::format("{} is {}, and given once", name, key->expected));
    }
    at_ = end;
    return {};
  }

  static std::string names() {
    std::string list;
    for (const Key& key : kKeys) list += (list.empty() ? "" : ", ") + std::string(key.name);
    return list;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

Result<std::vector<StageSpec>> parse_stages(std::string_view text) { return StageListParser(text).parse(); }

}  // namespace dlb::loadgen
