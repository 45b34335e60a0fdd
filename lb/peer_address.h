// PeerAddress: a client's address in 20 bytes (an Address takes 136), for the many connections that idle.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "common/address.h"

namespace dlb::lb {

class PeerAddress {
 public:
  static constexpr std::size_t kTextBytes = INET6_ADDRSTRLEN;

  PeerAddress() = default;
  explicit PeerAddress(const Address& address) : port_(address.port()) {
    if (address.family() == AF_INET) {
      v4_ = known_ = true;
      std::memcpy(bytes_.data(), &reinterpret_cast<const sockaddr_in*>(address.data())->sin_addr, 4);
    } else if (address.family() == AF_INET6) {
      const auto& in6 = reinterpret_cast<const sockaddr_in6*>(address.data())->sin6_addr;
      v4_ = IN6_IS_ADDR_V4MAPPED(&in6);
      known_ = true;
      std::memcpy(bytes_.data(), in6.s6_addr + (v4_ ? 12 : 0), v4_ ? 4 : 16);
    }
  }

  // The address without its port, as text in `out`. Hand-made for IPv4: it stands in every forwarded request.
  std::string_view write_host(std::array<char, kTextBytes>& out) const {
    if (!v4_) {
      ::inet_ntop(AF_INET6, bytes_.data(), out.data(), static_cast<socklen_t>(out.size()));
      return {out.data(), std::strlen(out.data())};
    }
    char* at = out.data();
    for (std::size_t i = 0; i < 4; ++i) {
      const unsigned octet = bytes_[i];
      if (octet >= 100) *at++ = static_cast<char>('0' + octet / 100);
      if (octet >= 10) *at++ = static_cast<char>('0' + octet / 10 % 10);
      *at++ = static_cast<char>('0' + octet % 10);
      if (i < 3) *at++ = '.';
    }
    return {out.data(), static_cast<std::size_t>(at - out.data())};
  }

  std::uint16_t port() const { return port_; }
  bool known() const { return known_; }  // false: a Unix socket
  bool v4() const { return v4_; }
  // In network order; of IPv4 the first four.
  const std::array<std::uint8_t, 16>& bytes() const { return bytes_; }

 private:
  std::array<std::uint8_t, 16> bytes_{};
  std::uint16_t port_ = 0;
  bool v4_ = false;
  bool known_ = false;
};

}  // namespace dlb::lb
