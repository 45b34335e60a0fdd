#include "backend/iso8601.h"

#include <chrono>
#include <cstddef>

namespace dlb::backend {
namespace {

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  // Exactly `digits` digits; -1 when they aren't there.
  int number(int digits) {
    int value = 0;
    for (int i = 0; i < digits; ++i) {
      if (!at_digit()) return fail();
      value = value * 10 + (text_[at_++] - '0');
    }
    return value;
  }
  // One of `choices`; 0 when none is there.
  char one_of(std::string_view choices) {
    if (at_ >= text_.size() || choices.find(text_[at_]) == std::string_view::npos) {
      fail();
      return 0;
    }
    return text_[at_++];
  }
  bool skip(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool at_digit() const { return at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; }
  bool done() const { return ok_ && at_ == text_.size(); }
  bool ok() const { return ok_; }

 private:
  int fail() {
    ok_ = false;
    return -1;
  }
  std::string_view text_;
  std::size_t at_ = 0;
  bool ok_ = true;
};

// Behind the point.
std::int64_t fraction_us(Reader& reader) {
  std::int64_t value = 0;
  int digits = 0;
  if (!reader.at_digit()) reader.number(1);  // fails
  for (; reader.at_digit(); ++digits) {
    const int digit = reader.number(1);
    if (digits < 6) value = value * 10 + digit;
  }
  for (; digits < 6; ++digits) value *= 10;
  return value;
}

}  // namespace

std::optional<std::int64_t> parse_iso8601(std::string_view text) {
  if (text.size() > 64) return std::nullopt;
  Reader reader(text);
  const int year = reader.number(4);
  reader.one_of("-");
  const int month = reader.number(2);
  reader.one_of("-");
  const int day = reader.number(2);
  reader.one_of("Tt ");
  const int hour = reader.number(2);
  reader.one_of(":");
  const int minute = reader.number(2);
  reader.one_of(":");
  const int second = reader.number(2);
  std::int64_t micro = 0;
  if (reader.ok() && reader.skip('.')) micro = fraction_us(reader);
  const char sign = reader.one_of("Zz+-");
  int zone_minutes = 0;
  if (sign == '+' || sign == '-') {
    const int zone_hour = reader.number(2);
    reader.skip(':');
    const int zone_minute = reader.number(2);
    if (zone_hour > 23 || zone_minute > 59) return std::nullopt;
    zone_minutes = (zone_hour * 60 + zone_minute) * (sign == '-' ? -1 : 1);
  }
  if (!reader.done()) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok() || hour > 23 || minute > 59 || second > 60) return std::nullopt;
  const std::int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  const std::int64_t seconds = ((days * 24 + hour) * 60 + minute - zone_minutes) * 60 + second;
  return seconds * 1'000'000 + micro;
}

}  // namespace dlb::backend
