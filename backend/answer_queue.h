// AnswerQueue: answers of the store on their way to its client. They are delivered at the end of the turn,
// never inside the call that caused them, so a client may call the store again, or cancel, in the middle of
// an answer. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>
#include <variant>
#include <vector>

#include "backend/message_store.h"
#include "backend/write_batcher.h"
#include "common/event_loop.h"

namespace dlb::backend {

class AnswerQueue final : public TurnEndHook {
 public:
  explicit AnswerQueue(EventLoop& loop) : loop_(loop) { loop_.add_turn_end_hook(*this); }
  AnswerQueue(const AnswerQueue&) = delete;
  AnswerQueue& operator=(const AnswerQueue&) = delete;
  ~AnswerQueue() { loop_.remove_turn_end_hook(*this); }

  void set_client(MessageStoreClient& client) { client_ = &client; }

  void push(PutAnswer answer) { queue_.emplace_back(std::move(answer)); }
  void push(std::vector<PutAnswer>& answers) {
    for (PutAnswer& answer : answers) queue_.emplace_back(std::move(answer));
    answers.clear();
  }
  void push(std::uint64_t token, FeedAnswer answer) {
    queue_.emplace_back(FeedItem{token, std::move(answer)});
  }
  void push_new_rows(std::int64_t through_sequence) { new_rows_through_ = through_sequence; }

  // Drops the answer that is waiting for `token`, if there is one.
  void cancel(std::uint64_t token) {
    std::erase_if(queue_, [token](const Item& item) {
      return std::visit([token](const auto& one) { return one.token == token; }, item);
    });
  }

  bool empty() const { return queue_.empty(); }

  void on_turn_end() override {
    if (client_ == nullptr) return;
    if (new_rows_through_ != 0) client_->on_new_rows(std::exchange(new_rows_through_, 0));
    // What the client causes meanwhile waits for the next turn, so that no client can hold the loop here.
    for (std::size_t left = queue_.size(); left > 0 && !queue_.empty(); --left) {
      Item item = std::move(queue_.front());
      queue_.pop_front();
      if (auto* put = std::get_if<PutAnswer>(&item)) {
        client_->on_put(put->token, put->outcome);
      } else if (auto* feed = std::get_if<FeedItem>(&item)) {
        client_->on_feed(feed->token, feed->answer);
      }
    }
    if (!queue_.empty()) loop_.wake();
  }

 private:
  struct FeedItem {
    std::uint64_t token = 0;
    FeedAnswer answer;
  };
  using Item = std::variant<PutAnswer, FeedItem>;

  EventLoop& loop_;
  MessageStoreClient* client_ = nullptr;
  std::deque<Item> queue_;
  std::int64_t new_rows_through_ = 0;
};

}  // namespace dlb::backend
