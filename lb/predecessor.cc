#include "lb/predecessor.h"

#include <sys/socket.h>

#include <cerrno>

namespace dlb::lb {

bool Predecessor::alive() const {
  if (!socket_) return false;
  char byte = 0;
  const ssize_t got = ::recv(socket_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

void Predecessor::send(std::string_view text) const {
  if (!socket_) return;
  // Far below what the socket's buffer takes, so never in parts.
  [[maybe_unused]] const ssize_t sent =
      ::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace dlb::lb
