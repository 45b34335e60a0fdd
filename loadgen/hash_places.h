// HashPlaces: positions in somebody's vector by a 64-bit hash, in open addressing, 16 bytes a place. The
// owner tells whether a position is the one that is looked for. Nothing is ever taken out. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace dlb::loadgen {

class HashPlaces {
 public:
  static constexpr std::uint32_t kNone = UINT32_MAX;

  // `matches(position)` is asked about each position with this hash. kNone when there is none.
  template <class Matches>
  std::uint32_t find(std::uint64_t hash, const Matches& matches) const {
    if (places_.empty()) return kNone;
    const std::size_t mask = places_.size() - 1;
    for (std::size_t at = hash & mask; places_[at].position != kNone; at = (at + 1) & mask) {
      if (places_[at].hash == hash && matches(places_[at].position)) return places_[at].position;
    }
    return kNone;
  }

  // Requires position < kNone.
  void insert(std::uint64_t hash, std::uint32_t position) {
    if (places_.size() < (count_ + 1) * 2) grow();
    put({hash, position});
    ++count_;
  }

 private:
  struct Place {
    std::uint64_t hash = 0;
    std::uint32_t position = kNone;
  };

  void put(const Place& place) {
    const std::size_t mask = places_.size() - 1;
    std::size_t at = place.hash & mask;
    while (places_[at].position != kNone) at = (at + 1) & mask;
    places_[at] = place;
  }

  void grow() {
    const auto old = std::exchange(places_, std::vector<Place>(places_.empty() ? 1024 : places_.size() * 2));
    for (const Place& place : old) {
      if (place.position != kNone) put(place);
    }
  }

  std::vector<Place> places_;  // a power of two of them
  std::size_t count_ = 0;
};

}  // namespace dlb::loadgen
