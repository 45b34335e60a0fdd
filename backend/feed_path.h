// FeedPath: reads new rows into the FeedCache and answers feed requests from it, the same on both stores.
//
//   feed() ─▶ arrived ─▶ (a read begins) covered ─▶ (it found the end) answered from the cache
//                                                └─▶ older: begins below the cache, read by key into chunks
//                                                of its own
//
// One read at a time. A request is answered by a read that was sent after it had arrived, so it sees every
// row that was acknowledged before, by whichever backend. A read begins at the last known row and must find
// it again (sequence and nonce): if not, the table was truncated, restored or has lost its tail, and the feed
// is built anew under a new generation. Rows are committed in sequence order (the store's lock), so the cache
// only appends. Runs on the store's loop; knows no SQL.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/answer_queue.h"
#include "backend/cipher.h"
#include "backend/feed_cache.h"
#include "backend/own_rows.h"
#include "backend/row_text.h"
#include "backend/store_config.h"
#include "backend/stored_row.h"
#include "common/event_loop.h"
#include "common/log.h"
#include "common/timer_heap.h"

namespace dlb::backend {

// One read of rows with sequence >= from, in order: at most `max_rows`, cut after about `max_bytes` of
// ciphertext.
struct RowsRequest {
  std::int64_t from = 0;
  std::int64_t max_rows = 0;
  std::int64_t max_bytes = 0;
  // Above 0: the nonce of the row with this sequence, read before the rows, is part of the answer.
  std::int64_t anchor = 0;
};

// What a database does for reads. Answers come to the FeedPath, never inside these calls.
class ReadDriver {
 public:
  virtual bool read_ready() const = 0;
  // Not up, and it isn't just being (re)connected for the first time: feeds are refused.
  virtual bool read_away() const = 0;
  // Requires read_ready(). Answered by on_rows() or on_read_failed().
  virtual void send_read(const RowsRequest& request) = 0;
  // Requires read_ready(). Puts a new generation in place of `seen`, unless another process has done so
  // already; answered by on_generation() with the one that stands now, or on_read_failed().
  virtual void send_renew_generation(std::string_view seen) = 0;

 protected:
  ~ReadDriver() = default;
};

// Who rides on the feed's reads: the chat, with its live rows and its pages.
class FeedRider {
 public:
  // A read that began after wait_fresh() has ended, and the cache holds what it found; false: it can't be
  // done now. Not to call the FeedPath again from inside.
  virtual void on_fresh(std::uint64_t token, bool ok) = 0;

 protected:
  ~FeedRider() = default;
};

class FeedPath final : public HeapTimerHandler {
 public:
  FeedPath(EventLoop& loop, TimerHeap& timers, Log& log, const StoreConfig& config, Cipher& cipher,
           AnswerQueue& answers, ReadDriver& driver);

  void feed(const FeedQuery& query, std::uint64_t token);
  bool cancel(std::uint64_t token);

  // There may be new rows: refresh soon, without a request.
  void hint();

  // A row that this process has committed, with what it was written with: it joins the feed without being
  // read, if nothing can be between. In order of commit; hint_own() follows behind the last of a batch.
  void add_own(const NewMessage& written, std::string_view nonce, std::int64_t sequence,
               std::int64_t timestamp_us);
  void hint_own(std::int64_t through);
  // The connection that committed them was lost: what it wrote is read again before any more is added.
  void forget_own();

  void set_rider(FeedRider& rider) { rider_ = &rider; }
  // Answered by on_fresh(), perhaps inside the call.
  void wait_fresh(std::uint64_t token);
  // The cache has seen the end of the table.
  bool complete() const { return complete_; }

  // From the driver. Each may send.
  void on_reader_up(std::string_view generation);
  // `generation` as read just before the rows. `complete`: the database has no rows behind the last of these.
  // `anchor_nonce`: of the row that was asked for as anchor; empty when there is none.
  void on_rows(std::string_view generation, std::span<const StoredRow> rows, bool complete,
               std::string_view anchor_nonce = {});
  void on_generation(std::string_view generation);
  void on_read_failed();
  // Readiness has changed: lost, or found to be away.
  void on_driver_change();

