#include "common/proxy_protocol.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace dlb {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kV1Prefix = "PROXY "sv;
constexpr std::string_view kV2Signature = "\r\n\r\n\0\r\nQUIT\n"sv;
constexpr std::size_t kV2HeadBytes = 16;
constexpr std::size_t kInetBytes = 12, kInet6Bytes = 36, kUnixBytes = 216;

ProxyHeader bad(std::string_view reason) {
  ProxyHeader header;
  header.status = ProxyHeader::Status::Bad;
  header.reason = reason;
  return header;
}

ProxyHeader local(std::size_t consumed) {
  ProxyHeader header;
  header.status = ProxyHeader::Status::Ok;
  header.consumed = consumed;
  header.local = true;
  return header;
}

// `address`: 4 or 16 bytes, `port` in network order.
Address inet(int family, const void* address, std::uint16_t port) {
  if (family == AF_INET) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = port;
    std::memcpy(&in.sin_addr, address, sizeof in.sin_addr);
    return Address::from_sockaddr(reinterpret_cast<const sockaddr*>(&in), sizeof in);
  }
  sockaddr_in6 in6{};
  in6.sin6_family = AF_INET6;
  in6.sin6_port = port;
  std::memcpy(&in6.sin6_addr, address, sizeof in6.sin6_addr);
  return Address::from_sockaddr(reinterpret_cast<const sockaddr*>(&in6), sizeof in6);
}

// --- version 1

// Cuts the text up to the next space off `rest`; all of it when there is none.
std::string_view next_word(std::string_view& rest) {
  const std::size_t space = std::min(rest.find(' '), rest.size());
  const std::string_view word = rest.substr(0, space);
  rest.remove_prefix(std::min(space + 1, rest.size()));
  return word;
}

bool parse_ip(int family, std::string_view text, std::array<std::uint8_t, 16>& out) {
  char terminated[INET6_ADDRSTRLEN] = {};
  if (text.empty() || text.size() >= sizeof terminated) return false;
  if (text.find('\0') != std::string_view::npos) return false;
  text.copy(terminated, text.size());
  return ::inet_pton(family, terminated, out.data()) == 1;  // strict: no leading zeros, no scope
}

// Decimal, without leading zeros; the result is in network order.
bool parse_port(std::string_view text, std::uint16_t& out) {
  if (text.empty() || text.size() > 5 || (text.size() > 1 && text.front() == '0')) return false;
  unsigned port = 0;
  for (const char digit : text) {
    if (digit < '0' || digit > '9') return false;
    port = port * 10 + static_cast<unsigned>(digit - '0');
  }
  out = htons(static_cast<std::uint16_t>(port));
  return port <= 65535;
}

// `line` is everything up to CRLF; it begins with kV1Prefix.
ProxyHeader parse_v1_line(std::string_view line) {
  const std::size_t consumed = line.size() + 2;
  std::string_view rest = line.substr(kV1Prefix.size());
  const std::size_t spaces = static_cast<std::size_t>(std::count(rest.begin(), rest.end(), ' '));
  const std::string_view family_name = next_word(rest);
  if (family_name == "UNKNOWN") return local(consumed);  // what follows is to be ignored
  const int family = family_name == "TCP4" ? AF_INET : family_name == "TCP6" ? AF_INET6 : AF_UNSPEC;
  if (family == AF_UNSPEC) return bad("the PROXY line names no known family");
  if (spaces != 4) return bad("the PROXY line needs two addresses and two ports, one space between");
  std::array<std::uint8_t, 16> source{}, destination{};
  if (!parse_ip(family, next_word(rest), source) || !parse_ip(family, next_word(rest), destination)) {
    return bad("an address of the PROXY line is none of its family");
  }
  std::uint16_t source_port = 0, destination_port = 0;
  if (!parse_port(next_word(rest), source_port) || !parse_port(next_word(rest), destination_port)) {
    return bad("a port of the PROXY line is no number from 0 to 65535");
  }
  ProxyHeader header;
  header.status = ProxyHeader::Status::Ok;
  header.consumed = consumed;
  header.source = inet(family, source.data(), source_port);
  header.destination = inet(family, destination.data(), destination_port);
  return header;
}

ProxyHeader parse_v1(std::string_view bytes) {
  const std::string_view window = bytes.substr(0, kMaxProxyV1Bytes);
  const std::size_t lf = window.find('\n');
  if (lf == std::string_view::npos) {
    if (window.size() == kMaxProxyV1Bytes) return bad("the PROXY line is longer than 107 bytes");
    return {};
  }
  if (window[lf - 1] != '\r') return bad("the PROXY line ends without a carriage return");
  return parse_v1_line(window.substr(0, lf - 1));
}

// --- version 2

std::uint8_t byte_at(std::string_view bytes, std::size_t at) { return static_cast<std::uint8_t>(bytes[at]); }

