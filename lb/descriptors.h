// How many file descriptors the process has and who may use them (L27). Clients may never take the last ones:
// what we need for ourselves, for checks and for the backend connections of the clients that are served is
// set aside first. plan_descriptors() is pure; the other one is for start-up.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/log.h"

namespace dlb::lb {

struct Options;

// What the limits ask for, in descriptors.
struct DescriptorNeeds {
  std::uint64_t own = 0;        // loops, listeners, files
  std::uint64_t probes = 0;     // a check and a poll for each backend
  std::uint64_t upstreams = 0;  // busy backend connections at most, and the idle ones kept
  std::uint64_t pipes = 0;      // welcome, not needed: bodies are copied without
  std::uint64_t clients = 0;    // client-max-connections; 0: as many as there are
  std::uint64_t burst = 0;      // client-connection-burst

  bool operator==(const DescriptorNeeds&) const = default;
};

struct DescriptorPlan {
  std::uint32_t client_cap = 0;    // connections that may be open at a time; never 0
  std::uint32_t client_burst = 0;  // and so many more
  std::uint64_t wanted = 0;        // the limit that would leave every cap as it is
  bool lowered = false;            // client_cap or client_burst is below what the options ask for
};

// Requires workers >= 1. `backends` is how many there are.
DescriptorNeeds descriptor_needs(const Options& options, std::size_t backends);
// Each client is served by at most one backend connection, so half of what is left is always safe.
DescriptorPlan plan_descriptors(std::uint64_t limit, const DescriptorNeeds& needs);

// Raises the soft limit as far as the system allows and plans with it; warns when caps had to be lowered.
DescriptorPlan raise_descriptor_limit(const Options& options, std::size_t backends, Log& log);

// Whether this errno says that we have run out of something, which is no fault of the peer's.
bool is_own_shortage(int err);

}  // namespace dlb::lb
