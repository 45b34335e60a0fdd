#include "loadgen/chat_load.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "common/option_value.h"
#include "loadgen/chat_key.h"
#include "loadgen/chat_probe.h"
#include "loadgen/chat_users.h"
#include "loadgen/hash.h"

namespace dlb::loadgen {
namespace {

constexpr Duration kTurn = std::chrono::milliseconds(50);
// Without one more user who is in.
constexpr Duration kJoinTimeout = std::chrono::seconds(60);
// A session may send 20 a second: half of it, if nobody says how many publishers there are to be.
constexpr double kRateOfPublisher = 10;
constexpr std::uint64_t kScheduleSeed = 0x63686174U;

Result<RsaPrivateKey> key_of(const std::string& path) {
  if (path.empty()) return RsaPrivateKey::generate();
  auto loaded = load_or_make_key(path, "loadgen");
  if (!loaded) return loaded.error();
  if (!loaded->warning.empty()) std::fprintf(stderr, "loadgen: %s\n", loaded->warning.c_str());
  return std::move(loaded->key);
}

}  // namespace

std::size_t chat_sessions(const Options& options) {
  if (options.wss_url.empty()) return 0;
  return static_cast<std::size_t>(options.profile == "chat" ? options.users : options.subscribers);
}

ChatLoad::ChatLoad(const Options& options, RsaPrivateKey key)
    : options_(options), key_(std::move(key)), prefix_(chat_user_prefix("load", key_)) {}

Result<std::unique_ptr<ChatLoad>> ChatLoad::make(const Options& options, const LoadedOptions& loaded) {
  auto key = key_of(options.chat_key);
  if (!key) return loaded.at("chat-key", key.error().text);
  auto load = std::unique_ptr<ChatLoad>(new ChatLoad(options, std::move(*key)));
  bool any_tls = false;
  for (const std::string& text : options.wss_url) {
    auto url = parse_ws_url(text);
    if (!url) return loaded.at("wss-url", url.error().text);
    any_tls = any_tls || url->tls;
    load->urls_.push_back(std::move(*url));
  }
  if (any_tls) {
    auto tls = TlsContext::client({!options.insecure, options.ca});
    if (!tls) return loaded.at("ca", tls.error().text);
    load->tls_.emplace(std::move(*tls));
  }
  return load;
}

std::size_t ChatLoad::publishers() const {
  const auto users = static_cast<double>(chat_sessions(options_));
  const auto wanted = options_.publishers > 0 ? static_cast<double>(options_.publishers)
                                              : std::ceil(options_.rate / kRateOfPublisher);
  return static_cast<std::size_t>(std::clamp(wanted, 1.0, users));
}

Result<void> ChatLoad::open(EventLoop& loop, Ledger& watched, std::uint64_t seed, const bool& stop) {
  loop_ = &loop;
  const auto base = find_end(stop);
  if (!base) return base.error();
  if (options_.profile == "chat") sign(seed, stop);
  watched.watch(&oracle_);
  if (auto in = join(seed, *base, stop); !in) return Error{option_detail::shortened_middle(in.error().text)};
  return {};
}

// The sequence behind which everybody begins: that of the newest row.
Result<std::int64_t> ChatLoad::find_end(const bool& stop) {
  WsClientTimers timers(*loop_);
  ChatProbe probe({*loop_, timers, tls_ ? &*tls_ : nullptr, key_, "", stop}, prefix_ + "0");
  const auto deadline = [&] { return monotonic_now() + options_.request_timeout; };
  // A host that is not found may be of any length.
  const auto at = [&](const Error& error) {
    return Error{option_detail::shortened(urls_.front().url) + ": " +
                 option_detail::shortened_middle(error.text)};
  };
  if (auto in = probe.join(urls_.front(), -1, deadline()); !in) return at(in.error());
  const auto newest = probe.history(1, 0, deadline());
  if (!newest) return at(newest.error());
  return newest->messages.empty() ? 0 : newest->messages.back().sequence;
}

void ChatLoad::sign(std::uint64_t seed, const bool& stop) {
  PayloadShape shape;
  shape.seed = seed;
  shape.message_min = static_cast<std::uint32_t>(options_.message_min);
  shape.message_max = static_cast<std::uint32_t>(options_.message_max);
  stage_shape_ = {options_.rate, options_.arrival_pattern, mix64(seed ^ kScheduleSeed),
                  options_.request_timeout};
  const std::size_t most =
      options_.requests > 0 ? static_cast<std::size_t>(options_.requests) : SignedMessages::kMax;
  const std::size_t count =
      scheduled_messages(stage_shape_, options_.duration, std::min(most, SignedMessages::kMax));
  messages_ = std::make_unique<SignedMessages>(shape, key_, prefix_, publishers());
  const TimePoint began = monotonic_now();
  TimePoint told = began;
  messages_->sign(count, [&](std::size_t done) {
    // Nothing else goes on; a signal is looked at.
    loop_->run_once(Duration::zero());
    const TimePoint now = monotonic_now();
    if (now - told >= options_.metrics_interval) {
      told = now;
      std::fprintf(stderr, "signed %zu of %zu messages\n", done, count);
    }
    return !stop;
  });
  result_->signed_ahead = messages_->size();
  result_->publishers = publishers();
  result_->signing_seconds = dlb::seconds(monotonic_now() - began);
}

Result<void> ChatLoad::join(std::uint64_t seed, std::int64_t base, const bool& stop) {
  subscribers_ = std::make_unique<Subscribers>(
      Subscribers::Parts{*loop_, urls_, tls_ ? &*tls_ : nullptr, key_, prefix_, seed, oracle_, *result_},
      chat_sessions(options_), base);
  if (!stop) subscribers_->join();
  std::uint64_t joined = 0;
  TimePoint deadline = monotonic_now() + kJoinTimeout;
  while (!subscribers_->all_joined() && !stop) {
    loop_->run_once(kTurn);
    if (!subscribers_->hopeless().empty()) return Error{subscribers_->hopeless()};
    if (result_->join_us.count() > joined) {
      joined = result_->join_us.count();
      deadline = monotonic_now() + kJoinTimeout;
    }
    if (monotonic_now() >= deadline) {
      return Error{fmt::format("only {} of {} chat users got in; the latest trouble: {}", joined,
                               subscribers_->size(), subscribers_->latest_trouble())};
    }
  }
  return {};
}

void ChatLoad::plan_drops(Duration span) {
  if (options_.reconnect_percent > 0) {
    subscribers_->plan_drops(options_.reconnect_percent, static_cast<std::size_t>(result_->publishers), span);
  }
}

void ChatLoad::settle(const bool& stop) {
  if (!subscribers_->all_joined()) return;  // stopped before
  const TimePoint deadline = monotonic_now() + options_.settle_timeout;
  while (subscribers_->behind() > 0 && !stop && monotonic_now() < deadline) loop_->run_once(kTurn);
  result_->unsettled = subscribers_->behind();
}

std::unique_ptr<ChatResult> ChatLoad::finish(double seconds) {
  subscribers_->leave();
  result_->seconds = seconds;
  result_->delivery_us.record_n(0, oracle_.before_promise());
  result_->delivery = oracle_.judge();
  subscribers_.reset();
  return std::move(result_);
}

}  // namespace dlb::loadgen
