// The pick: one function over values. It reads a view of every backend and returns an index with its reason;
// it keeps no state, does no I/O, allocates nothing and takes no lock, so that the balancer, the unit tests
// and the simulator run exactly the same rule. Reserving what was picked is the caller's (lb/router.cc).
//
//   score                 those under the threshold: fewest outstanding per unit of weight
//   adaptive              those without a veto (veto.h): smallest latency × (outstanding + 1) / weight;
//                         latency by the peak average, failures and the slow start of who is back included
//   least_conn            as score, without the threshold (least_conn_heap.h is the O(1) form of it)
//   round_robin           whose last pick is oldest: turns stay even when some are skipped; no weights
//   weighted_round_robin  turns by weight, spread evenly (weighted_turn.h)
//   first                 the first in the configuration's order
//   random_two            two drawn by chance, the less loaded of them
//   peak_ewma             as adaptive by cost alone: no veto, no slow start
//   prequal               of up to 16 drawn: the quickest of those that are not among the fullest, else the
//                         least loaded
//
// Exact ties go to the one whose last pick is oldest, so they rotate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "lb/policy/backend_view.h"
#include "lb/policy/eligibility.h"

namespace dlb::lb {

enum class PolicyKind : std::uint8_t {
  Score,
  Adaptive,
  LeastConn,
  RoundRobin,
  WeightedRoundRobin,
  First,
  RandomTwo,
  PeakEwma,
  Prequal
};

inline constexpr PolicyKind kPolicyKinds[] = {
    PolicyKind::Score,      PolicyKind::Adaptive,           PolicyKind::LeastConn,
    PolicyKind::RoundRobin, PolicyKind::WeightedRoundRobin, PolicyKind::First,
    PolicyKind::RandomTwo,  PolicyKind::PeakEwma,           PolicyKind::Prequal};

// The name in the configuration: `score`, `least_conn`, …
std::string_view policy_name(PolicyKind kind);
std::optional<PolicyKind> policy_from_name(std::string_view name);

struct PolicyRules {
  PolicyKind kind = PolicyKind::Score;
  double threshold = 75;       // `score` only
  bool panic_fallback = true;  // L11
  double normal_us = 0;        // the pool's usual latency: what a backend without a sample counts as
  std::uint64_t draw = 0;      // chance, for policies that draw: another number for each pick
};

enum class PickReason : std::uint8_t {
  Picked,     // passes every filter
  Fallback,   // passes every filter but the threshold, as does nobody (L3)
  Full,       // usable ones exist, but every one lacks a free slot or connection
  NoHealthy,  // none is up (or all that are have been taken out on purpose)
  NoMemory,   // some are up, none passes the memory guards
};

struct Decision {
  PickReason reason = PickReason::NoHealthy;
  std::uint32_t index = 0;  // with Picked and Fallback
  bool panic = false;       // ejection or health was overlooked, since nothing else was left
};

// Chooses one backend. Those marked `excluded` are chosen only when no other is up, accepting and
// memory-safe: a full one is worth waiting for. When only ejected ones are left, ejection is overlooked.
// Panic, when allowed, begins when no backend that wasn't taken out on purpose is healthy; it then treats
// those that accept connections as healthy, overlooks ejection, and keeps every other rule.
Decision choose(std::span<const BackendView> views, const PolicyRules& rules);

// Policies that look at some of the candidates only, drawn by chance: at how many; 0: at all of them.
constexpr std::size_t drawn_by(PolicyKind kind) {
  return kind == PolicyKind::RandomTwo ? 2 : kind == PolicyKind::Prequal ? 16 : 0;
}
// Such a policy's choice of the views, 1 to drawn_by(kind) of them, that the caller has drawn from all that
// are Eligible: what choose() would take had it drawn them. The index in `drawn`.
std::uint32_t choose_drawn(std::span<const BackendView> drawn, PolicyKind kind);

// True when `a` has fewer outstanding requests per unit of weight than `b`, or as many and its last pick is
// older. Exact: no division. Both weights above 0.
constexpr bool less_loaded(const BackendView& a, const BackendView& b) {
  const std::uint64_t left = static_cast<std::uint64_t>(a.in_flight) * b.weight;
  const std::uint64_t right = static_cast<std::uint64_t>(b.in_flight) * a.weight;
  return left != right ? left < right : a.last_pick < b.last_pick;
}

}  // namespace dlb::lb
