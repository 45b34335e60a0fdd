#include "loadgen/stage.h"

#include <algorithm>

#include "common/check.h"

namespace dlb::loadgen {
namespace {

// Users begin one after the other at this distance: a burst of all their connects would only measure listen
// queues.
constexpr Duration kStartDistance = std::chrono::microseconds(100);

}  // namespace

bool is_slow_reader(std::uint64_t user, double percent) {
  const auto up_to = [percent](std::uint64_t users) {
    return static_cast<std::uint64_t>(static_cast<double>(users) * percent / 100);
  };
  return up_to(user + 1) > up_to(user);
}

Stage::Stage(const StageShape& shape, const std::vector<Target>& targets, EventLoop& loop,
             ConnectionPool& pool, Recorder& recorder, Ledger& ledger)
    : shape_(shape),
      targets_(targets),
      loop_(loop),
      pool_(pool),
      recorder_(recorder),
      ledger_(ledger),
      counting_(recorder, shape.requests, shape.cool_down > Duration::zero()),
      payload_(shape.payload),
      pauses_(loop),
      end_(pauses_, *this),
      window_(pauses_, *this) {
  DLB_CHECK(shape_.requests > 0 || shape_.duration > Duration::zero());
  DLB_CHECK(!targets_.empty());
  for (const Target& target : targets_) {
    writers_.emplace_back(target.host, target.base_path,
                          shape_.connection_mode != ConnectionMode::NoKeepAlive);
  }
  if (shape_.open.rate > 0) {
    open_loop_ = std::make_unique<OpenLoop>(shape_.open, shape_.payload.seed,
                                            has_cool_down() ? 0 : shape_.requests, loop_, counting_);
  }
  for (std::uint64_t i = 0; i < shape_.payload.users; ++i) users_.emplace_back(*this, i);
  if (shape_.requests > 0) recorder_.set_planned(shape_.requests);
}

Stage::~Stage() {
  if (!done()) abandon();
}

void Stage::start() {
  if (shape_.connection_mode == ConnectionMode::FreshStage) pool_.close_idle();
  started_at_ = ended_at_ = monotonic_now();
  const TimePoint end = shape_.duration > Duration::zero() ? started_at_ + shape_.duration : kNever;
  const TimePoint window =
      shape_.issue_window > Duration::zero() ? started_at_ + shape_.issue_window : kNever;
  if (end != kNever) end_.arm_at(end);
  if (window != kNever) window_.arm_at(window);
  counting_.set_end(std::min(end, window));
  if (open_loop_ != nullptr) {
    for (VirtualUser& user : users_) open_loop_->user_free(user);
    open_loop_->start(started_at_, has_cool_down() ? kNever : end);
    return;
  }
  const auto users = static_cast<Duration::rep>(users_.size());
  const Duration distance = std::max(kStartDistance, shape_.ramp_up / users);
  TimePoint when = started_at_;
  for (VirtualUser& user : users_) {
    user.start_at(when);
    when += distance;
  }
}

void Stage::on_heap_timer(HeapTimer& timer) {
  if (counting_.stopped()) {  // the cool-down is over
    stop_issuing();
    return;
  }
  const TimePoint when = started_at_ + (&timer == &window_ ? shape_.issue_window : shape_.duration);
  if (open_loop_ != nullptr) open_loop_->take_up_before(when);
  if (&timer == &window_) {
    hit_window_ = issuing_ && (shape_.requests == 0 || recorder_.issued_count() < shape_.requests);
  }
  if (!has_cool_down()) {
    stop_issuing();
  } else if (!counting_.stopped()) {
    begin_cool_down();
  }
}

void Stage::operation_begun() {
  if (has_cool_down() && issuing_ && !counting_.stopped() && counting_.plan_issued()) {
    begin_cool_down();
  }
}

void Stage::begin_cool_down() {
  counting_.stop();
  window_.cancel();
  end_.arm_at(loop_.now() + shape_.cool_down);
}

void Stage::stop_issuing() {
  if (!issuing_) return;
  issuing_ = false;
  end_.cancel();
  window_.cancel();
  if (open_loop_ != nullptr) open_loop_->stop();
  for (VirtualUser& user : users_) user.stop_issuing();
}

void Stage::abandon() {
  stop_issuing();
  for (VirtualUser& user : users_) user.abandon();
  DLB_CHECK(done());
}

bool Stage::next_index(std::uint64_t user, std::uint64_t performed, std::uint64_t& index) const {
  if (!issuing_) return false;
  index = user + performed * shape_.payload.users;
  return has_cool_down() || shape_.requests == 0 || index < shape_.requests;
}

bool Stage::more_for(std::uint64_t user, std::uint64_t performed) const {
  if (open_loop_ != nullptr) return issuing_ && !open_loop_->exhausted();
  std::uint64_t unused = 0;
  return next_index(user, performed, unused);
}

Duration Stage::pause(Rng& rng) const {
  if (shape_.interval_max <= Duration::zero()) return Duration::zero();
  return Duration(
      static_cast<Duration::rep>(rng.between(static_cast<std::uint64_t>(shape_.interval_min.count()),
                                             static_cast<std::uint64_t>(shape_.interval_max.count()))));
}

std::string_view Stage::request(std::size_t target, std::uint64_t index, OperationClass operation_class,
                                Recorder& recorder, MessageId& id, std::uint64_t& content) {
  RequestWriter& writer = writers_[target];
  if (operation_class == OperationClass::Feed) return writer.get_feed();
  if (payload_.origin(index) != index) recorder.issued_repeat();
  const Message message = payload_.message(index);
  id = message.id;
  content = content_hash(message.client_name, message.text);
  return writer.post_message(message);
}

}  // namespace dlb::loadgen
