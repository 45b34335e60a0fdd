// Configuration: what is in force: options, backends, layer-4 pools, as one value that never changes and is
// freed when the last thread has left it. A reload makes the next one; ConfigurationStore says which it is.
//
// Who caches what of it, and moves on when it changes:
//
//   Worker::apply      its Configuration; timer classes, blocks and head limits, slab capacities, pool
//   bounds,
//                      the router's rules, views and heap, trust in the clients that are connected
//   Control::apply     its Configuration; schedules, streaks' limits and probes by backend, memory guards of
//                      backends and of the balancer, TCP checks
//   Reloader           certificates, log level, client caps from the descriptor limit
//   StatusPages, Lifecycle   nothing: they ask the store each time
//
// What runs meanwhile ends as it began: an exchange keeps the backend that it holds a slot of, a tunnel its
// pool, a connection its certificate, an armed timer its deadline.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "lb/backend_set.h"
#include "lb/options.h"
#include "lb/tunnel_pool.h"

namespace dlb::lb {

struct Configuration {
  std::shared_ptr<const Options> options;
  BackendSet backends;
  TunnelPools pools{};           // one for each layer-4 listener, by Listener::pool
  std::uint64_t generation = 1;  // 1: as started; one more with each reload
  std::uint64_t serial = 1;      // one more with each Configuration: a reload may take two
  std::int64_t loaded_at_us = 0;
};

// Thread-safe.
class ConfigurationStore {
 public:
  explicit ConfigurationStore(std::shared_ptr<const Configuration> first) : current_(std::move(first)) {}

  std::shared_ptr<const Configuration> current() const {
    const std::lock_guard lock(mutex_);
    return current_;
  }
  void set(std::shared_ptr<const Configuration> next) {
    const std::lock_guard lock(mutex_);
    current_.swap(next);
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const Configuration> current_;
};

}  // namespace dlb::lb
