// LeastConnHeap: the backends by outstanding requests per unit of weight, then by age of the last pick, in an
// indexed binary min-heap: the best in O(1), a change of one key in O(log n). It holds whichever backends its
// owner puts in: those that may not be picked are taken out and put back by event.
//
// Its keys are what the owner last saw. With one worker that is exact; with several and many backends a count
// that others have moved meanwhile is put right when it comes to the top, which spares a scan of every count.
// One thread; allocates only when made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dlb::lb {

class LeastConnHeap {
 public:
  struct Key {
    std::uint32_t in_flight = 0;
    std::uint32_t weight = 1;     // above 0
    std::uint64_t last_pick = 0;  // smaller is longer ago
  };

  // For backend indexes 0 to backends - 1; starts empty.
  explicit LeastConnHeap(std::size_t backends) : keys_(backends), places_(backends, kNowhere) {
    heap_.reserve(backends);
  }

  bool empty() const { return heap_.empty(); }
  std::size_t size() const { return heap_.size(); }
  bool contains(std::uint32_t index) const { return places_[index] != kNowhere; }
  const Key& key(std::uint32_t index) const { return keys_[index]; }

  // The least loaded; requires !empty().
  std::uint32_t best() const { return heap_.front(); }

  // Puts `index` in, or moves it when it is in already.
  void put(std::uint32_t index, const Key& key);
  // Takes it out; nothing when it isn't in.
  void remove(std::uint32_t index);

 private:
  static constexpr std::uint32_t kNowhere = 0xffffffff;

  bool before(std::uint32_t a, std::uint32_t b) const {
    const Key& x = keys_[a];
    const Key& y = keys_[b];
    const std::uint64_t left = static_cast<std::uint64_t>(x.in_flight) * y.weight;
    const std::uint64_t right = static_cast<std::uint64_t>(y.in_flight) * x.weight;
    if (left != right) return left < right;
    return x.last_pick != y.last_pick ? x.last_pick < y.last_pick
                                      : a < b;  // as a scan in order would have it
  }
  void set(std::size_t place, std::uint32_t index) {
    heap_[place] = index;
    places_[index] = static_cast<std::uint32_t>(place);
  }
  void sift_up(std::size_t place);
  void sift_down(std::size_t place);

  std::vector<Key> keys_;              // by backend
  std::vector<std::uint32_t> places_;  // by backend: where in heap_
  std::vector<std::uint32_t> heap_;    // backend indexes
};

}  // namespace dlb::lb
