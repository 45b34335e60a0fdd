// Slab<T>: owns objects in chunks of stable addresses, named by generation handles. One thread only.
//
//   create ──▶ live ──retire──▶ retired (get() is null already) ──reap, end of turn──▶ free
//
// retire() may be called from inside a member function of the object itself: the destructor runs in reap(),
// which the owner calls at the end of the loop's turn. At `capacity` create() answers null: the caller
// refuses its client.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/check.h"
#include "common/handle.h"

namespace dlb {

template <class T>
class Slab {
 public:
  explicit Slab(std::size_t capacity) : capacity_(capacity) {}
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;
  ~Slab() {
    reap();
    for (std::uint32_t i = 0; i < places_; ++i) {
      if (place(i).live) object(i)->~T();
    }
  }

  // Constructs T(args..., Handle<T>) when T takes its own handle last, else T(args...). Null when full.
  template <class... Args>
  T* create(Args&&... args) {
    if (live_ + retired_.size() >= capacity_) return nullptr;
    std::uint32_t index = free_head_;
    if (index == kNone) {
      if (places_ % kChunk == 0) chunks_.push_back(std::make_unique<Place[]>(kChunk));
      index = places_++;
    } else {
      free_head_ = place(index).next_free;
    }
    Place& p = place(index);
    p.live = true;
    ++live_;
    const Handle<T> handle{index, p.generation};
    if constexpr (std::is_constructible_v<T, Args..., Handle<T>>) {
      return new (p.storage) T(std::forward<Args>(args)..., handle);
    } else {
      return new (p.storage) T(std::forward<Args>(args)...);
    }
  }

  T* get(Handle<T> handle) {
    if (handle.index >= places_) return nullptr;
    Place& p = place(handle.index);
    return p.live && p.generation == handle.generation ? object(handle.index) : nullptr;
  }

  // Makes every handle of this object stale at once. The object itself lives until reap().
  void retire(Handle<T> handle) {
    DLB_CHECK(get(handle) != nullptr);
    Place& p = place(handle.index);
    p.live = false;
    ++p.generation;
    if (p.generation == 0) p.generation = 1;
    --live_;
    retired_.push_back(handle.index);
  }

  // Destroys what was retired. Destructors may retire further objects: those are destroyed too.
  void reap() {
    while (!retired_.empty()) {
      const std::uint32_t index = retired_.back();
      retired_.pop_back();
      object(index)->~T();
      place(index).next_free = free_head_;
      free_head_ = index;
    }
  }

  std::size_t live() const { return live_; }
  std::size_t capacity() const { return capacity_; }
  // Fewer than are live: none is made until enough have gone.
  void set_capacity(std::size_t capacity) { capacity_ = capacity; }

  // Calls f(T&) for each live object; f may retire the object it is given, and create none.
  template <class F>
  void for_each(F&& f) {
    for (std::uint32_t i = 0; i < places_; ++i) {
      if (place(i).live) f(*object(i));
    }
  }

 private:
  static constexpr std::uint32_t kChunk = 64;
  static constexpr std::uint32_t kNone = UINT32_MAX;

  struct Place {
    alignas(T) unsigned char storage[sizeof(T)];
    std::uint32_t generation = 1;
    std::uint32_t next_free = kNone;
    bool live = false;
  };

  Place& place(std::uint32_t index) { return chunks_[index / kChunk][index % kChunk]; }
  T* object(std::uint32_t index) { return std::launder(reinterpret_cast<T*>(place(index).storage)); }

  std::vector<std::unique_ptr<Place[]>> chunks_;
  std::vector<std::uint32_t> retired_;
  std::size_t capacity_;
  std::size_t live_ = 0;
  std::uint32_t places_ = 0;
  std::uint32_t free_head_ = kNone;
};

}  // namespace dlb
