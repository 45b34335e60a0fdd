// Outcome: what a simulation has found, as numbers; outcome.cc sums it up. Reports are report.cc's and
// page.cc's.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "common/clock.h"

namespace dlb::bench {

enum class Failure : std::uint8_t {
  None,
  Status5xx,
  Broken,
  Refused,
  TimedOut,
  NoBackend,
  QueueFull,
  QueueTimeout
};
inline constexpr std::size_t kFailureKinds = 8;
std::string_view failure_name(Failure failure);

// Of the requests that came in one of kBuckets equal parts of the run.
struct OutcomeBucket {
  std::uint32_t requests = 0, failed = 0;
  std::uint32_t p50_us = 0, p99_us = 0;
  std::vector<std::uint32_t> picks;       // by server, in this part
  std::vector<std::uint32_t> latency_us;  // until summed up
};

struct ServerOutcome {
  std::string id;
  std::uint64_t requests = 0;  // given to it, second attempts included
  std::uint64_t failed = 0;
  std::uint64_t ejections = 0;
};

// What the autoscaler did, and what it could see at each of its turns.
struct ScaleEvent {
  Duration at{};
  std::string_view action{};
  std::string server{};
  std::string reason{};
  std::uint32_t processes = 0;  // with this one
  Duration idle_for{};          // with a drain: since its last request ended; 0: it has one
};
struct ScaleTurn {
  Duration at{};
  std::uint32_t processes = 0;
  std::uint32_t serving = 0;  // healthy and not draining
  bool pressed = false;       // all of those at capacity, or a request waits
};

struct Outcome {
  static constexpr std::size_t kBuckets = 120;

  std::string scenario, about, policy;
  Duration duration{};
  std::uint64_t requests = 0;  // that are judged
  std::uint64_t succeeded = 0;
  std::array<std::uint64_t, kFailureKinds> failures{};
  std::uint64_t retries = 0, queued = 0, fallbacks = 0, panics = 0, ejections = 0;
  double mean_us = 0, p50_us = 0, p99_us = 0, p999_us = 0, max_us = 0;  // of the good answers
  std::vector<ServerOutcome> servers;
  std::vector<OutcomeBucket> buckets;
  std::vector<std::uint32_t> latency_us;  // of the good answers, until summed up
  std::vector<ScaleEvent> scaling;
  std::vector<ScaleTurn> scale_turns;

  double success_percent() const;
  // Figures from the latencies, which are given up.
  void sum_up();
};

}  // namespace dlb::bench
