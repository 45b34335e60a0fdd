// What PostgresStore's statements are known by when their replies come. Values only.
#pragma once

#include <cstdint>

namespace dlb::backend {

// The kind in the low bits; above them the batch, or the request, that it belongs to.
enum class Tag : std::uint64_t {
  ReadGeneration,
  Insert,
  Find,
  Reserve,
  Read,
  Generation,
  RenewedGeneration,
  Renew,
  Notify,
  Probe,
  Watchdog,
  Page,
  FindKey,
  Claim,
  ListPresent,
  WritePresent
};
constexpr int kTagBits = 5;

constexpr std::uint64_t make_tag(Tag tag, std::uint64_t id = 0) {
  return (id << kTagBits) | static_cast<std::uint64_t>(tag);
}
constexpr Tag kind_of(std::uint64_t tag) { return static_cast<Tag>(tag & ((1U << kTagBits) - 1)); }
constexpr std::uint64_t id_of(std::uint64_t tag) { return tag >> kTagBits; }

}  // namespace dlb::backend
