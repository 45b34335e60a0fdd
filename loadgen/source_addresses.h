// SourceAddresses: the local addresses that connections come from, so that limits per client address count as
// they do with many clients, and so that more than the 28,000 ports of one address are there. User u always
// has the same one.
//
//   list   part { "," part }
//   part   ADDRESS | ADDRESS-ADDRESS | ADDRESS/PREFIX       IPv4; IPv6 addresses one by one
//
// Of a prefix up to /30 the first and the last address are left out. On loopback all of 127.0.0.0/8 is there
// without any set-up. Pure, but for check().
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/address.h"
#include "common/result.h"

namespace dlb::loadgen {

class SourceAddresses {
 public:
  SourceAddresses() = default;  // none: the system chooses

  // The error says which part is wrong.
  static Result<SourceAddresses> parse(const std::vector<std::string>& parts);

  bool empty() const { return size_ == 0; }
  std::uint64_t size() const { return size_; }
  // The one of a user, without a port. Requires !empty().
  Address of(std::uint64_t user) const;
  // Whether this machine has those that `users` users take; the error names the first that can't be bound.
  Result<void> check(std::uint64_t users) const;

 private:
  struct Range {
    std::uint32_t first = 0;  // IPv4, host order
    std::uint64_t count = 0;
    Address single{};  // an IPv6 one, in place of a range
  };
  Result<void> add(std::string_view part);

  std::vector<Range> ranges_;
  std::uint64_t size_ = 0;
};

}  // namespace dlb::loadgen
