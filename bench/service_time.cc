#include "bench/service_time.h"

#include <charconv>
#include <cmath>
#include <vector>

#include "common/units.h"

namespace dlb::bench {
namespace {

constexpr double kPi = 3.14159265358979323846;

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const std::size_t start = text.find_first_not_of(' ');
    if (start == std::string_view::npos) break;
    text.remove_prefix(start);
    words.push_back(text.substr(0, text.find(' ')));
    text.remove_prefix(words.back().size());
  }
  return words;
}

}  // namespace

Duration draw_exponential(double mean_ns, Rng& rng) {
  return Duration(static_cast<Duration::rep>(-std::log(1 - rng.unit()) * mean_ns));
}

Result<ServiceTime> ServiceTime::parse(std::string_view text) {
  const Error wrong{
      "use `fixed 20ms`, `exponential 20ms`, `uniform 500ms 5s` or `lognormal 20ms 1.0`, not `" +
      std::string(text) + "`"};
  const std::vector<std::string_view> words = words_of(text);
  if (words.size() < 2 || words.size() > 3) return wrong;
  ServiceTime out;
  out.text_ = text;
  const auto first = parse_duration(words[1]);
  if (!first) return wrong;
  out.first_ns_ = static_cast<double>(first.value().count());
  if (words.size() == 2 && (words[0] == "fixed" || words[0] == "exponential")) {
    out.kind_ = words[0] == "fixed" ? Kind::Fixed : Kind::Exponential;
    return out;
  }
  if (words.size() != 3) return wrong;
  if (words[0] == "uniform") {
    const auto second = parse_duration(words[2]);
    if (!second || second.value() < first.value()) return wrong;
    out.kind_ = Kind::Uniform;
    out.second_ = static_cast<double>(second.value().count());
    return out;
  }
  const auto [end, problem] = std::from_chars(words[2].begin(), words[2].end(), out.second_);
  if (words[0] != "lognormal" || problem != std::errc{} || end != words[2].end()) return wrong;
  if (!(out.second_ >= 0 && out.second_ <= 10)) return wrong;
  out.kind_ = Kind::Lognormal;
  return out;
}

Duration ServiceTime::draw(Rng& rng) const {
  switch (kind_) {
    case Kind::Fixed:
      break;
    case Kind::Exponential:
      return draw_exponential(first_ns_, rng);
    case Kind::Uniform:
      return Duration(static_cast<Duration::rep>(first_ns_ + (second_ - first_ns_) * rng.unit()));
    case Kind::Lognormal: {
      const double radius = std::sqrt(-2 * std::log(1 - rng.unit()));
      const double normal = radius * std::cos(2 * kPi * rng.unit());
      return Duration(static_cast<Duration::rep>(first_ns_ * std::exp(second_ * normal)));
    }
  }
  return Duration(static_cast<Duration::rep>(first_ns_));
}

Duration ServiceTime::mean() const {
  double mean = first_ns_;
  if (kind_ == Kind::Uniform) mean = (first_ns_ + second_) / 2;
  if (kind_ == Kind::Lognormal) mean = first_ns_ * std::exp(second_ * second_ / 2);
  return Duration(static_cast<Duration::rep>(mean));
}

}  // namespace dlb::bench
