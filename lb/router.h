// Router: one worker's way to a backend. Builds the policy's view from the BackendSet's atomics, lets the
// policy choose, and reserves what the choice needs (a slot, and a connection of its transport) by
// compare-and-swap; when another worker was faster it chooses again. Decisions only: no fd, no queue
// (waiting_line.h), no logging. One thread each.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "common/clock.h"
#include "common/rng.h"
#include "lb/backend_set.h"

namespace dlb::lb {

struct Options;

enum class PickStatus : std::uint8_t {
  Picked,     // reserved: the caller must release() exactly once
  Full,       // usable backends exist, but every one lacks a free slot or connection: wait in the queue
  NoHealthy,  // none is healthy: 503
  NoMemory,   // healthy ones exist, none passes the memory guards: 503
};

struct Choice {
  PickStatus status = PickStatus::NoHealthy;
  std::uint32_t backend = 0;  // index, with Picked
  bool fallback = false;      // none was under the threshold: X-Load-Balancer-Fallback: threshold
  bool panic = false;         // health was ignored (L11)
  float score = 0;            // for X-Load-Balancer-Score
};

class Router {
 public:
  // Both references must outlive it, or the next apply().
  Router(const Options& options, const BackendSet& backends, std::uint64_t seed);
  ~Router();
  Router(const Router&) = delete;
  Router& operator=(const Router&) = delete;

  // From now on, by these options over these backends. What has been reserved stays so.
  void apply(const Options& options, const BackendSet& backends);

  // Reserves a slot and a busy connection of `transport`. `excluded` lists backend indexes that this exchange
  // has tried; they are taken only when nothing else is left.
  Choice pick(TransportClass transport, TimePoint now, std::span<const std::uint32_t> excluded = {});

  // Takes a slot that another exchange hands over still reserved (waiting_line.h): true when backend `index`
  // may serve a `transport` exchange now; the connection has then been reserved too. False: release_slot() it
  // and pick again.
  bool adopt_slot(std::uint32_t index, TransportClass transport, TimePoint now, Choice& out);

  // The two halves of a reservation, each released exactly once. A feed releases its slot when its response
  // head is in and its connection when its body is done; a message releases both at its end.
  void release_slot(std::uint32_t index);
  void release_connection(std::uint32_t index, TransportClass transport);

  // An exchange with the backend has failed: a 5xx, a reset, a time-out, a connect. For policies that go by
  // latency.
  void record_failure(std::uint32_t index, TimePoint now);

  // For the latency average; feeds are left out of it.
  void record_latency(std::uint32_t index, Duration to_response_head, TimePoint now);

  // Picks made, by kind, for metrics. Any thread may ask.
  struct Counters {
    std::uint64_t picks = 0, fallbacks = 0, panics = 0, full = 0, no_healthy = 0, no_memory = 0;
  };
  Counters counters() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlb::lb
