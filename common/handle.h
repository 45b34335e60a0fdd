// Handle<T>: index and generation of an object in a Slab<T>. A handle of a closed object never resolves again
// (until 2^32 reuses of one place), so it may sit in timers, queues, mailboxes and database callbacks.
#pragma once

#include <cstdint>

namespace dlb {

template <class T>
struct Handle {
  std::uint32_t index = 0;
  std::uint32_t generation = 0;  // 0 is never live: a default handle resolves to null

  explicit operator bool() const { return generation != 0; }
  bool operator==(const Handle&) const = default;

  std::uint64_t pack() const { return (static_cast<std::uint64_t>(generation) << 32) | index; }
  static Handle unpack(std::uint64_t bits) {
    return Handle{static_cast<std::uint32_t>(bits), static_cast<std::uint32_t>(bits >> 32)};
  }
};

}  // namespace dlb
