#include "loadgen/subscribers.h"

#include <algorithm>
#include <numeric>

#include "common/base64.h"
#include "common/rng.h"
#include "loadgen/hash.h"

namespace dlb::loadgen {
namespace {

constexpr std::uint64_t kDropSeed = 0x64726f70U;
// Drops lie within this part of the span, so that who has dropped comes back while messages are sent.
constexpr double kFirstDrop = 0.05;
constexpr double kLastDrop = 0.8;
constexpr double kLongestAwaySeconds = 1;

std::uint64_t micros(Duration time) {
  return time.count() <= 0 ? 0 : static_cast<std::uint64_t>(time.count()) / 1000;
}

Duration part_of(Duration span, double share) {
  return Duration(static_cast<Duration::rep>(static_cast<double>(span.count()) * share));
}

}  // namespace

void ChatResult::count_error(const std::string& code) {
  const auto found =
      std::find_if(errors.begin(), errors.end(), [&](const auto& error) { return error.first == code; });
  if (found != errors.end()) {
    ++found->second;
  } else if (errors.size() < 32) {
    errors.emplace_back(code.substr(0, 64), 1);
  }
}

Subscribers::Subscribers(const Parts& parts, std::size_t count, std::int64_t base)
    : parts_(parts),
      public_key_(base64_encode(parts.key.public_der())),
      socket_timers_(parts.loop),
      timers_(parts.loop) {
  for (const WsUrl& url : parts_.urls) parts_.oracle.add_group(url.url);
  parts_.result.groups.resize(parts_.urls.size());
  parts_.result.subscribers = count;
  for (std::size_t number = 0; number < count; ++number) {
    const std::size_t group = number % parts_.urls.size();
    ++parts_.result.groups[group].subscribers;
    all_.emplace_back(*this, number, group, parts_.oracle.add_stream(group, base));
  }
}

void Subscribers::join() { join_some(); }

void Subscribers::join_some() {
  while (joining_ < all_.size() && joining_ < joined_ + kJoiningAtOnce) all_[joining_++].connect();
}

void Subscribers::arrived(Subscriber& subscriber, bool first) {
  if (first) {
    ++joined_;
    join_some();
  }
  if (publish_user_ != nullptr) publish_user_->on_publisher_arrived(subscriber.number());
}

void Subscribers::left(Subscriber& subscriber) {
  if (publish_user_ != nullptr) publish_user_->on_publisher_left(subscriber.number());
}

void Subscribers::answered(Subscriber& subscriber, const ServerSaid& said) {
  if (publish_user_ != nullptr) publish_user_->on_publish_answer(subscriber.number(), said);
}

void Subscribers::trouble(const std::string& why, bool hopeless) {
  latest_trouble_ = why;
  if (hopeless && hopeless_.empty()) hopeless_ = why;
}

void Subscribers::received(std::size_t group, const DeliveryOracle::Receipt& receipt, TimePoint now) {
  if (!receipt.ours) return;
  ChatResult& result = parts_.result;
  ++result.deliveries;
  const std::uint64_t fanout = micros(now - receipt.intended);
  result.fanout_us.record(fanout);
  result.groups[group].fanout_us.record(fanout);
  if (receipt.accepted_at != TimePoint{}) result.delivery_us.record(micros(now - receipt.accepted_at));
}

void Subscribers::plan_drops(double percent, std::size_t first, Duration span) {
  if (first >= all_.size()) return;
  std::vector<std::size_t> numbers(all_.size() - first);
  std::iota(numbers.begin(), numbers.end(), first);
  Rng rng(mix64(parts_.seed ^ kDropSeed));
  const auto drops = static_cast<std::size_t>(static_cast<double>(numbers.size()) * percent / 100 + 0.5);
  for (std::size_t i = 0; i < std::min(drops, numbers.size()); ++i) {
    std::swap(numbers[i], numbers[i + rng.below(numbers.size() - i)]);
    const TimePoint when =
        parts_.loop.now() + part_of(span, kFirstDrop + rng.unit() * (kLastDrop - kFirstDrop));
    all_[numbers[i]].drop_at(when, part_of(std::chrono::seconds(1), rng.unit() * kLongestAwaySeconds));
  }
}

std::size_t Subscribers::behind() const {
  const std::int64_t horizon = parts_.oracle.horizon();
  return static_cast<std::size_t>(std::count_if(all_.begin(), all_.end(), [&](const Subscriber& one) {
    return !one.live() || parts_.oracle.last(one.stream()) < horizon;
  }));
}

void Subscribers::leave() {
  publish_user_ = nullptr;
  for (Subscriber& subscriber : all_) subscriber.leave();
}

}  // namespace dlb::loadgen
