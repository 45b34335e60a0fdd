#include "loadgen/held.h"

#include <algorithm>

#include "common/check.h"

namespace dlb::loadgen {
namespace {

// As the users of a stage: a burst of connects would only measure listen queues.
constexpr Duration kStartDistance = std::chrono::microseconds(100);

}  // namespace

class HeldConnections::Held final : public ConnectionUser, public HeapTimerHandler {
 public:
  Held(HeldConnections& owner, std::uint64_t number)
      : owner_(owner),
        number_(number),
        timer_(owner.timers_, *this),
        connection_(owner.context_, *this, {}) {}

  void open_at(TimePoint when) { timer_.arm_at(when); }
  // True when it had not come to an end.
  bool abandon() {
    timer_.cancel();
    connection_.close();
    return std::exchange(state_, State::Ended) != State::Ended;
  }

  void on_heap_timer(HeapTimer&) override { state_ == State::New ? open() : ask(); }
  void on_connected(Connection&) override {
    ++owner_.totals_.opened;
    connection_.rest();
    state_ = State::Silent;
    opened_at_ = owner_.loop_.now();
    timer_.arm_at(opened_at_ + owner_.shape_.age);
  }
  void on_head(Connection&, const ResponseHead& head) override { status_ = head.status; }
  void on_body(Connection&, std::string_view) override {}
  void on_idle_close(Connection&) override {
    if (state_ != State::Silent) return;  // behind its answer: that was all
    timer_.cancel();
    owner_.totals_.closed_age_us.record(micros(owner_.loop_.now() - opened_at_));
    end(End::ClosedSilent);
  }
  void on_end(Connection& connection, ExchangeEnd how, int) override {
    if (state_ != State::Asking) return end(End::ConnectFailed);
    const Bucket bucket = bucket_of(OperationClass::Message, how, status_);
    Promise promise = Promise::Ambiguous;
    if (bucket == Bucket::Ok) promise = Promise::Accepted;
    if (bucket == Bucket::ClientError && status_ == 409) promise = Promise::Conflict;
    owner_.ledger_.add(id_, content_, promise);
    if (bucket == Bucket::Ok) {
      owner_.totals_.latency_us.record(micros(connection.last_byte_at() - connection.started_at()));
    } else {
      owner_.failed_as(bucket);
    }
    connection_.close();
    end(bucket == Bucket::Ok ? End::Answered : End::Failed);
  }

 private:
  enum class State : std::uint8_t { New, Opening, Silent, Asking, Ended };

  static std::uint64_t micros(Duration d) {
    return d.count() <= 0 ? 0 : static_cast<std::uint64_t>(d.count()) / 1000;
  }
  const Target& target() const { return owner_.targets_[number_ % owner_.targets_.size()]; }

  void open() {
    state_ = State::Opening;
    ConnectShape how;
    Address source;
    if (owner_.shape_.sources != nullptr && !owner_.shape_.sources->empty()) {
      source = owner_.shape_.sources->of(owner_.shape_.users + number_);
      how.source = &source;
    }
    if (connection_.connect(target(), how) != 0) end(End::ConnectFailed);
  }
  void ask() {
    state_ = State::Asking;
    const std::string_view request = owner_.request(number_, id_, content_);
    owner_.ledger_.sent(id_, content_, owner_.loop_.now());
    connection_.send(request, HttpMethod::Post);
  }
  void end(End how) {
    state_ = State::Ended;
    owner_.ended(how);
  }

  HeldConnections& owner_;
  std::uint64_t number_;
  State state_ = State::New;
  HeapTimer timer_;  // opens it, ends its silence
  TimePoint opened_at_{};
  int status_ = 0;
  MessageId id_;
  std::uint64_t content_ = 0;
  Connection connection_;
};

HeldConnections::HeldConnections(const HeldShape& shape, const std::vector<Target>& targets, EventLoop& loop,
                                 ConnectionContext& context, Ledger& ledger)
    : shape_(shape),
      targets_(targets),
      loop_(loop),
      context_(context),
      ledger_(ledger),
      payload_(shape.payload),
      timers_(loop) {
  for (const Target& target : targets_) writers_.emplace_back(target.host, target.base_path, true);
  totals_.wanted = shape_.connections;
}

HeldConnections::~HeldConnections() = default;

void HeldConnections::start() {
  DLB_CHECK(held_.empty());
  TimePoint when = monotonic_now();
  for (std::uint64_t i = 0; i < shape_.connections; ++i) {
    held_.emplace_back(*this, i).open_at(when);
    when += kStartDistance;
  }
}

void HeldConnections::abandon() {
  for (Held& held : held_) {
    if (held.abandon()) ++totals_.unfinished;
  }
  if (held_.empty()) totals_.unfinished = shape_.connections;  // its stage has not begun
  ended_ = shape_.connections;
}

std::string_view HeldConnections::request(std::uint64_t number, MessageId& id, std::uint64_t& content) {
  const Message message = payload_.message(number);
  id = message.id;
  content = content_hash(message.client_name, message.text);
  return writers_[number % targets_.size()].post_message(message);
}

void HeldConnections::ended(End end) {
  ++ended_;
  switch (end) {
    case End::ConnectFailed:
      ++totals_.connect_failed;
      return;
    case End::ClosedSilent:
      ++totals_.closed_silent;
      return;
    case End::Answered:
      ++totals_.answered;
      return;
    case End::Failed:
      ++totals_.failed;
      return;
  }
}

void HeldConnections::failed_as(Bucket bucket) {
  const std::string name(bucket_name(bucket));
  const auto known = std::ranges::find(totals_.failures, name, &std::pair<std::string, std::uint64_t>::first);
  if (known == totals_.failures.end()) {
    totals_.failures.emplace_back(name, 1);
  } else {
    ++known->second;
  }
}

}  // namespace dlb::loadgen
