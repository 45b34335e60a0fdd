#include "loadgen/virtual_user.h"

#include <array>
#include <charconv>

#include "common/check.h"
#include "loadgen/hash.h"
#include "loadgen/stage.h"

namespace dlb::loadgen {
namespace {

// A user whose connect failed tries its next operation no sooner than this: a dead server would else use up
// the plan within a second.
constexpr Duration kPauseAfterConnectFailure = std::chrono::milliseconds(100);

std::string_view answering_backend(const HeaderFields& fields) {
  const std::string_view by_balancer = fields.value(HeaderId::LoadBalancerBackend);
  if (!by_balancer.empty()) return by_balancer;
  const HeaderField* by_backend = fields.find("X-Backend");
  return by_backend == nullptr ? std::string_view() : by_backend->value;
}

// What follows `key`; empty when it isn't there.
std::string_view behind(std::string_view text, std::string_view key) {
  const std::size_t at = text.find(key);
  return at == std::string_view::npos ? std::string_view() : text.substr(at + key.size());
}

}  // namespace

VirtualUser::VirtualUser(Stage& stage, std::uint64_t number)
    : stage_(stage),
      number_(number),
      slow_reader_(is_slow_reader(number, stage.shape().slow_reader_percent)),
      rng_(mix64(stage.shape().payload.seed ^ mix64(number + 1))),
      pause_(stage.pauses(), *this) {}

void VirtualUser::stop_issuing() {
  if (state_ == State::Waiting) finish();
}

void VirtualUser::abandon() {
  if (state_ == State::Done) return;
  OperationResult result;
  result.operation_class = class_;
  result.bucket = Bucket::Interrupted;
  result.backend = backend_;
  result.body_bytes = body_bytes_;
  Connection* connection = stage_.pool().get(connection_);
  DLB_CHECK(connection != nullptr);
  leave(*connection);
  end_operation(result);
}

void VirtualUser::on_heap_timer(HeapTimer&) { next_operation(); }

void VirtualUser::next_operation() {
  if (stage_.open_loop() != nullptr) {
    stage_.open_loop()->user_free(*this);
    return;
  }
  if (!stage_.next_index(number_, performed_, index_)) {
    finish();
    return;
  }
  begin();
}

void VirtualUser::perform(std::uint64_t index, TimePoint intended) {
  DLB_CHECK(state_ == State::Waiting);
  index_ = index;
  intended_ = intended;
  begin();
}

void VirtualUser::begin() {
  class_ = stage_.payload().operation_class(index_);
  status_ = 0;
  backend_ = kNoBackend;
  body_bytes_ = 0;
  told_ = {};
  recorder_ = &stage_.counting().of(index_, intended_);
  recorder_->issued(class_);
  stage_.operation_begun();

  Connection* connection = stage_.pool().get(connection_);  // of its own, if it keeps one
  if (connection == nullptr && !slow_reader_ &&
      stage_.shape().connection_mode != ConnectionMode::NoKeepAlive) {
    connection = stage_.pool().take_idle(stage_.target_of(number_), *this);
  }
  if (connection != nullptr) {
    connection_ = connection->handle();
    send(*connection);
  } else {
    connect();
  }
}

void VirtualUser::connect() {
  state_ = State::Connecting;
  Connection& connection = stage_.pool().open(*this);
  connection_ = connection.handle();
  connect_began_ = monotonic_now();
  ConnectShape how;
  Address source;
  if (stage_.shape().sources != nullptr && !stage_.shape().sources->empty()) {
    source = stage_.shape().sources->of(number_);
    how.source = &source;
  }
  if (slow_reader_) how.bytes_per_pace = stage_.shape().slow_bytes_per_pace;
  const int err = connection.connect(stage_.target(stage_.target_of(number_)), how);
  if (err != 0) on_end(connection, ExchangeEnd::ConnectFailed, err);
}

void VirtualUser::on_connected(Connection& connection) {
  recorder_->record_connect(monotonic_now() - connect_began_);
  send(connection);
}

void VirtualUser::send(Connection& connection) {
  state_ = State::Exchanging;
  const std::string_view request =
      stage_.request(stage_.target_of(number_), index_, class_, *recorder_, id_, content_);
  if (class_ == OperationClass::Message) stage_.ledger().sent(id_, content_, monotonic_now());
  connection.send(request, class_ == OperationClass::Message ? HttpMethod::Post : HttpMethod::Get);
}

void VirtualUser::on_head(Connection&, const ResponseHead& head) {
  status_ = head.status;
  const std::string_view name = answering_backend(head.fields);
  if (!name.empty()) backend_ = recorder_->backend_index(name);
}

void VirtualUser::on_body(Connection&, std::string_view bytes) {
  if (body_bytes_ == 0 && class_ == OperationClass::Message) check_answer(bytes);
  body_bytes_ += bytes.size();
}

// An answer that names another message's id means that responses were mixed up on the way. What it tells of
// the row must be what the feed shows. Only the first piece of a body is looked at: an answer is small.
void VirtualUser::check_answer(std::string_view body) {
  const std::string_view id = behind(body, "\"message-id\":\"").substr(0, kMessageIdChars);
  if (id.size() < kMessageIdChars) return;
  std::array<char, kMessageIdChars> expected{};
  write_message_id(id_, expected.data());
  if (id != std::string_view(expected.data(), expected.size())) recorder_->mismatched_answer();

  const std::string_view number = behind(body, "\"sequence\":");
  const auto [end, problem] = std::from_chars(number.data(), number.data() + number.size(), told_.sequence);
  // Cut off behind its digits, it may be a part of the number.
  if (problem != std::errc() || end == number.data() + number.size()) told_.sequence = 0;
  const std::string_view timestamp = behind(body, "\"timestamp\":\"");
  const std::size_t quote = timestamp.find('"');
  if (quote != std::string_view::npos) told_.stamp = hash_bytes(timestamp.substr(0, quote), 0);
}

void VirtualUser::on_end(Connection& connection, ExchangeEnd end, int err) {
  OperationResult result;
  result.operation_class = class_;
  result.bucket = bucket_of(class_, end, status_);
  result.status = status_;
  result.err = err;
  result.idle_close_race =
      end == ExchangeEnd::Reset && connection.reused() && !connection.any_byte_received();
  result.slow_reader = slow_reader_;
  result.backend = backend_;
  result.body_bytes = body_bytes_;
  if (connection.head_received() && status_ != 0) {
    result.head = true;
    result.header_latency = connection.head_at() - connection.started_at();
  }
  if (end == ExchangeEnd::Complete) {
    result.latency = connection.last_byte_at() - connection.started_at();
    if (stage_.open_loop() != nullptr) result.intended_latency = connection.last_byte_at() - intended_;
  }
  leave(connection);
  end_operation(result);
}

void VirtualUser::on_idle_close(Connection& connection) {
  stage_.pool().discard(connection);
  connection_ = {};
}

// What happens to the connection after an operation.
void VirtualUser::leave(Connection& connection) {
  const std::uint64_t most = stage_.shape().requests_per_connection;
  const bool worn_out = most > 0 && connection.exchanges() >= most;
  if (!connection.idle() || worn_out || stage_.shape().connection_mode == ConnectionMode::NoKeepAlive) {
    stage_.pool().discard(connection);
    connection_ = {};
  } else if (!keeps_its_own()) {
    stage_.pool().put_idle(stage_.target_of(number_), connection);
    connection_ = {};
  }
}

bool VirtualUser::keeps_its_own() const {
  return slow_reader_ || stage_.shape().connection_mode == ConnectionMode::FreshUser;
}

void VirtualUser::end_operation(const OperationResult& result) {
  const bool sent = state_ == State::Exchanging;
  state_ = State::Waiting;
  ++performed_;
  recorder_->record(result);
  stage_.operation_ended(*recorder_, stage_.now());
  if (sent && class_ == OperationClass::Message) note_in_ledger(result);

  if (!stage_.more_for(number_, performed_)) {
    finish();
    return;
  }
  Duration pause = stage_.pause(rng_);
  if (result.bucket == Bucket::Connect && pause < kPauseAfterConnectFailure)
    pause = kPauseAfterConnectFailure;
  if (pause > Duration::zero()) {
    pause_.arm_at(stage_.now() + pause);
  } else {
    next_operation();
  }
}

void VirtualUser::note_in_ledger(const OperationResult& result) {
  Promise promise = Promise::Ambiguous;
  if (result.bucket == Bucket::Ok) promise = Promise::Accepted;
  if (result.bucket == Bucket::ClientError && result.status == 409) promise = Promise::Conflict;
  told_.at = monotonic_now();
  stage_.ledger().add(id_, content_, promise, told_);
}

void VirtualUser::finish() {
  DLB_CHECK(state_ != State::Done);
  state_ = State::Done;
  pause_.cancel();
  if (Connection* own = stage_.pool().get(connection_); own != nullptr) stage_.pool().discard(*own);
  connection_ = {};
  stage_.user_done();
}

}  // namespace dlb::loadgen
