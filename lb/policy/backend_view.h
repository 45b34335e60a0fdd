// BackendView: what a policy sees of one backend at the moment of a pick. Plain values, copied from the
// shared atomics by the router, made up by tests and by the simulator.
#pragma once

#include <cstdint>

namespace dlb::lb {

struct BackendView {
  // Axes that eligible() joins (eligibility.h).
  bool draining = false;   // by the operator, or by its own health answer
  bool healthy = false;    // active checks and failed connects
  bool accepting = false;  // its last probe could connect: all that panic asks for
  bool ejected = false;
  bool resting = false;         // to be used only while no other one has room: autoscaler.h
  bool stalled = false;         // stall_watch.h: it answers nothing
  bool memory_blocked = false;  // either memory guard, hysteresis applied
  bool slot_free = true;        // under backend-cap
  bool connection_free = true;  // under the connection limit of this request's transport
  bool excluded = false;        // this request has been there already

  std::uint32_t weight = 1;     // 0: gets nothing
  std::uint32_t in_flight = 0;  // outstanding requests
  std::uint64_t last_pick = 0;  // order of the last pick; smaller is longer ago
  double score = 0;             // score.h; only the `score` policy reads it
  bool vetoed = false;          // veto.h; set under `adaptive` only, and then as good as over the threshold

  std::uint32_t order = 0;  // in the configuration; `first` reads it
  std::uint64_t turn = 0;   // weighted_turn.h; `weighted_round_robin` reads it
  double latency_us = 0;    // average; `prequal` reads it
  double peak_us = 0;       // peak average, 0: none yet; `peak_ewma` and `adaptive` read it
  double share = 1;         // of its weight, while it starts slowly; `adaptive` reads it
};

}  // namespace dlb::lb
