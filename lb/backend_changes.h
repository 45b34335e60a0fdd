// What a reload makes of the backends: which stay, which are new, which leave. By id and address: the same
// server stays the same Backend with all that is known of it; an id at another address is another server that
// inherits counters and admin state, not health.
//
//   Member ──no longer configured──▶ Leaving ──the new ones are checked──▶ Gone ──idle, seen by all
//   workers──▶
//      ▲                                │                                   │      its index may be given
//      away └──────── configured again ──────┴───── likewise, to be checked ─────┘
//
// Indexes are kept, so that whatever runs goes on; a set never gets smaller. Control thread (or before it).
#pragma once

#include <cstdint>
#include <vector>

#include "lb/backend_set.h"

namespace dlb::lb {

struct Options;

struct BackendChanges {
  BackendSet set;                      // the next one
  std::vector<std::uint32_t> added;    // to be checked before they get traffic
  std::vector<std::uint32_t> leaving;  // to be taken out by retire_backends()
};

// The step from `current`, made for `before`, to what `after` names. Weights change at once when the file's
// figure has changed: one that was set by hand stays otherwise. `seen_by_all`: the serial that every worker's
// configuration has reached; a backend that has been gone since then and is idle gives its index away.
BackendChanges change_backends(const BackendSet& current, const Options& before, const Options& after,
                               std::uint64_t seen_by_all);

// Those that are leaving are gone, from the configuration `serial` on.
void retire_backends(const BackendSet& set, const std::vector<std::uint32_t>& leaving, std::uint64_t serial);

}  // namespace dlb::lb
