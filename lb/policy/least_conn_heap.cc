#include "lb/policy/least_conn_heap.h"

namespace dlb::lb {

void LeastConnHeap::put(std::uint32_t index, const Key& key) {
  keys_[index] = key;
  if (!contains(index)) {
    heap_.push_back(index);
    places_[index] = static_cast<std::uint32_t>(heap_.size() - 1);
  }
  sift_up(places_[index]);
  sift_down(places_[index]);
}

void LeastConnHeap::remove(std::uint32_t index) {
  if (!contains(index)) return;
  const std::size_t place = places_[index];
  const std::uint32_t last = heap_.back();
  heap_.pop_back();
  places_[index] = kNowhere;
  if (last == index) return;
  set(place, last);
  sift_up(place);
  sift_down(places_[last]);
}

void LeastConnHeap::sift_up(std::size_t place) {
  const std::uint32_t index = heap_[place];
  while (place > 0) {
    const std::size_t parent = (place - 1) / 2;
    if (!before(index, heap_[parent])) break;
    set(place, heap_[parent]);
    place = parent;
  }
  set(place, index);
}

void LeastConnHeap::sift_down(std::size_t place) {
  const std::uint32_t index = heap_[place];
  for (;;) {
    std::size_t child = 2 * place + 1;
    if (child >= heap_.size()) break;
    if (child + 1 < heap_.size() && before(heap_[child + 1], heap_[child])) ++child;
    if (!before(heap_[child], index)) break;
    set(place, heap_[child]);
    place = child;
  }
  set(place, index);
}

}  // namespace dlb::lb
