// Hashes for the generator's own tables: a 64-bit finaliser and a 64-bit hash of bytes. Fast, stable from run
// to run and machine to machine of one byte order, not for secrets. Pure.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace dlb::loadgen {

// A bijection of 64-bit values in which each input bit changes about half of the output bits (splitmix64's
// finaliser).
constexpr std::uint64_t mix64(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

// The high and low half of the 128-bit product, folded: one round of hash_bytes.
inline std::uint64_t fold_multiply(std::uint64_t a, std::uint64_t b) {
  __extension__ using uint128 = unsigned __int128;
  const uint128 product = static_cast<uint128>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

// Differs for different lengths also when the shorter text is a prefix of the longer one padded with NUL.
inline std::uint64_t hash_bytes(std::string_view bytes, std::uint64_t seed) {
  constexpr std::uint64_t kSecret0 = 0xa0761d6478bd642fU;
  constexpr std::uint64_t kSecret1 = 0xe7037ed1a0b428dbU;
  const auto word = [](const char* from, std::size_t count) {
    std::uint64_t value = 0;
    std::memcpy(&value, from, count);
    return value;
  };
  std::uint64_t state = seed ^ fold_multiply(seed ^ kSecret0, bytes.size() ^ kSecret1);
  const char* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 16; left -= 16, at += 16) {
    state = fold_multiply(word(at, 8) ^ kSecret1, word(at + 8, 8) ^ state);
  }
  const std::uint64_t first = left == 0 ? 0 : word(at, left < 8 ? left : 8);
  const std::uint64_t second = left <= 8 ? 0 : word(at + 8, left - 8);
  return fold_multiply(kSecret1 ^ bytes.size(), fold_multiply(first ^ kSecret0, second ^ state));
}

}  // namespace dlb::loadgen
