#include "common/socket.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <string>

namespace dlb {
namespace {

constexpr int kLargestSegment = 32767;  // of TCP_MAXSEG

// Best effort by design: these options tune, they don't decide.
void set_option(int fd, int level, int name, int value) {
  [[maybe_unused]] const int code = ::setsockopt(fd, level, name, &value, sizeof value);
}

int clamp_to_int(std::size_t bytes) { return bytes > INT_MAX ? INT_MAX : static_cast<int>(bytes); }

// A Unix socket that a dead process left behind may be bound over; one that still answers may not.
bool remove_stale_unix_socket(const Address& address) {
  const Fd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!probe || ::connect(probe.get(), address.data(), address.size()) == 0 || errno != ECONNREFUSED)
    return false;
  return ::unlink(reinterpret_cast<const sockaddr_un*>(address.data())->sun_path) == 0;
}

}  // namespace

void set_no_delay(int fd) { set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1); }

void set_not_sent_low_watermark(int fd, std::size_t bytes) {
  if (bytes > 0) set_option(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, clamp_to_int(bytes));
}

void set_socket_buffers(int fd, SocketBuffers buffers) {
  if (buffers.read_bytes > 0) set_option(fd, SOL_SOCKET, SO_RCVBUF, clamp_to_int(buffers.read_bytes));
  if (buffers.write_bytes == 0) return;
  set_option(fd, SOL_SOCKET, SO_SNDBUF, clamp_to_int(buffers.write_bytes));
  // The buffer must hold several segments: a receiver that has got only one delays its acknowledgement by 40
  // ms. Loopback segments are 64 KiB, so that a 32 KiB buffer sent 8 MB in 5.2 s, and in 0.01 s with smaller
  // ones. Takes effect before listen or connect; segments on Ethernet are smaller anyway.
  const std::size_t segment = buffers.write_bytes / 2;
  set_option(fd, IPPROTO_TCP, TCP_MAXSEG,
             segment > kLargestSegment ? kLargestSegment : static_cast<int>(segment));
}

void set_urgent_inline(int fd) { set_option(fd, SOL_SOCKET, SO_OOBINLINE, 1); }

void set_reset_on_close(int fd) {
  const linger reset{1, 0};
  [[maybe_unused]] const int code = ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
}

Result<Fd> listen_on(const Address& address, int backlog, SocketBuffers buffers) {
  const std::string what = "listen " + address.to_string();
  Fd fd(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return errno_error(what, errno);
  set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (!address.is_unix()) set_no_delay(fd.get());
  set_socket_buffers(fd.get(), buffers);
  if (::bind(fd.get(), address.data(), address.size()) != 0) {
    const int err = errno;
    const bool again = err == EADDRINUSE && address.is_unix() && remove_stale_unix_socket(address) &&
                       ::bind(fd.get(), address.data(), address.size()) == 0;
    if (!again) return errno_error(what, err);
  }
  if (::listen(fd.get(), backlog) != 0) return errno_error(what, errno);
  return fd;
}

Result<Fd> connect_start(const Address& address, bool* in_progress, SocketBuffers buffers,
                         const Address* source) {
  *in_progress = false;
  Fd fd(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return errno_error("socket", errno);
  if (!address.is_unix()) set_no_delay(fd.get());
  set_socket_buffers(fd.get(), buffers);
  if (source != nullptr) {
    if (!source->is_unix()) set_option(fd.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
    if (::bind(fd.get(), source->data(), source->size()) != 0) {
      const int err = errno;
      return errno_error("bind " + source->host(), err);
    }
  }
  if (::connect(fd.get(), address.data(), address.size()) == 0) return fd;
  const int err = errno;
  if (err == EINPROGRESS) {
    *in_progress = true;
    return fd;
  }
  return errno_error("connect " + address.to_string(), err);
}

bool is_descriptor_shortage(int err) {
  return err == EMFILE || err == ENFILE || err == ENOBUFS || err == ENOMEM;
}

std::size_t unacknowledged_bytes(int fd) {
  int queued = 0;
  if (::ioctl(fd, SIOCOUTQ, &queued) != 0 || queued < 0) return 0;
  return static_cast<std::size_t>(queued);
}

int take_socket_error(int fd) {
  int err = 0;
  socklen_t length = sizeof err;
  if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &length) != 0) return errno;
  return err;
}

Address local_address(int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &length) != 0) return {};
  return Address::from_sockaddr(reinterpret_cast<const sockaddr*>(&storage), length);
}

Address peer_address(int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&storage), &length) != 0) return {};
  return Address::from_sockaddr(reinterpret_cast<const sockaddr*>(&storage), length);
}

}  // namespace dlb
