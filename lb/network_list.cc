#include "lb/network_list.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace dlb::lb {
namespace {

constexpr std::uint8_t kMappedPrefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
constexpr unsigned kMappedBits = 96;

// The bits of byte `at` that belong to a prefix.
std::uint8_t mask_of(std::size_t at, unsigned prefix) {
  const unsigned before = static_cast<unsigned>(at) * 8;
  if (prefix <= before) return 0;
  const unsigned bits = std::min(prefix - before, 8U);
  return static_cast<std::uint8_t>(0xff00U >> bits);
}

}  // namespace

Result<Network> Network::parse(std::string_view text) {
  const Error wrong{"\"" + std::string(text) +
                    "\": expected an IP address or a network, such as 10.0.0.5, ::1, 10.0.0.0/8 or fd00::/8"};
  const std::size_t slash = text.find('/');
  const std::string address(text.substr(0, slash));
  Network network;
  network.v4 = address.find(':') == std::string::npos;
  const int family = network.v4 ? AF_INET : AF_INET6;
  if (::inet_pton(family, address.c_str(), network.bytes.data()) != 1) return wrong;
  if (address.size() != std::strlen(address.c_str())) return wrong;
  unsigned prefix = network.v4 ? 32 : 128;
  if (slash != std::string_view::npos) {
    const std::string_view bits = text.substr(slash + 1);
    const unsigned most = prefix;
    const auto [end, code] = std::from_chars(bits.data(), bits.data() + bits.size(), prefix);
    if (bits.empty() || code != std::errc{} || end != bits.data() + bits.size() || prefix > most)
      return wrong;
  }
  if (!network.v4 && prefix >= kMappedBits && std::memcmp(network.bytes.data(), kMappedPrefix, 12) == 0) {
    std::copy(network.bytes.begin() + 12, network.bytes.end(), network.bytes.begin());
    std::fill(network.bytes.begin() + 4, network.bytes.end(), std::uint8_t{0});
    network.v4 = true;
    prefix -= kMappedBits;
  }
  network.prefix = static_cast<std::uint8_t>(prefix);
  Network masked = network;
  for (std::size_t i = 0; i < masked.bytes.size(); ++i) masked.bytes[i] &= mask_of(i, prefix);
  if (masked.bytes != network.bytes) {
    return Error{"\"" + std::string(text) + "\" has bits behind its prefix; the network is " +
                 masked.to_string()};
  }
  return network;
}

bool Network::contains(const PeerAddress& peer) const {
  if (!peer.known() || peer.v4() != v4) return false;
  const std::size_t whole = prefix / 8;
  if (std::memcmp(bytes.data(), peer.bytes().data(), whole) != 0) return false;
  if (prefix % 8 == 0) return true;
  return (peer.bytes()[whole] & mask_of(whole, prefix)) == bytes[whole];
}

std::string Network::to_string() const {
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::inet_ntop(v4 ? AF_INET : AF_INET6, bytes.data(), text.data(), text.size());
  std::string out = text.data();
  if (prefix != (v4 ? 32 : 128)) out += "/" + std::to_string(prefix);
  return out;
}

bool NetworkList::contains(const PeerAddress& peer) const {
  return std::any_of(networks_.begin(), networks_.end(),
                     [&peer](const Network& network) { return network.contains(peer); });
}

}  // namespace dlb::lb
