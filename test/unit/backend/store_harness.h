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

#include "backend/chat_store.h"
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
class StoreUser final : public MessageStoreClient, public ChatStoreClient {
 public:
  StoreUser(EventLoop& loop, Log& log, const StoreConfig& config) : loop_(loop) {
    auto made = make_store(loop, log, config);
    DLB_CHECK_MSG(made.has_value(), made ? "" : made.error().text);
    store_ = std::move(*made);
    store_->chat().subscribe(*this);
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
  // What live rows and resets came, in order; a reset is a row 0.
  struct LiveRow {
    std::int64_t sequence = 0;
    std::string json;
  };
  int live_calls_a_row = 1;
  const std::vector<LiveRow>& live() const { return live_; }
  std::int64_t last_live() const { return live_.empty() ? -1 : live_.back().sequence; }
  std::vector<std::int64_t> live_sequences() const {
    std::vector<std::int64_t> out;
    for (const LiveRow& row : live_) out.push_back(row.sequence);
    return out;
  }
  std::size_t twice_answered() const { return twice_; }

  void on_put(std::uint64_t token, const PutOutcome& outcome) override {
    if (!puts_.emplace(token, outcome).second) ++twice_;
  }
  void on_feed(std::uint64_t token, const FeedAnswer& answer) override {
    if (!feeds_.emplace(token, answer).second) ++twice_;
  }

  void on_chat_put(std::uint64_t token, const PutOutcome& outcome) override { on_put(token, outcome); }
  // With `live_calls_a_row` a row is taken only when it has come so often.
  bool on_live_row(std::int64_t sequence, std::string_view json, TimePoint) override {
    if (++live_calls_ < live_calls_a_row) return false;
    live_calls_ = 0;
    live_.push_back({sequence, std::string(json)});
    return true;
  }
  void on_reset() override { live_.push_back({}); }
  void on_owner(std::uint64_t token, const OwnerAnswer& answer) override {
    if (!owners_.emplace(token, answer).second) ++twice_;
  }
  void on_rows(std::uint64_t token, const RowsAnswer& answer) override {
    if (!rows_.emplace(token, answer).second) ++twice_;
  }
  void on_users(std::uint64_t token, const UsersAnswer& answer) override {
    if (!users_.emplace(token, answer).second) ++twice_;
  }
  void on_present(std::uint64_t version) override { present_ = version; }

  OwnerAnswer claim_now(std::string_view name, std::string_view key) {
    const std::uint64_t token = chat_token();
    store_->chat().claim(name, key, token);
    DLB_CHECK(run_until([&] { return owners_.contains(token); }));
    return owners_.at(token);
  }
  std::uint64_t claim(std::string_view name, std::string_view key) {
    const std::uint64_t token = chat_token();
    store_->chat().claim(name, key, token);
    return token;
  }
  bool claimed(std::uint64_t token) const { return owners_.contains(token); }
  const OwnerAnswer& owner(std::uint64_t token) const { return owners_.at(token); }
  OwnerAnswer key_now(std::string_view name) {
    const std::uint64_t token = chat_token();
    store_->chat().find_key(name, token);
    DLB_CHECK(run_until([&] { return owners_.contains(token); }));
    return owners_.at(token);
  }
  RowsAnswer history_now(std::int64_t before, std::int64_t limit) {
    const std::uint64_t token = chat_token();
    store_->chat().history(before, limit, token);
    DLB_CHECK(run_until([&] { return rows_.contains(token); }));
    return rows_.at(token);
  }
  RowsAnswer rows_after_now(std::int64_t after, bool fresh) {
    const std::uint64_t token = chat_token();
    store_->chat().rows_after(after, fresh, token);
    DLB_CHECK(run_until([&] { return rows_.contains(token); }));
    return rows_.at(token);
  }
  std::vector<std::string> users_now() {
    const std::uint64_t token = chat_token();
    store_->chat().users(token);
    DLB_CHECK(run_until([&] { return users_.contains(token); }));
    const UsersAnswer& answer = users_.at(token);
    return answer.available ? *answer.names : std::vector<std::string>{"unavailable"};
  }
  void be_present(std::vector<std::string> names) {
    const std::uint64_t version = store_->chat().set_present(std::move(names));
    DLB_CHECK(run_until([&] { return present_ >= version; }));
  }

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
  std::uint64_t chat_token() { return kChatToken | next_token_++; }

  EventLoop& loop_;
  std::unique_ptr<MessageStore> store_;
  std::uint64_t next_token_ = 1;
  std::map<std::uint64_t, PutOutcome> puts_;
  std::map<std::uint64_t, FeedAnswer> feeds_;
  std::map<std::uint64_t, OwnerAnswer> owners_;
  std::map<std::uint64_t, RowsAnswer> rows_;
  std::map<std::uint64_t, UsersAnswer> users_;
  std::vector<LiveRow> live_;
  int live_calls_ = 0;
  std::uint64_t present_ = 0;
  std::size_t twice_ = 0;
};

}  // namespace dlb::backend::test
