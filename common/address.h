// Address: where to listen or connect: IPv4, IPv6 or a Unix socket path. A value, 128 bytes.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "common/result.h"

namespace dlb {

class Address {
 public:
  Address() = default;

  // `host:port`, `:port` (any address, IPv4), `[v6]:port`, `unix:/path`. Host names are resolved with
  // getaddrinfo, which blocks: call this at start-up or on the control thread, never on a data loop.
  static Result<Address> parse(std::string_view text);

  static Address from_sockaddr(const sockaddr* address, socklen_t length);

  const sockaddr* data() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t size() const { return length_; }
  int family() const { return storage_.ss_family; }
  bool empty() const { return length_ == 0; }

  bool is_unix() const { return family() == AF_UNIX; }
  bool is_loopback() const;  // 127.0.0.0/8, ::1, ::ffff:127.0.0.0/104, or a Unix socket

  std::uint16_t port() const;  // 0 for a Unix socket
  // The address without its port: `127.0.0.1`, `::1` (v4-mapped shown as v4), `unix:` for Unix peers.
  std::string host() const;
  // Appends host() into `out` without allocating; returns the length written, at most 46.
  std::size_t write_host(char* out, std::size_t capacity) const;
  // As it would be parsed: `127.0.0.1:80`, `[::1]:80`, `unix:/path`.
  std::string to_string() const;

  bool operator==(const Address& other) const;

 private:
  sockaddr_storage storage_{};
  socklen_t length_ = 0;
};

}  // namespace dlb
