#include "common/pid_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <string_view>
#include <utility>

#include "common/fd.h"

namespace dlb {
namespace {

std::string own_line() { return std::to_string(::getpid()) + "\n"; }

std::string first_bytes(const std::string& path) {
  std::array<char, 32> text{};
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const ssize_t got = file ? ::read(file.get(), text.data(), text.size()) : -1;
  return {text.data(), got > 0 ? static_cast<std::size_t>(got) : 0};
}

}  // namespace

Result<void> PidFile::write() {
  if (path_.empty()) return {};
  const std::string line = own_line();
  const std::string beside = path_ + "." + std::to_string(::getpid());
  const Fd file(::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!file) return errno_error("open " + beside, errno);
  if (::write(file.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()) ||
      ::rename(beside.c_str(), path_.c_str()) != 0) {
    const int err = errno;
    ::unlink(beside.c_str());
    return errno_error("write " + path_, err);
  }
  written_ = true;
  return {};
}

void PidFile::remove() {
  if (std::exchange(written_, false) && first_bytes(path_) == own_line()) ::unlink(path_.c_str());
}

}  // namespace dlb
