// WritePath: the life of a write, the same on both stores. Forms batches, seals them, hands them to the
// database's driver, sends again what may be sent again, isolates a row that poisons its batch, and ends
// every row with one result.
//
//   put() ─▶ WriteBatcher ─▶ take + seal ─▶ in flight ──▶ settled
//                                             │   ▲
//                              failed, lost ▼   │ driver can send, waiters still wait
//                                            resend queue ──▶ deadline: Unavailable, or OutcomeUnknown when
//                                            in doubt
//
// A batch ends `settle limit` after it was first sent. While the database is away nothing is kept but what is
// in doubt. Runs on the store's loop; knows no SQL.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "backend/answer_queue.h"
#include "backend/cipher.h"
#include "backend/key_budget.h"
#include "backend/store_config.h"
#include "backend/stored_row.h"
#include "backend/write_batcher.h"
#include "common/event_loop.h"
#include "common/log.h"
#include "common/timer_heap.h"

namespace dlb::backend {

// What a database does for writes. Answers come to the WritePath, never inside these calls.
class WriteDriver {
 public:
  // The connection is up and set up, and what was sent last has left.
  virtual bool write_ready() const = 0;
  // Not up, and it isn't just being (re)connected for the first time: writes are refused.
  virtual bool write_away() const = 0;
  // Requires write_ready(). `batch` stays untouched and alive until the answer. Answered by
  // on_batch_replies() with one reply a row, in order, or on_batch_failed().
  virtual void send_batch(std::uint64_t batch_id, const WriteBatch& batch) = 0;
  // Requires write_ready(). Reserves KeyBudget::kBlock encryptions: on_reserved(counter), (-1) when the key's
  // limit is reached, or on_reserve_failed().
  virtual void send_reserve(const KeyId& key) = 0;
  // A row of the batch has been committed now; announce() follows.
  virtual void stored(const PendingWrite&, const RowReply&) {}
  // These sequences have been committed here: tell the other processes, sometime.
  virtual void announce(std::int64_t first_sequence, std::int64_t last_sequence) = 0;

 protected:
  ~WriteDriver() = default;
};

class WritePath final : public HeapTimerHandler {
 public:
  WritePath(EventLoop& loop, TimerHeap& timers, Log& log, const StoreConfig& config, Cipher& cipher,
            AnswerQueue& answers, WriteDriver& driver);

  void put(NewMessage message, std::uint64_t token);
  bool cancel(std::uint64_t token) { return batcher_.cancel(token); }

  // From the driver. Each may send.
  void on_batch_replies(std::uint64_t batch_id, std::span<const RowReply> replies);
  void on_batch_failed(std::uint64_t batch_id, BatchFailure failure, std::string_view detail);
  void on_reserved(std::int64_t counter);
  void on_reserve_failed();
  // Readiness has changed: up, lost, or found to be away.
  void on_driver_change();

  bool idle() const { return batcher_.pending_rows() == 0; }
  void add_stats(MessageStoreStats& stats) const;

  void on_heap_timer(HeapTimer& timer) override;

 private:
  struct Batch {
    WriteBatch rows;
    TimePoint first_sent{};
    TimePoint sent{};
    TimePoint not_before{};  // of a resend
    std::uint32_t attempts = 0;
  };

  void pump();
  void send(std::unique_ptr<Batch> batch);
  bool may_send_new() const;
  bool send_next_new();
  void seal(Batch& batch);
  void resend(std::unique_ptr<Batch> batch, Duration pause);
  void split(std::unique_ptr<Batch> batch);
  void drop_unwanted(Batch& batch);
  void end_resends();
  void give_up_overdue();
  void end_batch(Batch& batch, RowResult::Kind kind, std::string_view detail);
  void settle(std::unique_ptr<PendingWrite> row, const RowResult& result);
  void settle_existing(std::unique_ptr<PendingWrite> row, const StoredRow& existing);
  void collect_answers();
  void arm_timer();
  std::unique_ptr<Batch> take_in_flight(std::uint64_t batch_id);

  EventLoop& loop_;
  Log& log_;
  Cipher& cipher_;
  AnswerQueue& answers_;
  WriteDriver& driver_;
  WriteBatcher batcher_;
  KeyBudget budget_;
  std::size_t pipeline_depth_;
  Duration settle_limit_;   // nothing is sent again after that
  Duration give_up_limit_;  // and nobody waits after that
  std::unordered_map<std::uint64_t, std::unique_ptr<Batch>> in_flight_;
  std::deque<std::unique_ptr<Batch>> resends_;  // in the order in which they shall be sent
  std::uint64_t next_batch_id_ = 1;
  std::vector<PutAnswer> ended_;
  HeapTimer timer_;
  TimePoint reserve_again_at_{};  // after a failed reservation
  bool warned_of_key_ = false;
  MessageStoreStats stats_;
};

}  // namespace dlb::backend
