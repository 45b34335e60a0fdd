// UpstreamPool: one worker's idle backend connections, a list per backend and transport class. The most
// recently used one is taken first, so that the rest can grow old and leave by proxy-idle-timeout. Bounded
// per backend and in all: what comes back over a bound is closed. One thread.
#pragma once

#include <cstddef>
#include <vector>

#include "lb/upstream.h"

namespace dlb::lb {

class UpstreamPool {
 public:
  UpstreamPool(std::size_t backends, std::size_t max_idle, std::size_t max_idle_per_backend);

  // Other bounds, and at least as many backends. May close.
  void apply(std::size_t backends, std::size_t max_idle, std::size_t max_idle_per_backend);

  // An idle connection, no longer in the pool; null when there is none.
  Upstream* take(std::uint32_t backend, TransportClass transport_class);
  // Takes a Busy connection whose exchange is over; closes it when the pool is full. May close.
  void put(Upstream& upstream);
  // Forgets an idle connection (it is about to be closed).
  void remove(Upstream& upstream);
  void close_idle(std::uint32_t backend);
  void close_all();
  // Closes one idle connection, whosever it is, to free its descriptor. False: none idles. May close.
  bool close_one();

  std::size_t idle() const { return idle_; }

 private:
  struct List {
    Upstream* first = nullptr;
    std::size_t size = 0;
  };
  List& list_of(std::uint32_t backend, TransportClass transport_class) {
    return lists_[backend * 2 + (transport_class == TransportClass::Feed ? 1U : 0U)];
  }

  std::vector<List> lists_;
  std::size_t max_idle_;
  std::size_t max_idle_per_backend_;
  std::size_t idle_ = 0;
};

}  // namespace dlb::lb
