// NetworkList: the addresses and networks of an option such as `trusted-proxies`, and whether a peer is one
// of them. A value that doesn't change after it was parsed; pure. It is asked once for each connection.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "lb/peer_address.h"

namespace dlb::lb {

// `10.0.0.5`, `::1`, `10.0.0.0/8`, `fd00::/8`. An IPv4 address in IPv6's clothes is the IPv4 address.
struct Network {
  // The error says what is expected. Bits behind the prefix must be 0: `10.1.0.0/8` is more likely a slip.
  static Result<Network> parse(std::string_view text);

  bool contains(const PeerAddress& peer) const;
  std::string to_string() const;  // canonical; a whole address is written without its prefix

  bool operator==(const Network&) const = default;

  std::array<std::uint8_t, 16> bytes{};  // IPv4: the first four
  std::uint8_t prefix = 0;               // bits
  bool v4 = false;
};

class NetworkList {
 public:
  void add(const Network& network) { networks_.push_back(network); }
  bool empty() const { return networks_.empty(); }
  bool contains(const PeerAddress& peer) const;

 private:
  std::vector<Network> networks_;
};

}  // namespace dlb::lb
