// Drives message stores in a test: a client that keeps every answer, and a loop that runs until a condition
// holds.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/message_store.h"
#include "backend/store_config.h"
#include "backend/store_factory.h"
#include "common/clock.h"
#include "common/event_loop.h"
#include "common/log.h"

namespace dlb::backend::test {

inline std::string text_of(const HttpBody& body) {
  std::string text;
  if (body.parts == nullptr) return text;
  for (const BodyPart& part : *body.parts) text += part.bytes;
  return text;
}

// One store with its client. Several share a loop, as several backends share a database.
class StoreUser final : public MessageStoreClient {
 public:
  StoreUser(EventLoop& loop, Log& log, const StoreConfig& config) : loop_(loop) {
    auto made = make_store(loop, log, config);
    DLB_CHECK_MSG(made.has_value(), made ? "" : made.error().text);
    store_ = std::move(*made);
    store_->start(*this);
  }

  MessageStore& store() { return *store_; }

  std::uint64_t put(std::string id, std::string client, std::string text) {
    const std::uint64_t token = next_token_++;
    store_->put(NewMessage{std::move(id), std::move(client), std::move(text), MessageSource::Http, ""},
                token);
    return token;
  }
  std::uint64_t feed(FeedQuery query = {}) {
    const std::uint64_t token = next_token_++;
    store_->feed(query, token);
    return token;
  }
  void cancel(std::uint64_t token) { store_->cancel(token); }

  bool answered(std::uint64_t token) const { return puts_.contains(token) || feeds_.contains(token); }
  const PutOutcome& put_answer(std::uint64_t token) const { return puts_.at(token); }
  const FeedAnswer& feed_answer(std::uint64_t token) const { return feeds_.at(token); }
  std::size_t answers() const { return puts_.size() + feeds_.size(); }
  std::int64_t new_rows_through() const { return new_rows_through_; }
  std::size_t twice_answered() const { return twice_; }

  void on_put(std::uint64_t token, const PutOutcome& outcome) override {
    if (!puts_.emplace(token, outcome).second) ++twice_;
  }
  void on_feed(std::uint64_t token, const FeedAnswer& answer) override {
    if (!feeds_.emplace(token, answer).second) ++twice_;
  }
  void on_new_rows(std::int64_t through_sequence) override { new_rows_through_ = through_sequence; }

  // Runs the loop until `condition`; false when it did not come within `limit`.
  bool run_until(const std::function<bool()>& condition, Duration limit = std::chrono::seconds(20)) {
    const TimePoint end = monotonic_now() + limit;
    while (!condition()) {
      if (monotonic_now() >= end) return false;
      loop_.run_once(std::chrono::milliseconds(5));
    }
    return true;
  }
  bool wait(std::uint64_t token) {
    return run_until([&] { return answered(token); });
  }
  PutOutcome put_now(std::string id, std::string client, std::string text) {
    const std::uint64_t token = put(std::move(id), std::move(client), std::move(text));
    DLB_CHECK(wait(token));
    return put_answer(token);
  }
  FeedAnswer feed_now(FeedQuery query = {}) {
    const std::uint64_t token = feed(query);
    DLB_CHECK(wait(token));
    return feed_answer(token);
  }

 private:
  EventLoop& loop_;
  std::unique_ptr<MessageStore> store_;
  std::uint64_t next_token_ = 1;
  std::map<std::uint64_t, PutOutcome> puts_;
  std::map<std::uint64_t, FeedAnswer> feeds_;
  std::int64_t new_rows_through_ = 0;
  std::size_t twice_ = 0;
};

}  // namespace dlb::backend::test
