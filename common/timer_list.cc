#include "common/timer_list.h"

#include <algorithm>
#include <utility>

namespace dlb {

TimerList::~TimerList() {
  while (!empty()) sentinel_.next_->cancel();
  sentinel_.prev_ = sentinel_.next_ = nullptr;  // the sentinel's own destructor must find nothing to unlink
  loop_.remove_timer_source(*this);
}

bool TimerList::expire_oldest(Duration min_age) {
  if (empty()) return false;
  Timer& timer = *sentinel_.next_;
  if (min_age > Duration::zero() && loop_.now() - (timer.deadline_ - duration_) < min_age) return false;
  timer.cancel();
  timer.owner_->on_timer(timer);
  return true;
}

void TimerList::expire(TimePoint now) {
  while (!empty() && sentinel_.next_->deadline_ <= now) expire_oldest();
}

bool TimerClass::expire_oldest(Duration min_age) {
  for (const auto& list : older_) {
    if (list->expire_oldest(min_age)) return true;
  }
  return current_->expire_oldest(min_age);
}

void TimerClass::set_duration(Duration duration) {
  std::erase_if(older_, [](const auto& list) { return list->empty(); });
  if (duration == current_->duration()) return;
  auto old = std::exchange(current_, std::make_unique<TimerList>(loop_, duration));
  if (!old->empty()) older_.push_back(std::move(old));
}

bool TimerClass::empty() const {
  return current_->empty() && std::ranges::all_of(older_, [](const auto& list) { return list->empty(); });
}

}  // namespace dlb
