#include "common/service_manager.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>

#include "common/socket.h"

namespace dlb {
namespace {

// Far more than anybody hands over.
constexpr long kMostSockets = 1024;

long number_of(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) return -1;
  long number = -1;
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, number);
  return error == std::errc() && stop == end ? number : -1;
}

bool listens(int fd) {
  int value = 0;
  socklen_t length = sizeof value;
  return ::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &value, &length) == 0 && value != 0;
}

}  // namespace

InheritedSockets InheritedSockets::from_environment() {
  InheritedSockets inherited;
  const bool ours = number_of("LISTEN_PID") == ::getpid();
  const long count = ours ? std::clamp(number_of("LISTEN_FDS"), 0L, kMostSockets) : 0;
  for (long i = 0; i < count; ++i) {
    const int fd = kFirstHandedOver + static_cast<int>(i);
    if (::fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) continue;  // there is none
    inherited.sockets_.emplace_back(fd);
  }
  for (const char* name : {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"}) ::unsetenv(name);
  return inherited;
}

Fd InheritedSockets::take(const Address& address) {
  const auto found = std::ranges::find_if(
      sockets_, [&](const Fd& fd) { return listens(fd.get()) && local_address(fd.get()) == address; });
  if (found == sockets_.end()) return {};
  Fd taken = std::move(*found);
  sockets_.erase(found);
  const int flags = ::fcntl(taken.get(), F_GETFL);
  if (flags >= 0) ::fcntl(taken.get(), F_SETFL, flags | O_NONBLOCK);
  return taken;
}

std::vector<std::string> InheritedSockets::close_rest() {
  std::vector<std::string> where;
  for (const Fd& fd : std::exchange(sockets_, {})) where.push_back(local_address(fd.get()).to_string());
  return where;
}

void notify_service_manager(std::string_view state) {
  const char* path = std::getenv("NOTIFY_SOCKET");
  sockaddr_un address{};
  if (path == nullptr || (path[0] != '/' && path[0] != '@')) return;
  const std::size_t length = std::strlen(path);
  if (length < 2 || length >= sizeof address.sun_path) return;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path, length);
  if (path[0] == '@') address.sun_path[0] = '\0';  // of the abstract name space
  const Fd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return;
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length);
  [[maybe_unused]] const ssize_t sent = ::sendto(fd.get(), state.data(), state.size(), MSG_NOSIGNAL,
                                                 reinterpret_cast<const sockaddr*>(&address), size);
}

std::string_view monotonic_usec_line(char (&out)[64]) {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const long long usec = static_cast<long long>(now.tv_sec) * 1'000'000 + now.tv_nsec / 1000;
  const int length = std::snprintf(out, sizeof out, "MONOTONIC_USEC=%lld", usec);
  return {out, static_cast<std::size_t>(std::max(length, 0))};
}

}  // namespace dlb
