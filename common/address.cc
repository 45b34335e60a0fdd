#include "common/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstring>

namespace dlb {
namespace {

Result<std::uint16_t> parse_port(std::string_view text, std::string_view whole) {
  unsigned port = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (text.empty() || code != std::errc{} || end != text.data() + text.size() || port > 65535) {
    return Error{"`" + std::string(whole) + "` has no port between 0 and 65535; write host:port"};
  }
  return static_cast<std::uint16_t>(port);
}

}  // namespace

Result<Address> Address::parse(std::string_view text) {
  if (text.starts_with("unix:")) {
    const std::string_view path = text.substr(5);
    sockaddr_un un{};
    if (path.empty() || path.size() >= sizeof un.sun_path) {
      return Error{"`" + std::string(text) + "` needs a path of 1 to 107 bytes"};
    }
    un.sun_family = AF_UNIX;
    std::memcpy(un.sun_path, path.data(), path.size());
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
    return from_sockaddr(reinterpret_cast<const sockaddr*>(&un), length);
  }

  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) {
    return Error{"`" + std::string(text) + "` has no port; write host:port, :port, [v6]:port or unix:/path"};
  }
  auto port = parse_port(text.substr(colon + 1), text);
  if (!port) return port.error();
  std::string host(text.substr(0, colon));
  if (host.starts_with('[')) {
    if (!host.ends_with(']'))
      return Error{"`" + std::string(text) + "` opens a bracket that it doesn't close"};
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string::npos) {
    return Error{"`" + std::string(text) + "`: write an IPv6 address in brackets, [v6]:port"};
  }
  if (host.empty() || host == "*") {
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_port = htons(*port);
    return from_sockaddr(reinterpret_cast<const sockaddr*>(&any), sizeof any);
  }

  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (code != 0 || found == nullptr) {
    return Error{"`" + host + "` can't be resolved: " + std::string(::gai_strerror(code))};
  }
  // IPv4 first where a name has both: that is what servers bound to `:port` listen on.
  const addrinfo* best = found;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    if (one->ai_family == AF_INET) {
      best = one;
      break;
    }
  }
  Address address = from_sockaddr(best->ai_addr, best->ai_addrlen);
  ::freeaddrinfo(found);
  if (address.family() == AF_INET) {
    reinterpret_cast<sockaddr_in*>(&address.storage_)->sin_port = htons(*port);
  } else {
    reinterpret_cast<sockaddr_in6*>(&address.storage_)->sin6_port = htons(*port);
  }
  return address;
}

Address Address::from_sockaddr(const sockaddr* address, socklen_t length) {
  Address out;
  out.length_ = std::min<socklen_t>(length, sizeof out.storage_);
  std::memcpy(&out.storage_, address, out.length_);
  return out;
}

bool Address::is_loopback() const {
  switch (family()) {
    case AF_INET: {
      const auto* in = reinterpret_cast<const sockaddr_in*>(&storage_);
      return (ntohl(in->sin_addr.s_addr) >> 24) == 127;
    }
    case AF_INET6: {
      const auto* in6 = reinterpret_cast<const sockaddr_in6*>(&storage_);
      if (IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr)) return in6->sin6_addr.s6_addr[12] == 127;
      return IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr);
    }
    case AF_UNIX:
      return true;
    default:
      return false;
  }
}

std::uint16_t Address::port() const {
  switch (family()) {
    case AF_INET:
      return ntohs(reinterpret_cast<const sockaddr_in*>(&storage_)->sin_port);
    case AF_INET6:
      return ntohs(reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_port);
    default:
      return 0;
  }
}

std::size_t Address::write_host(char* out, std::size_t capacity) const {
  char text[INET6_ADDRSTRLEN] = {};
  switch (family()) {
    case AF_INET:
      ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(&storage_)->sin_addr, text, sizeof text);
      break;
    case AF_INET6: {
      const auto& in6 = reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_addr;
      if (IN6_IS_ADDR_V4MAPPED(&in6)) {
        ::inet_ntop(AF_INET, in6.s6_addr + 12, text, sizeof text);
      } else {
        ::inet_ntop(AF_INET6, &in6, text, sizeof text);
      }
      break;
    }
    default:
      std::memcpy(text, "unix:", 6);
  }
  const std::size_t length = std::min(std::strlen(text), capacity);
  std::memcpy(out, text, length);
  return length;
}

std::string Address::host() const {
  char text[INET6_ADDRSTRLEN];
  return std::string(text, write_host(text, sizeof text));
}

std::string Address::to_string() const {
  switch (family()) {
    case AF_INET:
      return host() + ":" + std::to_string(port());
    case AF_INET6:
      return "[" + host() + "]:" + std::to_string(port());
    case AF_UNIX: {
      const auto* un = reinterpret_cast<const sockaddr_un*>(&storage_);
      return "unix:" + std::string(un->sun_path, ::strnlen(un->sun_path, sizeof un->sun_path));
    }
    default:
      return "none";
  }
}

bool Address::operator==(const Address& other) const {
  return length_ == other.length_ && std::memcmp(&storage_, &other.storage_, length_) == 0;
}

}  // namespace dlb