std::uint16_t network_port(std::string_view bytes, std::size_t at) {
  std::uint16_t port = 0;
  std::memcpy(&port, bytes.data() + at, sizeof port);
  return port;
}

// The least payload of a family (high half) and transport (low half), as far as we know them.
std::size_t least_payload(std::uint8_t family) {
  switch (family >> 4) {
    case 1:
      return kInetBytes;
    case 2:
      return kInet6Bytes;
    case 3:
      return kUnixBytes;
    default:
      return 0;
  }
}

// Wrong bytes are told one by one, as they come: the verdict must not depend on how many come at once.
ProxyHeader parse_v2(std::string_view bytes) {
  const std::size_t here = bytes.size();
  if (here <= 12) return {};
  if (byte_at(bytes, 12) != 0x20 && byte_at(bytes, 12) != 0x21) {
    return bad("the PROXY header has an unknown version or command");
  }
  const bool is_local = byte_at(bytes, 12) == 0x20;
  if (here == 13) return {};
  const std::uint8_t family = byte_at(bytes, 13);
  if (!is_local && ((family >> 4) > 3 || (family & 15) > 2)) {
    return bad("the PROXY header has an unknown family or transport");
  }
  if (here < kV2HeadBytes) return {};
  const std::size_t payload = std::size_t{byte_at(bytes, 14)} << 8 | byte_at(bytes, 15);
  if (payload > kMaxProxyV2Payload) return bad("the PROXY header is longer than 4 KiB");
  if (!is_local && payload < least_payload(family))
    return bad("the PROXY header is too short for its addresses");
  if (here < kV2HeadBytes + payload) return {};

  if (is_local || (family != 0x11 && family != 0x21)) return local(kV2HeadBytes + payload);
  const std::size_t address_bytes = family == 0x11 ? 4 : 16;
  const int inet_family = family == 0x11 ? AF_INET : AF_INET6;
  const std::size_t ports = kV2HeadBytes + 2 * address_bytes;
  ProxyHeader header;
  header.status = ProxyHeader::Status::Ok;
  header.consumed = kV2HeadBytes + payload;
  header.source = inet(inet_family, bytes.data() + kV2HeadBytes, network_port(bytes, ports));
  header.destination =
      inet(inet_family, bytes.data() + kV2HeadBytes + address_bytes, network_port(bytes, ports + 2));
  return header;
}

// --- writing

// An IP address as 16 bytes, IPv4 mapped into IPv6.
struct MappedAddress {
  std::array<char, 16> bytes{};
  std::uint16_t port = 0;  // network order
  bool v4 = false;
  bool known = false;

  explicit MappedAddress(const Address& address) : port(htons(address.port())) {
    if (address.family() == AF_INET) {
      bytes[10] = bytes[11] = static_cast<char>(0xff);
      std::memcpy(bytes.data() + 12, &reinterpret_cast<const sockaddr_in*>(address.data())->sin_addr, 4);
      v4 = known = true;
    } else if (address.family() == AF_INET6) {
      const auto& in6 = reinterpret_cast<const sockaddr_in6*>(address.data())->sin6_addr;
      std::memcpy(bytes.data(), &in6, bytes.size());
      v4 = IN6_IS_ADDR_V4MAPPED(&in6);
      known = true;
    }
  }
};

}  // namespace

ProxyHeader parse_proxy_header(std::string_view bytes) {
  const auto begins_as = [&](std::string_view prefix) {
    return bytes.substr(0, prefix.size()) == prefix.substr(0, bytes.size());
  };
  if (begins_as(kV1Prefix)) return bytes.size() < kV1Prefix.size() ? ProxyHeader{} : parse_v1(bytes);
  if (begins_as(kV2Signature)) return parse_v2(bytes);
  return bad("there is no PROXY header");
}

std::size_t write_proxy_v2(const Address& source, const Address& destination, std::span<char> out) {
  const MappedAddress from(source), to(destination);
  const bool known = from.known && to.known;
  const bool v4 = from.v4 && to.v4;
  const std::size_t payload = !known ? 0 : v4 ? kInetBytes : kInet6Bytes;
  if (out.size() < kV2HeadBytes + payload) return 0;
  char* at = out.data();
  at += kV2Signature.copy(at, kV2Signature.size());
  *at++ = 0x21;
  *at++ = static_cast<char>(!known ? 0x00 : v4 ? 0x11 : 0x21);
  *at++ = 0;
  *at++ = static_cast<char>(payload);
  if (known) {
    const std::size_t skipped = v4 ? 12 : 0;
    for (const MappedAddress* one : {&from, &to}) {
      at = std::copy(one->bytes.begin() + static_cast<std::ptrdiff_t>(skipped), one->bytes.end(), at);
    }
    for (const MappedAddress* one : {&from, &to}) {
      std::memcpy(at, &one->port, sizeof one->port);
      at += sizeof one->port;
    }
  }
  return static_cast<std::size_t>(at - out.data());
}

}  // namespace dlb
