// RecentIds: whether an id may have been stored here lately: a repeat of a message mostly comes soon, and to
// the same backend. A direct-mapped table of hashes: the newest of those that share a place is known, and two
// ids may pass for one. For hints only. Pure; one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

namespace dlb::backend {

class RecentIds {
 public:
  void add(std::string_view id) {
    const std::uint64_t hash = hash_of(id);
    (*hashes_)[hash % kPlaces] = hash;
  }
  bool has(std::string_view id) const {
    const std::uint64_t hash = hash_of(id);
    return (*hashes_)[hash % kPlaces] == hash;
  }

 private:
  static constexpr std::size_t kPlaces = 8192;

  static std::uint64_t hash_of(std::string_view id) { return std::hash<std::string_view>{}(id) | 1U; }

  std::unique_ptr<std::array<std::uint64_t, kPlaces>> hashes_ =
      std::make_unique<std::array<std::uint64_t, kPlaces>>();
};

}  // namespace dlb::backend