  const FeedCache& cache() const { return cache_; }
  const std::string& generation() const { return generation_; }
  bool idle() const { return waiting() == 0; }
  void add_stats(MessageStoreStats& stats) const;

  void on_heap_timer(HeapTimer& timer) override;

 private:
  enum class Reading : std::uint8_t { Nothing, Refresh, Older, Generation };

  struct Waiting {
    FeedQuery query;
    std::uint64_t token = 0;
    TimePoint deadline{};
    bool rides = false;  // the rider's
  };

  // Requests that begin below the cache. Whole feeds share one, and what readers still hold of the one
  // before; a page has its own.
  struct Older {
    bool whole = false;
    FeedQuery query;
    FeedCache part;
    std::vector<Waiting> waiters;
  };

  std::size_t waiting() const;
  void pump();
  void send_refresh();
  void send_older();
  void on_refresh_rows(std::span<const StoredRow> rows, bool complete, std::string_view anchor_nonce);
  void on_older_rows(std::span<const StoredRow> rows, bool complete);
  void forget_all();
  void append(FeedCache& cache, const StoredRow& row);
  void append_new(std::int64_t sequence, std::string_view nonce, std::string_view element);
  void append_own(std::int64_t sequence, std::string_view nonce, std::string_view element);
  bool takes_own() const;
  void take_own();
  bool watched() const;
  void note_complete();
  void answer_covered();
  void answer(const Waiting& waiting, HttpBody body);
  void refuse(const Waiting& waiting, std::string_view detail);
  void refuse_all(std::string_view detail);
  void expire();
  void arm_timers();
  std::string etag(const FeedQuery& query) const;
  bool is_unchanged(const FeedQuery& query) const;

  EventLoop& loop_;
  Log& log_;
  const Cipher& cipher_;
  AnswerQueue& answers_;
  ReadDriver& driver_;
  RowText text_;
  FeedRider* rider_ = nullptr;
  std::size_t chunk_bytes_;
  std::size_t reread_bytes_;
  FeedCache cache_;
  OwnRows own_;
  std::int64_t anchor_ = 0;  // the last row that was read, not added: while it stands, so does what was added
  std::string anchor_nonce_;
  std::uint64_t writer_era_ = 1;    // of the connection that commits
  std::uint64_t reading_era_ = 0;   // when the read was sent
  std::uint64_t verified_era_ = 0;  // of the last read that found the end: own rows may be added in it
  bool own_added_ = false;          // behind the anchor
  bool foreign_hint_ = false;       // by others, or by nobody knows whom
  std::int64_t own_through_ = 0;    // the last row that was committed here
  TimePoint last_feed_{};           // a feed was asked for
  std::string generation_;
  Reading reading_ = Reading::Nothing;
  bool refresh_wanted_ = false;  // by a hint, a poll, or because a read was cut
  bool renew_wanted_ = false;    // the end of the feed was not found again
  bool older_turn_ = false;      // refreshes and older reads take turns
  TimePoint read_sent_{};
  TimePoint read_again_at_{};  // after a failed read
  std::vector<Waiting> arrived_;
  std::vector<Waiting> covered_;
  std::deque<std::unique_ptr<Older>> older_;
  FeedCache::References older_read_;  // by the last answer with a whole feed
  std::shared_ptr<std::size_t> older_held_ = std::make_shared<std::size_t>(0);  // at most reread_bytes_
  HeapTimer hint_timer_;
  HeapTimer again_timer_;
  HeapTimer poll_timer_;
  HeapTimer deadline_timer_;
  const std::int64_t read_rows_;
  bool complete_ = false;      // rows that are read now are new ones
  bool reset_wanted_ = false;  // the chat has been told of rows that are no more
  MessageStoreStats stats_;
};

}  // namespace dlb::backend
