// The PROXY protocol header, version 2, as a layer-4 listener sends it to a backend: whom the connection
// really comes from. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "common/address.h"

namespace dlb::lb {

inline constexpr std::size_t kProxyHeaderBytes = 16 + 36;  // the longest, of IPv6

// Both addresses of the client's connection, as its bytes in `out`. Unix sockets, and families that differ,
// give a header without addresses.
std::string_view write_proxy_header(const Address& source, const Address& destination,
                                    std::array<char, kProxyHeaderBytes>& out);

}  // namespace dlb::lb
