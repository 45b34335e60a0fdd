// RowsPath: pages of older rows for the chat, history downwards and replays upwards. Answered from the feed
// cache when it holds them; what lies below it is read by key, one page at a time, on a connection that
// neither the feed nor the writers wait for.
//
//   history(), rows_after() ─▶ (needs the newest: waits for a read of the feed) ─▶ in the cache ─▶ answer
//                                                                              └─▶ below it ─▶ read ─▶ answer
//
// Bounded by its askers (one request of each at a time) and by kMaxWaiting. Runs on the store's loop; knows
// no SQL.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string_view>
#include <unordered_map>

#include "backend/answer_queue.h"
#include "backend/chat_driver.h"
#include "backend/chat_store.h"
#include "backend/feed_path.h"
#include "backend/row_text.h"

namespace dlb::backend {

class RowsPath final : public FeedRider, public HeapTimerHandler {
 public:
  RowsPath(EventLoop& loop, TimerHeap& timers, Log& log, Cipher& cipher, FeedPath& feeds,
           AnswerQueue& answers, ChatDriver& driver);

  void history(std::int64_t before, std::int64_t limit, std::uint64_t token);
  void rows_after(std::int64_t after, bool fresh, std::uint64_t token);

  // From the driver. `rows` in the order asked for; `complete`: none lie behind the last of them.
  void on_page(std::span<const StoredRow> rows, bool complete);
  void on_page_failed();
  void on_driver_change();

  void on_fresh(std::uint64_t token, bool ok) override;
  void on_heap_timer(HeapTimer& timer) override;

  bool idle() const { return waiting_.empty() && reads_.empty(); }
  void add_stats(MessageStoreStats& stats) const;

 private:
  struct Request {
    bool down = false;       // history
    std::int64_t from = 0;   // rows below it, or above it
    std::int64_t limit = 0;  // history
    std::uint64_t token = 0;
    TimePoint deadline{};
    bool fresh = false;  // the cache holds what this asker may expect
  };

  void take(Request request);
  void serve(const Request& request);
  bool from_cache(const Request& request);
  void refuse(const Request& request);
  void pump();

  EventLoop& loop_;
  FeedPath& feeds_;
  AnswerQueue& answers_;
  ChatDriver& driver_;
  RowText text_;
  std::unordered_map<std::uint64_t, Request> waiting_;  // for a read of the feed
  std::deque<Request> reads_;                           // the first one's page is being read when reading_
  bool reading_ = false;
  HeapTimer deadline_timer_;
  std::uint64_t pages_read_ = 0;
};

}  // namespace dlb::backend
