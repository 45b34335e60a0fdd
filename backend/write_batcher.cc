#include "backend/write_batcher.h"

#include <algorithm>
#include <utility>

#include "common/check.h"

namespace dlb::backend {
namespace {

constexpr std::size_t kRowOverhead = 128;  // nonce, tag, key id, framing

}  // namespace

WriteBatcher::Offer WriteBatcher::offer(NewMessage message, std::uint64_t token, TimePoint now) {
  DLB_CHECK(!by_token_.contains(token));
  if (const auto found = by_id_.find(message.id); found != by_id_.end()) {
    PendingWrite& row = *found->second;
    if (row.waiters.size() >= limits_.waiters_per_row) return Offer::QueueFull;
    const bool same = row.message.client_name == message.client_name && row.message.text == message.text;
    row.waiters.push_back(
        {token, same ? std::optional<ContentDigest>() : content_digest(message.client_name, message.text)});
    by_token_.emplace(token, &row);
    return Offer::Joined;
  }
  const std::size_t bytes = message.id.size() + message.client_name.size() + message.text.size() +
                            message.signature.size() + kRowOverhead;
  if (queue_.size() >= limits_.queue_rows || queued_bytes_ + bytes > limits_.queue_bytes)
    return Offer::QueueFull;

  auto row = std::make_unique<PendingWrite>();
  row->message = std::move(message);
  row->queued_at = now;
  row->bytes = bytes;
  row->waiters.push_back({token, std::nullopt});
  by_id_.emplace(row->message.id, row.get());
  by_token_.emplace(token, row.get());
  queued_bytes_ += bytes;
  queue_.push_back(std::move(row));
  return Offer::Queued;
}

bool WriteBatcher::cancel(std::uint64_t token) {
  const auto found = by_token_.find(token);
  if (found == by_token_.end()) return false;
  PendingWrite& row = *found->second;
  by_token_.erase(found);
  std::erase_if(row.waiters, [token](const PendingWrite::Waiter& waiter) { return waiter.token == token; });
  if (row.waiters.empty() && row.queued) {
    by_id_.erase(row.message.id);
    queued_bytes_ -= row.bytes;
    std::erase_if(queue_, [&row](const std::unique_ptr<PendingWrite>& other) { return other.get() == &row; });
    if (queue_.empty()) backlog_ = false;
  }
  return true;
}

bool WriteBatcher::due(TimePoint now) const { return due_at() <= now; }

TimePoint WriteBatcher::due_at() const {
  if (queue_.empty()) return kNever;
  const TimePoint first = queue_.front()->queued_at;
  return backlog_ || full() ? first : first + limits_.delay;
}

TimePoint WriteBatcher::expires_at() const {
  return queue_.empty() ? kNever : queue_.front()->queued_at + limits_.queue_timeout;
}

WriteBatch WriteBatcher::take(TimePoint now, std::size_t max_rows) {
  WriteBatch batch;
  if (!due(now)) return batch;
  max_rows = std::min(max_rows, limits_.batch_rows);
  std::size_t bytes = 0;
  while (!queue_.empty() && batch.size() < max_rows) {
    const std::size_t next = queue_.front()->bytes;
    if (!batch.empty() && bytes + next > limits_.batch_bytes) break;
    bytes += next;
    queued_bytes_ -= next;
    batch.push_back(std::move(queue_.front()));
    batch.back()->queued = false;
    queue_.pop_front();
  }
  backlog_ = !queue_.empty();
  return batch;
}

std::size_t WriteBatcher::expire(TimePoint now, std::vector<PutAnswer>& answers) {
  RowResult result;
  result.detail = "the write queue is not moving";
  std::size_t expired = 0;
  while (!queue_.empty() && expires_at() <= now) {
    std::unique_ptr<PendingWrite> row = std::move(queue_.front());
    queue_.pop_front();
    queued_bytes_ -= row->bytes;
    settle(std::move(row), result, answers);
    ++expired;
  }
  if (queue_.empty()) backlog_ = false;
  return expired;
}

void WriteBatcher::fail_queue(const RowResult& result, std::vector<PutAnswer>& answers) {
  while (!queue_.empty()) {
    std::unique_ptr<PendingWrite> row = std::move(queue_.front());
    queue_.pop_front();
    settle(std::move(row), result, answers);
  }
  queued_bytes_ = 0;
  backlog_ = false;
}

void WriteBatcher::settle(std::unique_ptr<PendingWrite> row, const RowResult& result,
                          std::vector<PutAnswer>& answers) {
  by_id_.erase(row->message.id);
  for (const PendingWrite::Waiter& waiter : row->waiters) by_token_.erase(waiter.token);
  answer_all(*row, result, answers);
}

void WriteBatcher::give_up(PendingWrite& row, const RowResult& result, std::vector<PutAnswer>& answers) {
  for (const PendingWrite::Waiter& waiter : row.waiters) by_token_.erase(waiter.token);
  answer_all(row, result, answers);
  row.waiters.clear();
}

void WriteBatcher::answer_all(PendingWrite& row, const RowResult& result, std::vector<PutAnswer>& answers) {
  using Kind = RowResult::Kind;
  bool created = false;
  bool row_is_same = result.kind == Kind::Stored;
  if (result.kind == Kind::Existing && result.digest.has_value()) {
    row_is_same = same_content(content_digest(row.message.client_name, row.message.text), *result.digest);
  }
  for (const PendingWrite::Waiter& waiter : row.waiters) {
    PutOutcome outcome;
    if (result.kind == Kind::Stored || result.kind == Kind::Existing) {
      const bool stored = result.kind == Kind::Stored;
      bool same = row_is_same;
      if (waiter.other.has_value()) {
        same = !stored && result.digest.has_value() && same_content(*waiter.other, *result.digest);
      }
      if (!same) {
        outcome.status = PutStatus::Conflict;
        outcome.detail = stored || result.digest.has_value()
                             ? "this message-id belongs to a message with another client-name or text"
                             : "this message-id belongs to a message that cannot be decrypted";
      } else {
        outcome.status = stored && !created ? PutStatus::Created : PutStatus::Duplicate;
        created = created || stored;
        outcome.sequence = result.sequence;
        outcome.timestamp_us = result.timestamp_us;
        outcome.source = result.source;
      }
    } else {
      outcome.status = result.kind == Kind::Unavailable      ? PutStatus::Unavailable
                       : result.kind == Kind::OutcomeUnknown ? PutStatus::OutcomeUnknown
                                                             : PutStatus::Refused;
      outcome.detail = result.detail;
    }
    answers.push_back({waiter.token, std::move(outcome)});
  }
}

}  // namespace dlb::backend
