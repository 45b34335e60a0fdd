// eligible(): the one place where the axes of a backend's state are joined. Every policy asks it, none
// repeats it.
//
//   draining  weight  healthy  ejected  memory  slot  connection  score   │ verdict
//   ──────────────────────────────────────────────────────────────────────┼──────────────
//   yes       any     any      any      any     any   any         any     │ Draining
//   no        0       any      any      any     any   any         any     │ NoWeight
//   no        > 0     no       any      any     any   any         any     │ Down
//   no        > 0     yes      yes      any     any   any         any     │ Ejected
//   no        > 0     yes      no       over    any   any         any     │ Memory
//   no        > 0     yes      no       below   no    any         any     │ NoSlot
//   no        > 0     yes      no       below   yes   no          any     │ NoConnection
//   no        > 0     yes      no       below   yes   yes         ≥ limit │ OverThreshold
//   no        > 0     yes      no       below   yes   yes         < limit │ Eligible; Resting if it rests
//
// A backend that answers nothing (stall_watch.h) is as good as ejected; a veto of one term (veto.h) counts as
// a score over the limit.
//
// The verdicts are ordered: a later one is nearer to being eligible, and the best one among all backends says
// why a request cannot be placed (or, OverThreshold, that it goes by fallback). `draining` stands for every
// way of being taken out on purpose: drain, maintenance, the backend's own word.
#pragma once

#include <cstdint>
#include <string_view>

#include "lb/policy/backend_view.h"

namespace dlb::lb {

enum class Eligibility : std::uint8_t {
  Draining,
  NoWeight,
  Down,
  Ejected,
  Memory,         // one of the two memory guards
  NoSlot,         // backend-cap
  NoConnection,   // proxy-max-conns-per-host, or the feed's
  OverThreshold,  // passes everything but the score
  Resting,        // passes everything, and is spared while another is Eligible
  Eligible,
};

// `threshold` is the score to stay under; pass kNoThreshold for policies that don't look at it.
inline constexpr double kNoThreshold = 1e9;

constexpr Eligibility eligible(const BackendView& view, double threshold) {
  if (view.draining) return Eligibility::Draining;
  if (view.weight == 0) return Eligibility::NoWeight;
  if (!view.healthy) return Eligibility::Down;
  if (view.ejected || view.stalled) return Eligibility::Ejected;
  if (view.memory_blocked) return Eligibility::Memory;
  if (!view.slot_free) return Eligibility::NoSlot;
  if (!view.connection_free) return Eligibility::NoConnection;
  if (view.vetoed || !(view.score < threshold)) return Eligibility::OverThreshold;
  return view.resting ? Eligibility::Resting : Eligibility::Eligible;
}

// For status pages and logs: `draining`, `no_weight`, `down`, …
constexpr std::string_view eligibility_name(Eligibility verdict) {
  switch (verdict) {
    case Eligibility::Draining:
      return "draining";
    case Eligibility::NoWeight:
      return "no_weight";
    case Eligibility::Down:
      return "down";
    case Eligibility::Ejected:
      return "ejected";
    case Eligibility::Memory:
      return "memory";
    case Eligibility::NoSlot:
      return "no_slot";
    case Eligibility::NoConnection:
      return "no_connection";
    case Eligibility::OverThreshold:
      return "over_threshold";
    case Eligibility::Resting:
      return "resting";
    case Eligibility::Eligible:
      return "eligible";
  }
  return "unknown";
}

}  // namespace dlb::lb
