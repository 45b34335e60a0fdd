// WriteBatcher: which writes go to the database together, and what each asker is told. Keeps arrival order,
// holds an id once (a repeat joins the write that is queued or in flight), bounds the queue in rows, bytes
// and time, and turns a row's result into its waiters' answers.
//
//   offer() ─▶ queue ─▶ take() ─▶ [a WriteBatch, owned by the store, sent and resent] ─▶ settle() ─▶ answers
//                └─▶ expire(), cancel(), fail_queue()
//
// At the cap (rows or bytes) offer() refuses. Pure: no I/O, no clock (`now` comes in), no encryption.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "backend/cipher.h"
#include "backend/message.h"
#include "common/clock.h"

namespace dlb::backend {

// One row to be written and those who wait for it. The address is stable from offer() to settle().
struct PendingWrite {
  struct Waiter {
    std::uint64_t token = 0;
    std::optional<ContentDigest> other;  // of what this waiter posted, when that is not the row's content
  };

  NewMessage message;
  std::optional<SealedText> sealed;  // made once: a resend carries the same nonce
  TimePoint queued_at{};
  std::size_t bytes = 0;
  bool queued = true;     // not sent yet
  bool in_doubt = false;  // some attempt may have been committed without our knowing
  std::vector<Waiter> waiters;
};

using WriteBatch = std::vector<std::unique_ptr<PendingWrite>>;

// What became of a row.
struct RowResult {
  enum class Kind : std::uint8_t {
    Stored,          // committed now, or found there with our own nonce
    Existing,        // another row has the id: compare with `digest`
    Unavailable,     // not stored
    OutcomeUnknown,  // in doubt, and no time left to find out
    Refused,         // not stored and never will be
  };
  Kind kind = Kind::Unavailable;
  std::int64_t sequence = 0;
  std::int64_t timestamp_us = 0;
  MessageSource source = MessageSource::Http;
  std::optional<ContentDigest> digest;  // Existing: of the stored row; none when it can't be decrypted
  std::string detail;
};

struct PutAnswer {
  std::uint64_t token = 0;
  PutOutcome outcome;
};

class WriteBatcher {
 public:
  struct Limits {
    std::size_t batch_rows = 128;
    std::size_t batch_bytes = std::size_t{1} << 20;  // a single larger row still makes a batch
    Duration delay = std::chrono::milliseconds(2);
    std::size_t queue_rows = 256;
    std::size_t queue_bytes = std::size_t{16} << 20;
    Duration queue_timeout = std::chrono::seconds(5);
    std::size_t waiters_per_row = 4096;
  };

  enum class Offer : std::uint8_t { Queued, Joined, QueueFull };

  explicit WriteBatcher(const Limits& limits) : limits_(limits) {}

  // Takes the message in unless QueueFull. `token` must not be waiting already.
  Offer offer(NewMessage message, std::uint64_t token, TimePoint now);

  // The asker is gone. A row that nobody waits for leaves the queue if it has not been taken. False: unknown
  // token.
  bool cancel(std::uint64_t token);

  // Whether take() would give a batch now: it is full, its first row has waited out the delay, or rows were
  // left behind by the last take() (a backlog drains without a timer).
  bool due(TimePoint now) const;
  // As many rows, or bytes, as a batch may have.
  bool full() const { return queue_.size() >= limits_.batch_rows || queued_bytes_ >= limits_.batch_bytes; }
  // When due() turns true by itself; kNever when the queue is empty.
  TimePoint due_at() const;
  // When expire() has something to do; kNever when the queue is empty.
  TimePoint expires_at() const;

  // The next rows in arrival order, at most `max_rows` (and the limits); empty when nothing is due or
  // max_rows is 0.
  WriteBatch take(TimePoint now, std::size_t max_rows);

  // Answers Unavailable for rows that have been queued longer than the queue time-out; counts them.
  std::size_t expire(TimePoint now, std::vector<PutAnswer>& answers);

  // Empties the queue with one result for all (the database is away: nothing is kept for later).
  void fail_queue(const RowResult& result, std::vector<PutAnswer>& answers);

  // Ends a row that was taken: answers its waiters and forgets it. The first waiter with the row's own
  // content gets Created when it was stored now, the others Duplicate; other content gets Conflict.
  void settle(std::unique_ptr<PendingWrite> row, const RowResult& result, std::vector<PutAnswer>& answers);

  // Answers those who wait for a row that was taken and stays with its taker: they have waited long enough.
  void give_up(PendingWrite& row, const RowResult& result, std::vector<PutAnswer>& answers);

  std::size_t queued_rows() const { return queue_.size(); }
  std::size_t queued_bytes() const { return queued_bytes_; }
  std::size_t pending_rows() const { return by_id_.size(); }  // queued and in flight

 private:
  void answer_all(PendingWrite& row, const RowResult& result, std::vector<PutAnswer>& answers);

  Limits limits_;
  std::deque<std::unique_ptr<PendingWrite>> queue_;
  std::size_t queued_bytes_ = 0;
  bool backlog_ = false;
  std::unordered_map<std::string, PendingWrite*> by_id_;
  std::unordered_map<std::uint64_t, PendingWrite*> by_token_;
};

}  // namespace dlb::backend
