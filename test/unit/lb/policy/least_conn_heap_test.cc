#include "lb/policy/least_conn_heap.h"

#include <optional>
#include <vector>

#include "common/rng.h"
#include "lb/policy/policy.h"
#include "test/support/catch.h"

namespace dlb::lb {
namespace {

// The heap's best by looking at every key.
std::uint32_t scan_best(const std::vector<std::optional<LeastConnHeap::Key>>& keys) {
  std::optional<std::uint32_t> best;
  for (std::uint32_t i = 0; i < keys.size(); ++i) {
    if (!keys[i]) continue;
    if (!best) {
      best = i;
      continue;
    }
    BackendView a, b;
    a.in_flight = keys[i]->in_flight, a.weight = keys[i]->weight, a.last_pick = keys[i]->last_pick;
    b.in_flight = keys[*best]->in_flight, b.weight = keys[*best]->weight,
    b.last_pick = keys[*best]->last_pick;
    if (less_loaded(a, b)) best = i;
  }
  return best.value();
}

TEST_CASE("the heap's best equals a scan's under random operations") {
  const std::uint64_t seed = 7;
  CAPTURE(seed);
  Rng rng(seed);
  for (const std::size_t n : {1U, 2U, 3U, 64U, 500U}) {
    LeastConnHeap heap(n);
    std::vector<std::optional<LeastConnHeap::Key>> mirror(n);
    std::uint64_t tick = 0;
    std::size_t held = 0;
    for (int i = 0; i < 20'000; ++i) {
      const auto index = static_cast<std::uint32_t>(rng.below(n));
      if (rng.below(4) == 0) {
        heap.remove(index);
        held -= mirror[index] ? 1 : 0;
        mirror[index].reset();
      } else {
        // Unique last picks make the best unique.
        const LeastConnHeap::Key key{static_cast<std::uint32_t>(rng.below(20)),
                                     static_cast<std::uint32_t>(1 + rng.below(5)), ++tick};
        heap.put(index, key);
        held += mirror[index] ? 0 : 1;
        mirror[index] = key;
      }
      REQUIRE(heap.size() == held);
      REQUIRE(heap.contains(index) == mirror[index].has_value());
      if (held > 0) REQUIRE(heap.best() == scan_best(mirror));
    }
  }
}

TEST_CASE("removing what isn't in the heap changes nothing") {
  LeastConnHeap heap(3);
  heap.remove(1);
  CHECK(heap.empty());
  heap.put(2, {1, 1, 1});
  heap.remove(0);
  CHECK(heap.best() == 2);
  heap.remove(2);
  CHECK(heap.empty());
  CHECK_FALSE(heap.contains(2));
}

}  // namespace
}  // namespace dlb::lb
