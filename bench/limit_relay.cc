// limit_relay: the least that a proxy of bytes can cost here, to hold our own cost against: each client
// connection is joined to one connection to the origin, and bytes go both ways without being looked at. One
// thread, plain epoll, edge-triggered, each descriptor registered once.
//
//   limit_relay LISTEN_PORT ORIGIN_PORT[,ORIGIN_PORT…] [--block BYTES] [--splice]
//
// By read and write through one block (16 KiB), or by splice through one pipe for each direction of each
// connection. A measuring tool: it serves loopback only, and ends when it is killed.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace {

struct End {
  int fd = -1;
  End* peer = nullptr;
  bool finished = false;      // has sent its FIN
  std::vector<char> waiting;  // from this end, not taken by the peer yet
  int pipe[2] = {-1, -1};     // splice: likewise
  std::size_t in_pipe = 0;
};

struct Settings {
  std::uint16_t listen_port = 0;
  std::vector<std::uint16_t> origins;
  std::size_t block = 16 * 1024;
  bool splice = false;
};

[[noreturn]] void die(const char* what) {
  std::perror(what);
  std::exit(1);
}

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

void set_no_delay(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

void watch(int epoll, int fd, End* end) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.ptr = end;
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) die("epoll_ctl");
}

// Ends are never freed while the process lives: an event of the same batch may still name them.
void close_pair(End* end) {
  for (End* one : {end, end->peer}) {
    if (one->fd < 0) continue;
    ::close(one->fd);
    one->fd = -1;
    for (int& side : one->pipe) {
      if (side >= 0) ::close(side);
      side = -1;
    }
    std::vector<char>().swap(one->waiting);
  }
}

// One step from `from` to its peer. True: something moved and there may be more.
bool copy_step(End& from, std::vector<char>& block) {
  if (!from.waiting.empty()) {
    const ssize_t sent = ::send(from.peer->fd, from.waiting.data(), from.waiting.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    from.waiting.erase(from.waiting.begin(), from.waiting.begin() + sent);
    if (!from.waiting.empty()) return false;
  }
  const ssize_t got = ::recv(from.fd, block.data(), block.size(), 0);
  if (got <= 0) {
    from.finished = got == 0;
    return false;
  }
  ssize_t sent = ::send(from.peer->fd, block.data(), static_cast<std::size_t>(got), MSG_NOSIGNAL);
  if (sent < 0) sent = 0;
  if (sent < got) {
    from.waiting.assign(block.begin() + sent, block.begin() + got);
    return false;
  }
  return static_cast<std::size_t>(got) == block.size();  // a short read: nothing more is there
}

bool splice_step(End& from, std::size_t most) {
  constexpr unsigned kFlags = SPLICE_F_MOVE | SPLICE_F_NONBLOCK;
  if (from.pipe[0] < 0) {
    if (::pipe2(from.pipe, O_NONBLOCK | O_CLOEXEC) != 0) die("pipe2");
    ::fcntl(from.pipe[1], F_SETPIPE_SZ, 1 << 20);
  }
  bool moved = false;
  if (from.in_pipe == 0) {
    const ssize_t got = ::splice(from.fd, nullptr, from.pipe[1], nullptr, most, kFlags);
    if (got == 0) from.finished = true;
    if (got <= 0) return false;
    from.in_pipe = static_cast<std::size_t>(got);
    moved = true;
  }
  const ssize_t sent = ::splice(from.pipe[0], nullptr, from.peer->fd, nullptr, from.in_pipe, kFlags);
  if (sent <= 0) return false;
  from.in_pipe -= static_cast<std::size_t>(sent);
  return moved;
}

void pump(End* end, const Settings& settings, std::vector<char>& block) {
  for (End* from : {end, end->peer}) {
    // The other direction only when it waits for this end to become writable.
    if (from != end && from->waiting.empty() && from->in_pipe == 0) continue;
    while (from->fd >= 0 && !from->finished &&
           (settings.splice ? splice_step(*from, settings.block) : copy_step(*from, block)))
      continue;
    if (from->finished && from->waiting.empty() && from->in_pipe == 0) return close_pair(end);
  }
}

void accept_all(int listener, int epoll, const Settings& settings, std::vector<std::unique_ptr<End>>& ends) {
  static std::size_t next = 0;
  for (;;) {
    const int client = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (client < 0) return;
    const int origin = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in address = loopback(settings.origins[next++ % settings.origins.size()]);
    if (origin < 0 || ::connect(origin, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      ::close(client);
      if (origin >= 0) ::close(origin);
      continue;
    }
    ::fcntl(origin, F_SETFL, O_NONBLOCK);
    set_no_delay(client);
    set_no_delay(origin);
    ends.push_back(std::make_unique<End>());
    End* downstream = ends.back().get();
    ends.push_back(std::make_unique<End>());
    End* upstream = ends.back().get();
    downstream->fd = client;
    upstream->fd = origin;
    downstream->peer = upstream;
    upstream->peer = downstream;
    watch(epoll, client, downstream);
    watch(epoll, origin, upstream);
  }
}

Settings read_arguments(int argc, char** argv) {
  Settings settings;
  if (argc < 3) {
    std::fprintf(stderr,
                 "usage: limit_relay LISTEN_PORT ORIGIN_PORT[,ORIGIN_PORT…] [--block BYTES] [--splice]\n");
    std::exit(2);
  }
  settings.listen_port = static_cast<std::uint16_t>(std::atoi(argv[1]));
  for (char* port = std::strtok(argv[2], ","); port != nullptr; port = std::strtok(nullptr, ",")) {
    settings.origins.push_back(static_cast<std::uint16_t>(std::atoi(port)));
  }
  for (int i = 3; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--splice") settings.splice = true;
    if (word == "--block" && i + 1 < argc) settings.block = static_cast<std::size_t>(std::atol(argv[++i]));
  }
  return settings;
}

}  // namespace

int main(int argc, char** argv) {
  const Settings settings = read_arguments(argc, argv);
  ::signal(SIGPIPE, SIG_IGN);  // splice has no MSG_NOSIGNAL
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const int on = 1;
  ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const sockaddr_in address = loopback(settings.listen_port);
  if (::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) die("bind");
  if (::listen(listener, 4096) != 0) die("listen");
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  watch(epoll, listener, nullptr);
  std::vector<std::unique_ptr<End>> ends;
  std::vector<char> block(settings.block);
  std::vector<epoll_event> events(256);
  for (;;) {
    const int count = ::epoll_wait(epoll, events.data(), static_cast<int>(events.size()), -1);
    for (int i = 0; i < count; ++i) {
      auto* end = static_cast<End*>(events[static_cast<std::size_t>(i)].data.ptr);
      if (end == nullptr) {
        accept_all(listener, epoll, settings, ends);
      } else if (end->fd >= 0) {
        pump(end, settings, block);
      }
    }
  }
}
