#include "common/timer_list.h"

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

}  // namespace dlb
