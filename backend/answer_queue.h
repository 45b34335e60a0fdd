// AnswerQueue: answers of the store on their way to its clients. They are delivered at the end of the turn,
// never inside the call that caused them, so a client may call the store again, or cancel, in the middle of
// an answer. They go out within budgets of time a turn, live rows within one of their own, since each goes to
// every session of the chat; what is left of those is bounded by the FeedPath, which reads no more rows
// meanwhile. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "backend/chat_store.h"
#include "backend/message_store.h"
#include "backend/write_batcher.h"
#include "common/clock.h"
#include "common/event_loop.h"
#include "common/turn_share.h"

namespace dlb::backend {

class AnswerQueue final : public TurnEndHook {
 public:
  explicit AnswerQueue(EventLoop& loop) : loop_(loop) { loop_.add_turn_end_hook(*this); }
  AnswerQueue(const AnswerQueue&) = delete;
  AnswerQueue& operator=(const AnswerQueue&) = delete;
  ~AnswerQueue() { loop_.remove_turn_end_hook(*this); }

  void set_client(MessageStoreClient& client) { client_ = &client; }
  void set_chat(ChatStoreClient& chat) { chat_ = &chat; }
  bool has_chat() const { return chat_ != nullptr; }
  bool chat_listens() const { return chat_ != nullptr && chat_->listens(); }

  void push(PutAnswer answer) { queue_.emplace_back(std::move(answer)); }
  void push(std::vector<PutAnswer>& answers) {
    for (PutAnswer& answer : answers) queue_.emplace_back(std::move(answer));
    answers.clear();
  }
  void push(std::uint64_t token, FeedAnswer answer) { emplace(token, std::move(answer)); }
  void push(std::uint64_t token, OwnerAnswer answer) { emplace(token, std::move(answer)); }
  void push(std::uint64_t token, RowsAnswer answer) { emplace(token, std::move(answer)); }
  void push(std::uint64_t token, UsersAnswer answer) { emplace(token, std::move(answer)); }
  void push_present(std::uint64_t version) { emplace(version, Present{}); }

  // What came before is of no interest any more (but a row that some have been told), and what follows is of
  // another table.
  void push_reset() {
    live_.clear();
    live_.push_back({0, {}});
  }
  void push_live(std::int64_t sequence, std::string_view element) {
    live_.push_back({sequence, std::string(element)});
  }

  // Drops the answer that is waiting for `token`, if there is one.
  void cancel(std::uint64_t token) {
    std::erase_if(queue_, [token](const Item& item) {
      return std::visit([token](const auto& one) { return one.token == token; }, item);
    });
  }

  bool empty() const { return queue_.empty(); }
  std::size_t live_rows() const { return live_.size() + (telling_ ? 1 : 0); }

  void on_turn_end() override {
    if (client_ == nullptr) return;
    deliver_live();
    // What the client causes meanwhile waits for the next turn, so that no client can hold the loop here.
    if (queue_.empty()) return;
    const TimePoint end = turn_share(loop_, kAnswersBudget);
    for (std::size_t left = queue_.size(); left > 0 && !queue_.empty(); --left) {
      if (left % kAnswersBetweenLooks == 0 && monotonic_now() >= end) break;
      Item item = std::move(queue_.front());
      queue_.pop_front();
      std::visit([this](const auto& one) { deliver(one); }, item);
    }
    if (!queue_.empty()) loop_.wake();
  }

 private:
  template <class Answer>
  struct For {
    std::uint64_t token = 0;
    Answer answer;
  };
  struct Present {};
  using Item = std::variant<PutAnswer, For<FeedAnswer>, For<OwnerAnswer>, For<RowsAnswer>, For<UsersAnswer>,
                            For<Present>>;
  static constexpr Duration kAnswersBudget = std::chrono::milliseconds(2);
  static constexpr std::size_t kAnswersBetweenLooks = 8;  // at the clock
  static constexpr Duration kLiveBudget = std::chrono::milliseconds(2);

  struct Live {
    std::int64_t sequence = 0;  // 0: a reset
    std::string element;
  };

  template <class Answer>
  void emplace(std::uint64_t token, Answer answer) {
    queue_.emplace_back(For<Answer>{token, std::move(answer)});
  }

  void deliver_live() {
    if (live_rows() == 0) return;
    const TimePoint end = turn_share(loop_, kLiveBudget);
    do {
      if (!telling_) {
        telling_ = std::move(live_.front());
        live_.pop_front();
      }
      if (tell(*telling_, end)) telling_.reset();
    } while (live_rows() > 0 && monotonic_now() < end);
    if (live_rows() > 0) loop_.wake();
  }

  bool tell(const Live& row, TimePoint end) {
    if (chat_ == nullptr) return true;
    if (row.sequence != 0) return chat_->on_live_row(row.sequence, row.element, end);
    chat_->on_reset();
    return true;
  }

  void deliver(const PutAnswer& put) {
    if ((put.token & kChatToken) == 0) {
      client_->on_put(put.token, put.outcome);
    } else if (chat_ != nullptr) {
      chat_->on_chat_put(put.token, put.outcome);
    }
  }
  void deliver(const For<FeedAnswer>& feed) { client_->on_feed(feed.token, feed.answer); }
  void deliver(const For<OwnerAnswer>& owner) {
    if ((owner.token & kChatToken) == 0) {
      client_->on_name(owner.token, owner.answer);
    } else if (chat_ != nullptr) {
      chat_->on_owner(owner.token, owner.answer);
    }
  }
  void deliver(const For<RowsAnswer>& rows) {
    if (chat_ != nullptr) chat_->on_rows(rows.token, rows.answer);
  }
  void deliver(const For<UsersAnswer>& users) {
    if (chat_ != nullptr) chat_->on_users(users.token, users.answer);
  }
  void deliver(const For<Present>& present) {
    if (chat_ != nullptr) chat_->on_present(present.token);
  }

  EventLoop& loop_;
  MessageStoreClient* client_ = nullptr;
  ChatStoreClient* chat_ = nullptr;
  std::deque<Item> queue_;
  std::deque<Live> live_;
  std::optional<Live> telling_;  // the row that is being told, perhaps over several turns
};

}  // namespace dlb::backend
