// The pick: one function over values. It reads a view of every backend and returns an index with its reason;
// it keeps no state, does no I/O, allocates nothing and takes no lock, so that the balancer, the unit tests
// and the simulator run exactly the same rule. Reserving what was picked is the caller's (lb/router.cc).
//
//   score        among those that pass every filter and score under the threshold: fewest outstanding per
//   unit of weight least_conn   the same choice without the threshold (least_conn_heap.h is the O(1) form of
//   it) round_robin  the one whose last pick is oldest, so that turns stay even when some are skipped
//
// When nothing passes, the outcome says what is missing; see choose().
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "lb/policy/backend_view.h"

namespace dlb::lb {

enum class PolicyKind : std::uint8_t { Score, LeastConn, RoundRobin };

inline constexpr PolicyKind kPolicyKinds[] = {PolicyKind::Score, PolicyKind::LeastConn,
                                              PolicyKind::RoundRobin};

// The name in the configuration: `score`, `least_conn`, `round_robin`.
std::string_view policy_name(PolicyKind kind);

}  // namespace dlb::lb
