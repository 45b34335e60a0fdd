#include "common/child_process.h"

#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "common/fd.h"

namespace dlb {
namespace {

constexpr Duration kLook = std::chrono::milliseconds(5);  // where the kernel can't say when a process ends

}  // namespace

std::optional<int> wait_for_child(pid_t pid, Duration longest) {
  const TimePoint until = monotonic_now() + longest;
  const Fd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  while (true) {
    int status = 0;
    const pid_t ended = ::waitpid(pid, &status, WNOHANG);
    if (ended > 0) return status;
    if (ended < 0 && errno != EINTR) return 0;
    const TimePoint now = monotonic_now();
    if (now >= until) return std::nullopt;
    const Duration left = process ? until - now : std::min(until - now, kLook);
    pollfd wanted{process.get(), POLLIN, 0};
    ::poll(&wanted, 1, static_cast<int>(std::min<std::int64_t>(left.count() / 1'000'000 + 1, 60'000)));
  }
}

}  // namespace dlb
