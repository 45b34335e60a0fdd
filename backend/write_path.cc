#include "backend/write_path.h"

#include <algorithm>
#include <utility>

#include "common/check.h"
#include "common/clock.h"

namespace dlb::backend {
namespace {

constexpr std::uint32_t kMaxAttempts = 20;  // a batch's sends, splits included; time bounds them first
// Batches on their way to the database at which only full ones follow: it takes them one after the other, so
// a further small one would gain nothing but its commit.
constexpr std::size_t kSmallBatchesInFlight = 2;
constexpr Duration kReservePause = std::chrono::milliseconds(100);
constexpr Duration kRetryPause = std::chrono::milliseconds(5);
// A batch that the database has not settled by itself: the statement time-out and the time to come back after
// a restart.
constexpr Duration kSettleGrace = std::chrono::seconds(1);
// Over that and the lock time-out: the last send's own verdict, which says whether anything was stored, comes
// first.
constexpr Duration kGiveUpGrace = std::chrono::milliseconds(250);

WriteBatcher::Limits limits_of(const StoreConfig& config) {
  WriteBatcher::Limits limits;
  limits.batch_rows = config.write_batch_rows;
  limits.batch_bytes = config.write_batch_bytes;
  limits.delay = config.write_batch_delay;
  limits.queue_rows = config.write_queue_rows;
  limits.queue_bytes = config.write_queue_bytes;
  limits.queue_timeout = config.write_queue_timeout;
  return limits;
}

RowResult result_of(RowResult::Kind kind, std::string_view detail) {
  RowResult result;
  result.kind = kind;
  result.detail = detail;
  return result;
}

}  // namespace

WritePath::WritePath(EventLoop& loop, TimerHeap& timers, Log& log, const StoreConfig& config, Cipher& cipher,
                     AnswerQueue& answers, WriteDriver& driver)
    : loop_(loop),
      log_(log),
      cipher_(cipher),
      answers_(answers),
      driver_(driver),
      batcher_(limits_of(config)),
      pipeline_depth_(std::max<std::size_t>(config.write_pipeline_depth, 1)),
      settle_limit_(config.statement_timeout + kSettleGrace),
      give_up_limit_(settle_limit_ + config.lock_timeout + kGiveUpGrace),
      timer_(timers, *this) {}

void WritePath::put(NewMessage message, std::uint64_t token) {
  ++stats_.puts;
  const char* refusal = nullptr;
  if (driver_.write_away()) {
    refusal = "the database cannot be reached";
  } else if (batcher_.offer(std::move(message), token, loop_.now()) == WriteBatcher::Offer::QueueFull) {
    ++stats_.queue_full;
    refusal = "the write queue is full";
  }
  if (refusal != nullptr) {
    ++stats_.unavailable;
    PutAnswer answer{token, {}};
    answer.outcome.detail = refusal;
    answers_.push(std::move(answer));
    return;
  }
  pump();
}

void WritePath::on_driver_change() { pump(); }

void WritePath::on_heap_timer(HeapTimer&) { pump(); }

void WritePath::pump() {
  const TimePoint now = loop_.now();
  if (driver_.write_away()) {
    batcher_.fail_queue(result_of(RowResult::Kind::Unavailable, "the database cannot be reached"), ended_);
  }
  stats_.queue_timeouts += batcher_.expire(now, ended_);
  end_resends();
  give_up_overdue();
  if (driver_.write_ready()) {
    if (budget_.wants_block() && now >= reserve_again_at_) {
      budget_.asked();
      driver_.send_reserve(cipher_.encrypting_key());
    }
    while (in_flight_.size() < pipeline_depth_ && driver_.write_ready()) {
      if (!resends_.empty()) {
        if (resends_.front()->not_before > now) break;
        std::unique_ptr<Batch> batch = std::move(resends_.front());
        resends_.pop_front();
        ++stats_.batch_retries;
        send(std::move(batch));
      } else if (!send_next_new()) {
        break;
      }
    }
  }
  collect_answers();
  arm_timer();
}

bool WritePath::may_send_new() const {
  return in_flight_.size() < std::min(pipeline_depth_, kSmallBatchesInFlight) ||
         (in_flight_.size() < pipeline_depth_ && batcher_.full());
}

bool WritePath::send_next_new() {
  const TimePoint now = loop_.now();
  if (!may_send_new() || !batcher_.due(now)) return false;
  if (budget_.exhausted()) {
    batcher_.fail_queue(
        result_of(RowResult::Kind::Refused,
                  "the encryption key has reached its limit: put a new key first in the key file"),
        ended_);
    return false;
  }
  auto batch = std::make_unique<Batch>();
  batch->rows = batcher_.take(now, static_cast<std::size_t>(budget_.left()));
  if (batch->rows.empty()) return false;  // waiting for a block of the key's budget
  for (const auto& row : batch->rows) stats_.queue_wait_seconds_sum += seconds(now - row->queued_at);
  seal(*batch);
  if (!batch->rows.empty()) send(std::move(batch));
  return true;
}

void WritePath::seal(Batch& batch) {
  const TimePoint begin = monotonic_now();
  for (auto& row : batch.rows) {
    row->sealed = cipher_.seal(row->message.id, row->message.client_name, row->message.text);
    ++stats_.encrypts;
    if (!row->sealed.has_value())
      settle(std::move(row), result_of(RowResult::Kind::Refused, "encryption failed"));
  }
  budget_.spend(static_cast<std::int64_t>(batch.rows.size()));
  std::erase(batch.rows, nullptr);
  stats_.encrypt_seconds_sum += seconds(monotonic_now() - begin);
}

void WritePath::send(std::unique_ptr<Batch> batch) {
  const TimePoint now = loop_.now();
  if (batch->attempts == 0) batch->first_sent = now;
  batch->sent = now;
  ++batch->attempts;
  ++stats_.batches;
  stats_.batch_rows += batch->rows.size();
  const std::uint64_t id = next_batch_id_++;
  const WriteBatch& rows = batch->rows;
  in_flight_.emplace(id, std::move(batch));
  driver_.send_batch(id, rows);
}

std::unique_ptr<WritePath::Batch> WritePath::take_in_flight(std::uint64_t batch_id) {
  const auto found = in_flight_.find(batch_id);
  DLB_CHECK(found != in_flight_.end());
  std::unique_ptr<Batch> batch = std::move(found->second);
  in_flight_.erase(found);
  const double took = seconds(loop_.now() - batch->sent);
  stats_.batch_seconds_sum += took;
  stats_.batch_seconds_max = std::max(stats_.batch_seconds_max, took);
  return batch;
}

void WritePath::on_batch_replies(std::uint64_t batch_id, std::span<const RowReply> replies) {
  std::unique_ptr<Batch> batch = take_in_flight(batch_id);
  DLB_CHECK(replies.size() == batch->rows.size());
  auto again = std::make_unique<Batch>();
  again->first_sent = batch->first_sent;
  again->attempts = batch->attempts;
  std::int64_t first = 0;
  std::int64_t last = 0;
  for (std::size_t i = 0; i < replies.size(); ++i) {
    std::unique_ptr<PendingWrite> row = std::move(batch->rows[i]);
    const RowReply& reply = replies[i];
    switch (reply.kind) {
      case RowReply::Kind::Created: {
        RowResult result;
        result.kind = RowResult::Kind::Stored;
        result.sequence = reply.sequence;
        result.timestamp_us = reply.timestamp_us;
        result.source = row->message.source;
        first = first == 0 ? reply.sequence : std::min(first, reply.sequence);
        last = std::max(last, reply.sequence);
        driver_.stored(*row, reply);
        settle(std::move(row), result);
        break;
      }
      case RowReply::Kind::Existing:
        settle_existing(std::move(row), reply.existing);
        break;
      case RowReply::Kind::Missing:
        again->rows.push_back(std::move(row));
        break;
    }
  }
  if (!again->rows.empty()) resend(std::move(again), Duration::zero());
  if (last != 0) driver_.announce(first, last);
  pump();
}

void WritePath::settle_existing(std::unique_ptr<PendingWrite> row, const StoredRow& existing) {
  RowResult result;
  result.sequence = existing.sequence;
  result.timestamp_us = existing.timestamp_us;
  result.source = existing.source;
  if (row->sealed.has_value() && existing.nonce == row->sealed->nonce_bytes()) {
    result.kind = RowResult::Kind::Stored;  // an earlier send of ours that was not confirmed
  } else {
    result.kind = RowResult::Kind::Existing;
    ++stats_.decrypts;
    const auto text = cipher_.open(existing.message_id, existing.client_name, existing.key_id, existing.nonce,
                                   existing.ciphertext);
    if (text.has_value()) result.digest = content_digest(existing.client_name, *text);
  }
  settle(std::move(row), result);
}

void WritePath::on_batch_failed(std::uint64_t batch_id, BatchFailure failure, std::string_view detail) {
  std::unique_ptr<Batch> batch = take_in_flight(batch_id);
  switch (failure) {
    case BatchFailure::Lost:
      for (auto& row : batch->rows) row->in_doubt = true;
      resend(std::move(batch), Duration::zero());
      break;
    case BatchFailure::Unsent:
      resend(std::move(batch), Duration::zero());
      break;
    case BatchFailure::Retry:
      log_.warn("batch sent again", {{"why", detail}, {"rows", batch->rows.size()}});
      resend(std::move(batch), kRetryPause);
      break;
    case BatchFailure::Poison:
      if (batch->rows.size() > 1) {
        split(std::move(batch));
      } else {
        log_.error("row refused by the database",
                   {{"why", detail}, {"message-id", batch->rows.front()->message.id}});
        end_batch(*batch, RowResult::Kind::Refused, "the database refuses this message");
      }
      break;
    case BatchFailure::Down:
      log_.error("batch not stored", {{"why", detail}, {"rows", batch->rows.size()}});
      end_batch(*batch, RowResult::Kind::Unavailable, "the database cannot store messages now");
      break;
  }
  pump();
}

// Behind other resends: failures of one connection come in sending order.
void WritePath::resend(std::unique_ptr<Batch> batch, Duration pause) {
  if (batch->attempts >= kMaxAttempts) {
    end_batch(*batch, RowResult::Kind::Unavailable, "the database did not take the message in many attempts");
    return;
  }
  batch->not_before = loop_.now() + pause;
  resends_.push_back(std::move(batch));
}

// Halves go before everything else, in order. A single poisonous row is found in log2(rows) rounds.
void WritePath::split(std::unique_ptr<Batch> batch) {
  auto second = std::make_unique<Batch>();
  second->first_sent = batch->first_sent;
  second->attempts = batch->attempts;
  const auto middle = batch->rows.begin() + static_cast<std::ptrdiff_t>(batch->rows.size() / 2);
  std::move(middle, batch->rows.end(), std::back_inserter(second->rows));
  batch->rows.erase(middle, batch->rows.end());
  resends_.push_front(std::move(second));
  resends_.push_front(std::move(batch));
}

// Rows whose askers have all gone are not sent again.
void WritePath::drop_unwanted(Batch& batch) {
  for (auto& row : batch.rows) {
    if (row->waiters.empty()) settle(std::move(row), result_of(RowResult::Kind::Unavailable, ""));
  }
  std::erase(batch.rows, nullptr);
}

// Ends what may wait no longer: everything past its time, and while the database is away all that is not in
// doubt.
void WritePath::end_resends() {
  const TimePoint now = loop_.now();
  const bool away = driver_.write_away();
  for (auto& batch : resends_) {
    drop_unwanted(*batch);
    if (now >= batch->first_sent + settle_limit_) {
      end_batch(*batch, RowResult::Kind::Unavailable, "the database did not confirm the message in time");
    } else if (away) {
      for (auto& row : batch->rows) {
        if (row->in_doubt) continue;
        settle(std::move(row), result_of(RowResult::Kind::Unavailable, "the database cannot be reached"));
      }
      std::erase(batch->rows, nullptr);
    }
  }
  std::erase_if(resends_, [](const std::unique_ptr<Batch>& batch) { return batch->rows.empty(); });
}

// A batch that waits behind others in the pipeline, each of them held up by a lock, may come back much later
// than its own statement time-out. It goes on, but nobody waits for it any longer; nor does who asks again.
void WritePath::give_up_overdue() {
  for (auto& [id, batch] : in_flight_) {
    if (loop_.now() < batch->first_sent + give_up_limit_) continue;
    for (auto& row : batch->rows) {
      batcher_.give_up(
          *row,
          result_of(RowResult::Kind::OutcomeUnknown,
                    "the database did not confirm the message in time: send it again with the same "
                    "message-id"),
          ended_);
    }
  }
}

void WritePath::end_batch(Batch& batch, RowResult::Kind kind, std::string_view detail) {
  for (auto& row : batch.rows) {
    const bool unknown = row->in_doubt && kind == RowResult::Kind::Unavailable;
    settle(std::move(row),
           unknown ? result_of(RowResult::Kind::OutcomeUnknown,
                               "the connection was lost before the database confirmed the message: "
                               "send it again with the same message-id")
                   : result_of(kind, detail));
  }
  batch.rows.clear();
}

void WritePath::settle(std::unique_ptr<PendingWrite> row, const RowResult& result) {
  batcher_.settle(std::move(row), result, ended_);
}

void WritePath::collect_answers() {
  for (const PutAnswer& answer : ended_) {
    switch (answer.outcome.status) {
      case PutStatus::Created:
        ++stats_.created;
        break;
      case PutStatus::Duplicate:
        ++stats_.duplicates;
        break;
      case PutStatus::Conflict:
        ++stats_.conflicts;
        break;
      case PutStatus::Unavailable:
        ++stats_.unavailable;
        break;
      case PutStatus::OutcomeUnknown:
        ++stats_.outcome_unknown;
        break;
      case PutStatus::Refused:
        ++stats_.refused;
        break;
    }
  }
  answers_.push(ended_);
}

void WritePath::on_reserved(std::int64_t counter) {
  if (counter < 0) {
    budget_.refused();
    log_.error("encryption key is used up: put a new key first in the key file and restart",
               {{"key-id", hex(as_bytes(cipher_.encrypting_key()))}});
  } else {
    budget_.granted(counter);
    if (counter >= KeyBudget::kWarnAt && !warned_of_key_) {
      warned_of_key_ = true;
      log_.warn("encryption key is half used up: put a new key first in the key file",
                {{"key-id", hex(as_bytes(cipher_.encrypting_key()))}, {"encryptions", counter}});
    }
  }
  pump();
}

void WritePath::on_reserve_failed() {
  budget_.ask_failed();
  reserve_again_at_ = loop_.now() + kReservePause;
  pump();
}

void WritePath::arm_timer() {
  TimePoint next = batcher_.expires_at();
  // Otherwise the next reply, or the connection's coming up, pumps.
  if (driver_.write_ready() && may_send_new() && budget_.left() > 0 && resends_.empty()) {
    next = std::min(next, batcher_.due_at());
  }
  for (const auto& [id, batch] : in_flight_) {
    const TimePoint overdue = batch->first_sent + give_up_limit_;
    if (overdue > loop_.now()) next = std::min(next, overdue);
  }
  for (const auto& batch : resends_) {
    next = std::min(next, batch->first_sent + settle_limit_);
    if (batch->not_before > loop_.now()) next = std::min(next, batch->not_before);
  }
  if (driver_.write_ready() && budget_.wants_block()) next = std::min(next, reserve_again_at_);
  if (next == kNever) {
    timer_.cancel();
  } else if (!timer_.armed() || timer_.deadline() != next) {
    timer_.arm_at(next);
  }
}

void WritePath::add_stats(MessageStoreStats& stats) const {
  stats.puts = stats_.puts;
  stats.created = stats_.created;
  stats.duplicates = stats_.duplicates;
  stats.conflicts = stats_.conflicts;
  stats.unavailable = stats_.unavailable;
  stats.outcome_unknown = stats_.outcome_unknown;
  stats.refused = stats_.refused;
  stats.batches = stats_.batches;
  stats.batch_rows = stats_.batch_rows;
  stats.batch_retries = stats_.batch_retries;
  stats.queue_full = stats_.queue_full;
  stats.queue_timeouts = stats_.queue_timeouts;
  stats.queued_rows = batcher_.queued_rows();
  stats.queued_bytes = batcher_.queued_bytes();
  stats.batches_in_flight = in_flight_.size();
  stats.batch_seconds_sum = stats_.batch_seconds_sum;
  stats.batch_seconds_max = stats_.batch_seconds_max;
  stats.queue_wait_seconds_sum = stats_.queue_wait_seconds_sum;
  stats.encrypts = stats_.encrypts;
  stats.encrypt_seconds_sum = stats_.encrypt_seconds_sum;
  stats.decrypts += stats_.decrypts;
}

}  // namespace dlb::backend
