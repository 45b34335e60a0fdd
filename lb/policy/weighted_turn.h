// Turns of `weighted_round_robin`: each pick moves a backend on by a stride that is inverse to its weight,
// and the one that would be through with its turn first is next. Picks of one backend are spread evenly among
// the others': 5:1:1 gives a a a b c a a, never five in a row. Pure; a turn lives in the backend's atomics,
// and `newest` is the furthest turn that the worker has given.
#pragma once

#include <algorithm>
#include <cstdint>

namespace dlb::lb {

inline constexpr std::uint64_t kTurn = std::uint64_t{1} << 24;  // of weight 1; 2^40 picks fit

constexpr std::uint64_t stride_of(std::uint32_t weight) { return kTurn / std::max(weight, 1U); }

// Whoever was away comes back at most one stride behind: it gets no more for its absence than the next turn.
constexpr std::uint64_t current_turn(std::uint64_t turn, std::uint32_t weight, std::uint64_t newest) {
  const std::uint64_t stride = stride_of(weight);
  return newest > stride ? std::max(turn, newest - stride) : turn;
}

// By this the next is chosen: the smallest. Half a stride, so that equal starts begin with the heaviest.
constexpr std::uint64_t turn_key(std::uint64_t turn, std::uint32_t weight) {
  return turn + stride_of(weight) / 2;
}

}  // namespace dlb::lb
