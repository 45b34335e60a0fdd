#include "common/timer_heap.h"

#include "common/check.h"

namespace dlb {

void HeapTimer::arm_at(TimePoint deadline) {
  cancel();
  deadline_ = deadline;
  heap_.insert(*this);
}

void HeapTimer::cancel() {
  if (armed()) heap_.remove(*this);
}

TimerHeap::~TimerHeap() {
  while (!heap_.empty()) remove(*heap_.back());
  loop_.remove_timer_source(*this);
}

void TimerHeap::expire(TimePoint now) {
  while (!heap_.empty() && heap_.front()->deadline_ <= now) {
    HeapTimer& timer = *heap_.front();
    remove(timer);
    timer.owner_.on_heap_timer(timer);
  }
}

void TimerHeap::put(std::size_t place, HeapTimer* timer) {
  heap_[place] = timer;
  timer->place_ = place;
}

void TimerHeap::insert(HeapTimer& timer) {
  heap_.push_back(&timer);
  timer.place_ = heap_.size() - 1;
  sift_up(timer.place_);
}

void TimerHeap::remove(HeapTimer& timer) {
  const std::size_t place = timer.place_;
  DLB_CHECK(place < heap_.size() && heap_[place] == &timer);
  HeapTimer* last = heap_.back();
  heap_.pop_back();
  timer.place_ = HeapTimer::kNowhere;
  if (last == &timer) return;
  put(place, last);
  sift_up(place);
  sift_down(last->place_);
}

void TimerHeap::sift_up(std::size_t place) {
  HeapTimer* timer = heap_[place];
  while (place > 0) {
    const std::size_t parent = (place - 1) / 2;
    if (heap_[parent]->deadline_ <= timer->deadline_) break;
    put(place, heap_[parent]);
    place = parent;
  }
  put(place, timer);
}

void TimerHeap::sift_down(std::size_t place) {
  HeapTimer* timer = heap_[place];
  for (;;) {
    std::size_t child = 2 * place + 1;
    if (child >= heap_.size()) break;
    if (child + 1 < heap_.size() && heap_[child + 1]->deadline_ < heap_[child]->deadline_) ++child;
    if (timer->deadline_ <= heap_[child]->deadline_) break;
    put(place, heap_[child]);
    place = child;
  }
  put(place, timer);
}

}  // namespace dlb
