#include "loadgen/recorder.h"

#include <algorithm>
#include <numeric>

#include "common/check.h"
#include "loadgen/chat_text.h"

namespace dlb::loadgen {

std::string_view bucket_name(Bucket bucket) {
  static constexpr std::array<std::string_view, kBuckets> kNames = {
      "ok",       "other_2xx", "3xx",        "4xx",       "5xx",         "connect",
      "time_out", "reset",     "short_body", "malformed", "interrupted", "not_issued"};
  return kNames[static_cast<std::size_t>(bucket)];
}

Bucket bucket_of(OperationClass operation_class, ExchangeEnd end, int status) {
  switch (end) {
    case ExchangeEnd::Complete:
      if (status == 200 || (status == 201 && operation_class == OperationClass::Message)) return Bucket::Ok;
      if (status >= 200 && status < 300) return Bucket::OtherSuccess;
      if (status >= 300 && status < 400) return Bucket::Redirect;
      if (status >= 400 && status < 500) return Bucket::ClientError;
      if (status >= 500 && status < 600) return Bucket::ServerError;
      return Bucket::Malformed;
    case ExchangeEnd::ConnectFailed:
      return Bucket::Connect;
    case ExchangeEnd::TimedOut:
      return Bucket::TimeOut;
    case ExchangeEnd::Reset:
      return Bucket::Reset;
    case ExchangeEnd::ShortBody:
      return Bucket::ShortBody;
    case ExchangeEnd::Malformed:
      break;
  }
  return Bucket::Malformed;
}

std::uint64_t ClassTotals::done() const {
  return std::accumulate(buckets.begin(), buckets.end(), std::uint64_t{0}) - in(Bucket::NotIssued);
}

std::uint64_t ClassTotals::failed() const { return done() - in(Bucket::Ok)-in(Bucket::Interrupted); }

void Recorder::issued(OperationClass operation_class) {
  ++classes_[static_cast<std::size_t>(operation_class)].issued;
  if (hook_ != nullptr) hook_->on_issued();
}

void Recorder::taken_up(Duration lag) {
  schedule_lag_us_.record(micros(lag));
  planned_ = std::max(planned_, ++taken_up_);
  if (hook_ != nullptr) hook_->on_planned();
}

void Recorder::record(const OperationResult& result) {
  DLB_CHECK(!closed_);
  DLB_CHECK(result.bucket != Bucket::NotIssued);
  ClassTotals& totals = classes_[static_cast<std::size_t>(result.operation_class)];
  const bool ok = result.bucket == Bucket::Ok;
  const bool whole = result.bucket <= Bucket::ServerError;
  ++totals.buckets[static_cast<std::size_t>(result.bucket)];
  totals.body_bytes += result.body_bytes;
  ++interval_.done;
  if (!ok && result.bucket != Bucket::Interrupted) ++interval_.failed;
  if (whole && result.status >= 100 && result.status < 600) ++totals.statuses[result.status - 100U];
  if (result.err != 0) count_errno(result.err);
  if (result.idle_close_race) ++idle_close_races_;

  if (result.head) {
    ++totals.heads;
    if (result.status >= 200 && result.status < 300) {
      ++totals.heads_2xx;
      totals.header_2xx_us.record(micros(result.header_latency));
    }
  }
  if (hook_ != nullptr) {
    hook_->on_result(result, result.backend == kNoBackend ? std::string_view()
                                                          : std::string_view(backends_[result.backend].name));
  }

  const std::uint64_t latency_us = micros(result.latency);
  if (ok && result.slow_reader) {
    totals.slow_us.record(latency_us);
  } else if (ok) {
    totals.latency_us.record(latency_us);
    totals.header_us.record(micros(result.header_latency));
    if (result.intended_latency > Duration::zero())
      totals.intended_us.record(micros(result.intended_latency));
    interval_.latency_us.record(latency_us);
  }
  if (whole && result.backend != kNoBackend) {
    BackendShare& share = backends_[result.backend];
    ++share.responses;
    if (ok) {
      ++share.ok;
      if (result.slow_reader) {
        ++share.slow;
      } else {
        share.latency_us_sum += latency_us;
      }
    }
    interval_.responses.resize(backends_.size());
    ++interval_.responses[result.backend];
  }
}

void Recorder::close() {
  DLB_CHECK(!closed_);
  closed_ = true;
  hook_ = nullptr;
  const std::uint64_t issued = issued_count();
  DLB_CHECK_MSG(issued == done(), "an operation was recorded twice or not at all");
  not_issued_ = planned_ > issued ? planned_ - issued : 0;
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) sum += in(static_cast<Bucket>(i));
  DLB_CHECK_MSG(sum == planned(), "the buckets don't sum to the plan");
}

