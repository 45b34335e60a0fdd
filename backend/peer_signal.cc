#include "backend/peer_signal.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <utility>

#include "backend/generation.h"

namespace dlb::backend {
namespace {

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

// A socket address holds 107 characters, a data folder's path may have more: it is named through its
// descriptor.
bool make_address(int folder, const char* name, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  const int length =
      std::snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s", folder, name);
  return length > 0 && static_cast<std::size_t>(length) < sizeof address.sun_path;
}

}  // namespace

PeerSignal::PeerSignal(EventLoop& loop, std::string data_dir, std::function<void()> on_signal)
    : loop_(loop), folder_(std::move(data_dir) + "/notify"), on_signal_(std::move(on_signal)) {}

PeerSignal::~PeerSignal() {
  if (!socket_) return;
  loop_.remove(source_, socket_.get());
  ::unlinkat(folder_fd_.get(), name_.c_str(), 0);
}

Result<void> PeerSignal::open() {
  if (socket_) return {};
  if (::mkdir(folder_.c_str(), 0700) != 0) {
    const int err = errno;
    if (err != EEXIST) return errno_error("make folder " + folder_, err);
  }
  folder_fd_ = Fd(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder_fd_) {
    const int err = errno;
    return errno_error("open folder " + folder_, err);
  }
  Fd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) {
    const int err = errno;
    return errno_error("socket", err);
  }
  name_ = new_generation().substr(0, 13) + ".sock";
  sockaddr_un address{};
  if (!make_address(folder_fd_.get(), name_.c_str(), address)) return Error{"socket name too long: " + name_};
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    const int err = errno;
    return errno_error("bind a socket in " + folder_, err);
  }
  auto added = loop_.add(fd.get(), *this, EventLoop::kReadOnlyEvents);
  if (!added) {
    ::unlinkat(folder_fd_.get(), name_.c_str(), 0);
    return added.error();
  }
  source_ = *added;
  socket_ = std::move(fd);
  return {};
}

void PeerSignal::send() {
  if (!socket_) return;
  const int again = ::openat(folder_fd_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (again < 0) return;
  const std::unique_ptr<DIR, CloseFolder> folder(::fdopendir(again));
  if (folder == nullptr) {
    ::close(again);
    return;
  }
  while (const dirent* entry = ::readdir(folder.get())) {
    const std::string_view name = entry->d_name;
    if (!name.ends_with(".sock") || name == name_) continue;
    sockaddr_un address{};
    if (!make_address(folder_fd_.get(), entry->d_name, address)) continue;
    const ssize_t sent = ::sendto(socket_.get(), "", 0, MSG_DONTWAIT | MSG_NOSIGNAL,
                                  reinterpret_cast<const sockaddr*>(&address), sizeof address);
    const int err = errno;
    // A full queue is a reader that has been told already.
    if (sent < 0 && err == ECONNREFUSED) ::unlinkat(folder_fd_.get(), entry->d_name, 0);
  }
}

void PeerSignal::on_events(std::uint32_t) {
  bool any = false;
  char byte = 0;
  while (::recv(socket_.get(), &byte, sizeof byte, MSG_DONTWAIT) >= 0) any = true;
  if (any) on_signal_();
}

}  // namespace dlb::backend
