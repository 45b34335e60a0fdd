#include "lb/supervisor_link.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <csignal>
#include <tuple>
#include <utility>

#include "common/child_process.h"
#include "lb/supervisor.h"

namespace dlb::lb {
namespace {

constexpr Duration kBurial = std::chrono::seconds(1);  // a killed supervisor ends at once, unless it is stuck

// True when something can be read, or the other end is gone.
bool wait_readable(int fd, TimePoint until) {
  while (true) {
    const TimePoint now = monotonic_now();
    if (now >= until) return false;
    pollfd wanted{fd, POLLIN, 0};
    const auto ms = (until - now).count() / 1'000'000 + 1;
    const int got = ::poll(&wanted, 1, static_cast<int>(ms));
    if (got > 0) return true;
    if (got < 0 && errno != EINTR) return false;
  }
}

}  // namespace

Result<SupervisorLink> SupervisorLink::start(const char* const* environment) {
  auto started = start_supervisor(environment);
  if (!started) return started.error();
  SupervisorLink link;
  link.socket_ = std::move(started->socket);
  link.pid_ = started->pid;
  return link;
}

std::optional<SupervisorLink> SupervisorLink::take_over(Fd socket, Duration longest,
                                                        std::vector<SupervisedChild>& children) {
  SupervisorLink link;
  link.socket_ = std::move(socket);
  if (!link.send({.kind = SupervisorRequest::Kind::List})) return std::nullopt;
  if (!wait_readable(link.fd(), monotonic_now() + longest)) return std::nullopt;
  bool gone = false;
  auto state = link.receive(gone);
  if (!state) return std::nullopt;
  children = std::move(*state);
  return link;
}

bool SupervisorLink::send(const SupervisorRequest& request) const {
  const std::string datagram = encode(request);
  if (!socket_ || datagram.size() > kSupervisorDatagram) return false;
  return ::send(socket_.get(), datagram.data(), datagram.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(datagram.size());
}

std::optional<std::vector<SupervisedChild>> SupervisorLink::receive(bool& gone) const {
  std::optional<std::vector<SupervisedChild>> newest;
  std::vector<char> datagram(kSupervisorDatagram);
  while (true) {
    const ssize_t got = ::recv(socket_.get(), datagram.data(), datagram.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      gone = got == 0 || errno != EAGAIN;
      return newest;
    }
    newest = decode_children({datagram.data(), static_cast<std::size_t>(got)});
  }
}

bool SupervisorLink::end(Duration longest) {
  if (!socket_) return true;
  ::shutdown(socket_.get(), SHUT_WR);
  const TimePoint until = monotonic_now() + longest;
  bool gone = false;
  while (!gone && wait_readable(socket_.get(), until)) std::ignore = receive(gone);
  if (gone) return bury();
  drop();
  return false;
}

void SupervisorLink::drop() {
  socket_.reset();
  pid_ = 0;
}

bool SupervisorLink::bury() {
  socket_.reset();
  const int pid = std::exchange(pid_, 0);
  if (pid == 0) return true;
  ::kill(pid, SIGKILL);  // it may be just about to end
  return wait_for_child(pid, kBurial).has_value();
}

}  // namespace dlb::lb
