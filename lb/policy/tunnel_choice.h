// Which backend a layer-4 connection goes to: one function over values, as policy.h for requests. No state,
// no clock; reserving what was chosen is the caller's (lb/tunnel_pool.cc).
//
//   round_robin  the usable ones in turn
//   least_conn   the usable one with the fewest connections; among equals in turn
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace dlb::lb {

enum class TunnelPolicy : std::uint8_t { RoundRobin, LeastConn };

struct TunnelView {
  bool usable = false;       // healthy, and not tried by this connection yet
  std::uint32_t active = 0;  // connections it has
};

// The index of the backend for the `turn`-th connection; nothing when none is usable. `turn` grows by one
// with each choice, whoever makes it.
std::optional<std::uint32_t> choose_tunnel_backend(std::span<const TunnelView> views, TunnelPolicy policy,
                                                   std::uint64_t turn);

}  // namespace dlb::lb