void ClassTotals::merge(const ClassTotals& other) {
  issued += other.issued;
  for (std::size_t i = 0; i < buckets.size(); ++i) buckets[i] += other.buckets[i];
  for (std::size_t i = 0; i < statuses.size(); ++i) statuses[i] += other.statuses[i];
  body_bytes += other.body_bytes;
  heads += other.heads;
  heads_2xx += other.heads_2xx;
  header_2xx_us.merge(other.header_2xx_us);
  latency_us.merge(other.latency_us);
  header_us.merge(other.header_us);
  intended_us.merge(other.intended_us);
  slow_us.merge(other.slow_us);
}

void Recorder::merge(const Recorder& other) {
  DLB_CHECK(other.closed_);
  closed_ = true;
  planned_ += other.planned();
  for (std::size_t i = 0; i < classes_.size(); ++i) classes_[i].merge(other.classes_[i]);
  not_issued_ += other.not_issued_;
  idle_close_races_ += other.idle_close_races_;
  repeats_ += other.repeats_;
  mismatched_answers_ += other.mismatched_answers_;
  connect_us_.merge(other.connect_us_);
  taken_up_ += other.taken_up_;
  queue_full_ += other.queue_full_;
  schedule_lag_us_.merge(other.schedule_lag_us_);
  for (const BackendShare& share : other.backends_) {
    BackendShare& mine = backends_[backend_index(share.name)];
    mine.responses += share.responses;
    mine.ok += share.ok;
    mine.slow += share.slow;
    mine.latency_us_sum += share.latency_us_sum;
  }
  for (const auto& [err, count] : other.errnos_) count_errno(err, count);
}

std::uint64_t Recorder::planned() const { return std::max(planned_, issued_count()); }

std::uint64_t Recorder::in(Bucket bucket) const {
  if (bucket == Bucket::NotIssued) return not_issued_;
  return classes_[0].in(bucket) + classes_[1].in(bucket);
}

std::uint32_t Recorder::backend_index(std::string_view name) {
  if (last_backend_ < backends_.size() && backends_[last_backend_].name == name) return last_backend_;
  for (std::size_t i = 0; i < backends_.size(); ++i) {
    if (backends_[i].name == name) return last_backend_ = static_cast<std::uint32_t>(i);
  }
  if (const std::string shown = escape_for_terminal(name); shown != name) return backend_index(shown);
  if (backends_.size() >= kMaxBackends) {
    if (backends_.size() == kMaxBackends) backends_.push_back(BackendShare{"other"});
    return static_cast<std::uint32_t>(kMaxBackends);
  }
  backends_.push_back(BackendShare{std::string(name)});
  return last_backend_ = static_cast<std::uint32_t>(backends_.size() - 1);
}

void Recorder::reset_interval() {
  interval_.done = interval_.failed = 0;
  interval_.latency_us.reset();
  std::fill(interval_.responses.begin(), interval_.responses.end(), 0);
}

void Recorder::count_errno(int err, std::uint64_t times) {
  for (auto& [known, count] : errnos_) {
    if (known == err) {
      count += times;
      return;
    }
  }
  errnos_.emplace_back(err, times);
}

}  // namespace dlb::loadgen
