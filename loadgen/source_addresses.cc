#include "loadgen/source_addresses.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>

#include "common/check.h"
#include "common/fd.h"

namespace dlb::loadgen {
namespace {

constexpr std::uint64_t kMost = std::uint64_t{1} << 24;  // 127.0.0.0/8

std::optional<std::uint32_t> parse_ipv4(std::string_view text) {
  in_addr address{};
  if (::inet_pton(AF_INET, std::string(text).c_str(), &address) != 1) return std::nullopt;
  return ntohl(address.s_addr);
}

Address ipv4(std::uint32_t host_order) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(host_order);
  return Address::from_sockaddr(reinterpret_cast<const sockaddr*>(&address), sizeof address);
}

Error bad_part(std::string_view part, std::string_view what) {
  return Error{fmt::format("\"{}\": {}", part, what)};
}

}  // namespace

Result<SourceAddresses> SourceAddresses::parse(const std::vector<std::string>& parts) {
  SourceAddresses made;
  for (const std::string& part : parts) {
    if (auto added = made.add(part); !added) return added.error();
  }
  return made;
}

Result<void> SourceAddresses::add(std::string_view part) {
  Range range;
  const std::size_t slash = part.find('/');
  const std::size_t hyphen = part.find('-');
  if (part.find(':') != std::string_view::npos) {
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    if (::inet_pton(AF_INET6, std::string(part).c_str(), &address.sin6_addr) != 1) {
      return bad_part(part, "IPv6 addresses are given one by one");
    }
    range.single = Address::from_sockaddr(reinterpret_cast<const sockaddr*>(&address), sizeof address);
    range.count = 1;
  } else {
    const auto first = parse_ipv4(part.substr(0, std::min(slash, hyphen)));
    if (!first) return bad_part(part, "an address, ADDRESS-ADDRESS or ADDRESS/PREFIX is expected");
    range.first = *first;
    range.count = 1;
    if (hyphen != std::string_view::npos) {
      const auto last = parse_ipv4(part.substr(hyphen + 1));
      if (!last || *last < *first) return bad_part(part, "the range ends before it begins, or in no address");
      range.count = std::uint64_t{*last} - *first + 1;
    } else if (slash != std::string_view::npos) {
      const std::string_view digits = part.substr(slash + 1);
      unsigned prefix = 0;
      const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), prefix);
      if (problem != std::errc{} || end != digits.data() + digits.size() || prefix < 1 || prefix > 32) {
        return bad_part(part, "a prefix is 1 to 32");
      }
      range.count = std::uint64_t{1} << (32 - prefix);
      range.first &= static_cast<std::uint32_t>(~(range.count - 1));
      if (prefix <= 30) {
        ++range.first;
        range.count -= 2;
      }
    }
  }
  size_ += range.count;
  if (size_ > kMost) return bad_part(part, "over 2^24 addresses in all");
  ranges_.push_back(range);
  return {};
}

Address SourceAddresses::of(std::uint64_t user) const {
  DLB_CHECK(!empty());
  std::uint64_t number = user % size_;
  for (const Range& range : ranges_) {
    if (number < range.count) {
      return range.single.empty() ? ipv4(range.first + static_cast<std::uint32_t>(number)) : range.single;
    }
    number -= range.count;
  }
  DLB_CHECK_MSG(false, "the ranges are fewer than their sum");
  return {};
}

Result<void> SourceAddresses::check(std::uint64_t users) const {
  for (std::uint64_t user = 0; user < std::min(users, size_); ++user) {
    const Address address = of(user);
    const Fd probe(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!probe) return errno_error("socket", errno);
    if (::bind(probe.get(), address.data(), address.size()) != 0) {
      const int err = errno;
      return errno_error("bind " + address.host(), err);
    }
  }
  return {};
}

}  // namespace dlb::loadgen
