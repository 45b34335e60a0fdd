#include "backend/presence_path.h"

#include <algorithm>
#include <utility>

#include "backend/generation.h"

namespace dlb::backend {
namespace {

constexpr std::int64_t kLeaseSeconds = 15;
constexpr Duration kRenewInterval = std::chrono::seconds(5);
constexpr Duration kWriteGap = std::chrono::milliseconds(20);  // joins what comes and goes in a crowd
constexpr Duration kPauseAfterFailure = std::chrono::milliseconds(500);
constexpr Duration kListTimeout = std::chrono::seconds(5);
constexpr std::size_t kMaxWaiting = 8192;

}  // namespace

PresencePath::PresencePath(EventLoop& loop, TimerHeap& timers, AnswerQueue& answers, ChatDriver& driver)
    : loop_(loop), answers_(answers), driver_(driver), instance_(new_generation()), timer_(timers, *this) {}

std::uint64_t PresencePath::set_present(std::vector<std::string> names) {
  names_ = std::move(names);
  ++wanted_;
  pump();
  return wanted_;
}

void PresencePath::users(std::uint64_t token) {
  if (driver_.chat_reads_away() || asked_.size() >= kMaxWaiting) {
    return answers_.push(token, UsersAnswer{});
  }
  if (asked_.empty()) asked_since_ = loop_.now();
  asked_.push_back(token);
  pump();
}

void PresencePath::pump() {
  const TimePoint now = loop_.now();
  const bool due = wanted_ != written_ || now >= renew_at_;
  if (due && !writing_ && now >= write_again_at_ && driver_.chat_writes_ready()) {
    writing_ = true;
    sent_ = wanted_;
    std::string list;
    for (const std::string& name : names_) {
      if (!list.empty()) list += '\n';
      list += name;
    }
    driver_.send_present(instance_, list, kLeaseSeconds);
  }
  if (wanted_ != written_ && driver_.chat_writes_away()) tell();
  if (!asked_.empty() && listed_.empty() && driver_.chat_reads_ready()) {
    listed_ = std::exchange(asked_, {});
    driver_.send_list_present(instance_);
  }
  if (!asked_.empty() && (driver_.chat_reads_away() || now >= asked_since_ + kListTimeout)) refuse(asked_);

  TimePoint next = writing_ ? kNever : wanted_ != written_ ? write_again_at_ : renew_at_;
  // What can't be sent yet is looked at again when the connection is up.
  if (next <= now) next = kNever;
  if (!asked_.empty()) next = std::min(next, asked_since_ + kListTimeout);
  if (next == kNever) {
    timer_.cancel();
  } else if (!timer_.armed() || timer_.deadline() != next) {
    timer_.arm_at(next);
  }
}

void PresencePath::on_written() {
  writing_ = false;
  written_ = sent_;
  write_again_at_ = loop_.now() + kWriteGap;
  renew_at_ = names_.empty() ? kNever : loop_.now() + kRenewInterval;
  tell();
  pump();
}

// Nobody is kept waiting for it.
void PresencePath::on_write_failed() {
  writing_ = false;
  write_again_at_ = loop_.now() + kPauseAfterFailure;
  tell();
  pump();
}

void PresencePath::tell() {
  const std::uint64_t through = driver_.chat_writes_away() ? wanted_ : sent_;
  if (through <= told_) return;
  told_ = through;
  answers_.push_present(told_);
}

void PresencePath::on_listed(std::span<const std::string_view> lists) {
  std::vector<std::string> names = names_;
  for (std::string_view list : lists) {
    while (!list.empty()) {
      const std::size_t end = list.find('\n');
      names.emplace_back(list.substr(0, end));
      list = end == std::string_view::npos ? std::string_view{} : list.substr(end + 1);
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  const UsersAnswer answer{true, std::make_shared<const std::vector<std::string>>(std::move(names))};
  for (const std::uint64_t token : listed_) answers_.push(token, answer);
  listed_.clear();
  pump();
}

void PresencePath::on_list_failed() {
  refuse(listed_);
  pump();
}

void PresencePath::refuse(std::vector<std::uint64_t>& tokens) {
  for (const std::uint64_t token : tokens) answers_.push(token, UsersAnswer{});
  tokens.clear();
}

void PresencePath::on_driver_change() { pump(); }

void PresencePath::on_heap_timer(HeapTimer&) { pump(); }

}  // namespace dlb::backend
