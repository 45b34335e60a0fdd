// The PROXY protocol (haproxy.org, proxy-protocol.txt): what a proxy in front of us says, before the first
// byte of the client, about who the client is. A strict parser of versions 1 and 2, and a writer of
// version 2. Pure: bytes in, a verdict out. Whether the peer may be believed at all is its caller's business.
//
//   v1: `PROXY TCP4 192.0.2.1 192.0.2.2 40000 443\r\n`, TCP6 alike, `PROXY UNKNOWN …\r\n`; at most 107 bytes
//   v2: 12 bytes of signature, version and command, family, length of 16 bits, addresses, TLVs (skipped)
//
// What says nothing usable (v1 UNKNOWN; v2 LOCAL, unspecified, datagrams, Unix sockets) is `local`: the
// connection's own addresses hold. There is no "no header": a receiver that guesses could be lied to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "common/address.h"

namespace dlb {

// The longest v1 line with its CRLF, as the protocol defines it.
inline constexpr std::size_t kMaxProxyV1Bytes = 107;
// Addresses and TLVs of a v2 header that we take; a longer one is Bad (no sender is known to make it).
inline constexpr std::size_t kMaxProxyV2Payload = 4096;
// No header that is accepted is longer: a block of this size never has to grow.
inline constexpr std::size_t kMaxProxyHeaderBytes = 16 + kMaxProxyV2Payload;
// What write_proxy_v2() needs at most.
inline constexpr std::size_t kProxyV2WriteBytes = 16 + 36;

struct ProxyHeader {
  enum class Status : std::uint8_t {
    NeedMore,  // so far it is the beginning of a header; call again with more behind the same bytes
    Ok,        // `consumed` bytes are the header; what follows is the client's
    Bad,       // no header can begin like this: `reason` says why
  };

  Status status = Status::NeedMore;
  bool local = false;         // Ok: no address was given, keep the connection's own
  std::size_t consumed = 0;   // Ok
  Address source{};           // Ok and not local: the client
  Address destination{};      // Ok and not local: where it connected to
  std::string_view reason{};  // Bad: a sentence with static lifetime
};

// Reads the header at the beginning of `bytes`. The verdict doesn't depend on how the bytes are cut: of all
// beginnings of an input, the shorter ones say NeedMore and the longer ones all the same. A wrong byte is
// told as soon as it is there.
ProxyHeader parse_proxy_header(std::string_view bytes);

// Writes a v2 header (command PROXY, a stream) into `out`; the length, at most kProxyV2WriteBytes, or 0 when
// `out` is too small. Addresses of two families are both written as IPv6, v4-mapped; where one is no IP
// address, the header says "unspecified".
std::size_t write_proxy_v2(const Address& source, const Address& destination, std::span<char> out);

}  // namespace dlb
