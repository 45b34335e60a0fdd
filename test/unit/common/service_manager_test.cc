#include "common/service_manager.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>

#include "common/socket.h"
#include "test/support/catch.h"

namespace dlb {
namespace {

TEST_CASE("sockets that were handed over to somebody else are left alone") {
  ::setenv("LISTEN_PID", "1", 1);
  ::setenv("LISTEN_FDS", "3", 1);
  CHECK(InheritedSockets::from_environment().close_rest().empty());
  CHECK(std::getenv("LISTEN_PID") == nullptr);
  CHECK(std::getenv("LISTEN_FDS") == nullptr);
  CHECK(InheritedSockets::from_environment().close_rest().empty());
}

TEST_CASE("nonsense in the environment hands nothing over") {
  for (const char* count : {"", "x", "-1", "0", "99999999999999999999"}) {
    ::setenv("LISTEN_PID", std::to_string(::getpid()).c_str(), 1);
    ::setenv("LISTEN_FDS", count, 1);
    CHECK(InheritedSockets::from_environment().close_rest().empty());
  }
}

TEST_CASE("the service manager gets datagrams, at a path or in the abstract name space") {
  notify_service_manager("READY=1");  // nobody is there
  const Fd manager(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const std::string name = "@dlb-test-" + std::to_string(::getpid());
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, name.data(), name.size());
  address.sun_path[0] = '\0';
  REQUIRE(::bind(manager.get(), reinterpret_cast<const sockaddr*>(&address),
                 static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size())) == 0);
  ::setenv("NOTIFY_SOCKET", name.c_str(), 1);
  notify_service_manager("READY=1\nSTATUS=up");
  ::unsetenv("NOTIFY_SOCKET");
  char text[64];
  const ssize_t got = ::recv(manager.get(), text, sizeof text, 0);
  REQUIRE(got > 0);
  CHECK(std::string(text, static_cast<std::size_t>(got)) == "READY=1\nSTATUS=up");
  char line[64];
  CHECK(monotonic_usec_line(line).starts_with("MONOTONIC_USEC="));
}

}  // namespace
}  // namespace dlb
