#include "loadgen/chat_stage.h"

#include "common/check.h"
#include "common/clock.h"
#include "loadgen/hash.h"

namespace dlb::loadgen {
namespace {

constexpr int kCreated = 201;
constexpr int kDuplicate = 200;

// The status that the same refusal has over HTTP.
int status_of(std::string_view code) {
  if (code == "unavailable" || code == "outcome_unknown") return 503;
  if (code == "rate_limited") return 429;
  if (code == "id_conflict") return 409;
  if (code == "too_large") return 413;
  if (code == "bad_signature" || code == "not_registered") return 403;
  return 400;
}

}  // namespace

std::size_t scheduled_messages(const ChatStageShape& shape, Duration duration, std::size_t most) {
  if (duration == Duration::zero()) return most;
  Schedule schedule(shape.rate, shape.arrival, shape.seed);
  std::size_t count = 0;
  while (count < most && schedule.next() < duration) ++count;
  return count;
}

ChatStage::ChatStage(const ChatStageShape& shape, SignedMessages& messages, EventLoop& loop,
                     Subscribers& subscribers, Recorder& recorder, Ledger& ledger, ChatResult& result)
    : shape_(shape),
      messages_(messages),
      loop_(loop),
      subscribers_(subscribers),
      recorder_(recorder),
      ledger_(ledger),
      result_(result),
      schedule_(shape.rate, shape.arrival, shape.seed),
      timers_(loop),
      next_(timers_, *this),
      expiry_(timers_, *this),
      states_(messages.size(), State::Planned),
      intended_(messages.size()),
      sent_at_(messages.size()) {
  recorder_.set_planned(messages.size());
  subscribers_.set_publish_user(this);
}

ChatStage::~ChatStage() { subscribers_.set_publish_user(nullptr); }

void ChatStage::start() {
  started_at_ = ended_at_ = monotonic_now();
  for (TimePoint& intended : intended_) intended = started_at_ + schedule_.next();
  if (!intended_.empty()) next_.arm_at(intended_.front());
}

void ChatStage::on_heap_timer(HeapTimer& timer) {
  if (&timer == &next_) return take_up();
  expire();
}

void ChatStage::take_up() {
  const TimePoint now = monotonic_now();
  while (taken_up_ < states_.size() && intended_[taken_up_] <= now) {
    const std::size_t number = taken_up_++;
    recorder_.taken_up(now - intended_[number]);
    recorder_.issued(OperationClass::Message);
    states_[number] = State::Waiting;
    ledger_.sent(messages_.id(number), messages_.content(number), intended_[number]);
    if (subscribers_.at(messages_.publisher(number)).live()) send(number);
  }
  if (taken_up_ < states_.size()) next_.arm_at(intended_[taken_up_]);
  if (!expiry_.armed()) arm_expiry();
}

void ChatStage::send(std::size_t number) {
  states_[number] = State::Sent;
  sent_at_[number] = monotonic_now();
  subscribers_.at(messages_.publisher(number)).send(messages_.request(number));
}

void ChatStage::on_publisher_arrived(std::size_t publisher) {
  if (publisher >= messages_.publishers()) return;
  for (std::size_t number = oldest_; number < taken_up_; ++number) {
    if (messages_.publisher(number) == publisher && states_[number] == State::Waiting) send(number);
  }
}

void ChatStage::on_publisher_left(std::size_t publisher) {
  if (publisher >= messages_.publishers()) return;
  for (std::size_t number = oldest_; number < taken_up_; ++number) {
    if (messages_.publisher(number) == publisher && states_[number] == State::Sent) {
      end(number, Bucket::Reset, 0, Promise::Ambiguous, nullptr);
    }
  }
}

void ChatStage::on_publish_answer(std::size_t, const ServerSaid& said) {
  const std::uint32_t number = messages_.find(said.id);
  const bool waits = number != HashPlaces::kNone && states_[number] == State::Sent;
  if (said.kind == ServerSaid::Kind::Error) {
    result_.count_error(said.code);
    if (!waits) return;
    const int status = status_of(said.code);
    return end(number, status >= 500 ? Bucket::ServerError : Bucket::ClientError, status,
               status == 409 ? Promise::Conflict : Promise::Ambiguous, nullptr);
  }
  if (!waits) {
    // Behind its time-out: the message is stored all the same, as the feed and the streams will tell.
    if (number == HashPlaces::kNone) recorder_.mismatched_answer();
    return;
  }
  if (said.duplicate) ++result_.duplicate_acks;
  end(number, Bucket::Ok, said.duplicate ? kDuplicate : kCreated, Promise::Accepted, &said);
}

void ChatStage::end(std::size_t number, Bucket bucket, int status, Promise promise, const ServerSaid* ack) {
  DLB_CHECK(states_[number] != State::Ended);
  const bool sent = states_[number] == State::Sent;
  states_[number] = State::Ended;
  ++ended_;
  while (oldest_ < taken_up_ && states_[oldest_] == State::Ended) ++oldest_;
  ended_at_ = monotonic_now();
  OperationResult result;
  result.operation_class = OperationClass::Message;
  result.backend = kNoBackend;
  result.bucket = bucket;
  result.status = static_cast<std::uint16_t>(status);
  if (bucket == Bucket::Ok) {
    result.latency = result.header_latency = ended_at_ - sent_at_[number];
    result.intended_latency = ended_at_ - intended_[number];
  }
  recorder_.record(result);
  if (!sent) return;
  Acknowledged told;
  if (ack != nullptr) told = {ack->sequence, hash_bytes(ack->timestamp, 0), ended_at_};
  ledger_.add(messages_.id(number), messages_.content(number), promise, told);
}

void ChatStage::arm_expiry() {
  if (oldest_ < taken_up_) expiry_.arm_at(intended_[oldest_] + shape_.timeout);
}

void ChatStage::expire() {
  const TimePoint now = loop_.now();
  for (std::size_t number = oldest_; number < taken_up_ && intended_[number] + shape_.timeout <= now;
       ++number) {
    if (states_[number] == State::Sent) {
      end(number, Bucket::TimeOut, 0, Promise::Ambiguous, nullptr);
    } else if (states_[number] == State::Waiting) {
      end(number, Bucket::Connect, 0, Promise::Ambiguous, nullptr);
    }
  }
  arm_expiry();
}

void ChatStage::abandon() {
  next_.cancel();
  expiry_.cancel();
  for (std::size_t number = oldest_; number < taken_up_; ++number) {
    if (states_[number] != State::Ended) end(number, Bucket::Interrupted, 0, Promise::Ambiguous, nullptr);
  }
}

}  // namespace dlb::loadgen
