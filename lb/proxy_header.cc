#include "lb/proxy_header.h"

#include <netinet/in.h>

#include <cstdint>
#include <cstring>

namespace dlb::lb {
namespace {

constexpr char kSignature[] = "\r\n\r\n\0\r\nQUIT\n";
constexpr char kVersion2Proxy = 0x21;
constexpr char kTcp4 = 0x11;
constexpr char kTcp6 = 0x21;

// The bytes of an address: 4, 16 or none. An IPv4 address in IPv6's clothes is IPv4.
std::size_t address_bytes(const Address& address, char* out) {
  if (address.family() == AF_INET) {
    std::memcpy(out, &reinterpret_cast<const sockaddr_in*>(address.data())->sin_addr, 4);
    return 4;
  }
  if (address.family() != AF_INET6) return 0;
  const auto& in6 = reinterpret_cast<const sockaddr_in6*>(address.data())->sin6_addr;
  const bool mapped = IN6_IS_ADDR_V4MAPPED(&in6);
  std::memcpy(out, in6.s6_addr + (mapped ? 12 : 0), mapped ? 4 : 16);
  return mapped ? 4 : 16;
}

}  // namespace

std::string_view write_proxy_header(const Address& source, const Address& destination,
                                    std::array<char, kProxyHeaderBytes>& out) {
  std::memcpy(out.data(), kSignature, 12);
  out[12] = kVersion2Proxy;
  char from[16];
  char to[16];
  const std::size_t bytes = address_bytes(source, from);
  const bool known = bytes > 0 && address_bytes(destination, to) == bytes;
  out[13] = !known ? '\0' : bytes == 4 ? kTcp4 : kTcp6;
  const std::size_t length = known ? 2 * bytes + 4 : 0;
  out[14] = '\0';
  out[15] = static_cast<char>(length);
  if (!known) return {out.data(), 16};
  char* at = out.data() + 16;
  std::memcpy(at, from, bytes);
  std::memcpy(at + bytes, to, bytes);
  at += 2 * bytes;
  for (const std::uint16_t port : {source.port(), destination.port()}) {
    *at++ = static_cast<char>(port >> 8);
    *at++ = static_cast<char>(port & 0xff);
  }
  return {out.data(), 16 + length};
}

}  // namespace dlb::lb
