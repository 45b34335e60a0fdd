#include "lb/supervisor.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "common/clock.h"
#include "lb/instance_mark.h"
#include "lb/supervisor_protocol.h"

namespace dlb::lb {
namespace {

constexpr int kSocket = 3;
constexpr int kNotExecuted = 127;
constexpr Duration kGrace = std::chrono::seconds(10);  // until the balancer says otherwise
constexpr Duration kSweep = std::chrono::seconds(2);   // for the very last ones, after SIGKILL
// Behind the grace when the balancer is gone. Who has not ended then, SIGKILL or not, is stuck in the kernel.
constexpr Duration kStuck = std::chrono::seconds(30);

// In the child: nothing of the supervisor is left but standard output and error.
[[noreturn]] void become(std::vector<std::string>& words, std::uint16_t port, pid_t supervisor) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != supervisor) ::_exit(kNotExecuted);
  for (int number = 1; number < NSIG; ++number) ::signal(number, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::close_range(kSocket, ~0U, 0);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::string mark = instance_mark(port, ::getpid());
  ::putenv(mark.data());
  ::execvp(arguments.front(), arguments.data());
  std::fprintf(stderr, "lb: autoscale: %s can't be started: %s\n", arguments.front(), std::strerror(errno));
  ::_exit(kNotExecuted);
}

class Supervisor {
 public:
  explicit Supervisor(int signals) : signals_(signals) {}

  int run() {
    while (!ending_ || (!all_ended() && monotonic_now() < give_up_at_)) {
      pollfd wanted[] = {{signals_, POLLIN, 0}, {ending_ ? -1 : kSocket, POLLIN, 0}};
      if (unsent_) wanted[1].events |= POLLOUT;
      ::poll(wanted, 2, timeout());
      drain_signals();
      reap();
      if (!ending_ && wanted[1].revents != 0) read_requests();
      kill_overdue();
      if (!ending_ && (changed_ || unsent_)) tell();
    }
    sweep();
    return 0;
  }

 private:
  struct Child : SupervisedChild {
    bool left = false;           // its first process has been reaped
    bool scattered = false;      // its group is gone, and who has left that has been told to end
    TimePoint kill_at = kNever;  // the group, or what is left of it
  };

  Child* find(std::uint32_t port) {
    const auto found = std::ranges::find(children_, port, &Child::port);
    return found == children_.end() ? nullptr : &*found;
  }

  bool all_ended() const {
    return std::ranges::all_of(children_, [](const Child& one) { return one.state == ChildState::Exited; });
  }

  int timeout() const {
    TimePoint next = kNever;
    for (const Child& one : children_) {
      if (one.state != ChildState::Exited) next = std::min(next, one.kill_at);
    }
    if (next == kNever) return -1;
    const auto ms = (next - monotonic_now()).count() / 1'000'000 + 1;
    return static_cast<int>(std::clamp<std::int64_t>(ms, 0, 60'000));
  }

  void drain_signals() const {
    signalfd_siginfo info;
    while (::read(signals_, &info, sizeof info) > 0) {
    }
  }

  void read_requests() {
    std::vector<char> datagram(kSupervisorDatagram);
    while (!ending_) {
      const ssize_t got = ::recv(kSocket, datagram.data(), datagram.size(), MSG_DONTWAIT);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) return;
      if (got <= 0) return end_all();
      if (const auto request = decode_request({datagram.data(), static_cast<std::size_t>(got)}))
        take(*request);
      changed_ = true;
    }
  }

  void take(const SupervisorRequest& request) {
    using Kind = SupervisorRequest::Kind;
    Child* const child = find(request.number);
    switch (request.kind) {
      case Kind::Start:
        if (child == nullptr) start(request);
        return;
      case Kind::Stop:
        if (child != nullptr) stop(*child, SIGTERM);
        return;
      case Kind::Kill:
        if (child != nullptr) stop(*child, SIGKILL);
        return;
      case Kind::Forget:
        if (child != nullptr && child->state == ChildState::Exited)
          children_.erase(children_.begin() + (child - children_.data()));
        return;
      case Kind::Grace:
        grace_ = std::chrono::milliseconds(request.number);
        return;
      case Kind::List:
        return;
    }
  }

  void start(const SupervisorRequest& request) {
    if (children_.size() >= kSupervisorMostChildren) return;
    Child child;
    child.port = static_cast<std::uint16_t>(request.number);
    std::vector<std::string> words = request.words;
    const pid_t self = ::getpid();
    child.pid = ::fork();
    if (child.pid == 0) become(words, child.port, self);
    if (child.pid < 0) {
      child.state = ChildState::Exited;
      child.status = kNotExecuted << 8;
    } else {
      ::setpgid(child.pid, child.pid);  // here too, so that it is one before anybody signals it
    }
    children_.push_back(child);
  }

  static void stop(Child& child, int number) {
    if (child.state == ChildState::Exited) return;
    child.state = ChildState::Stopping;
    signal_all(child, number);
  }

  // Those that have left the group hear of SIGTERM when the group is gone: its head may want to end them in
  // its own way.
  static void signal_all(const Child& child, int number) {
    ::kill(-child.pid, number);
    if (number == SIGTERM && !group_gone(child)) return;
    for (const int pid : marked_processes(instance_mark(child.port, child.pid))) ::kill(pid, number);
  }

  static bool group_gone(const Child& child) { return ::kill(-child.pid, 0) != 0 && errno == ESRCH; }

  void reap() {
    int status = 0;
    for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      // One that has left may have had the same number before.
      const auto found =
          std::ranges::find_if(children_, [pid](const Child& one) { return one.pid == pid && !one.left; });
      if (found == children_.end()) continue;  // somebody's orphan
      found->left = true;
      found->status = status;
      changed_ = true;
    }
    for (Child& child : children_) {
      if (!child.left || child.state == ChildState::Exited) continue;
      const bool group = !group_gone(child);
      if (!group && marked_processes(instance_mark(child.port, child.pid)).empty()) {
        child.state = ChildState::Exited;
        changed_ = true;
      } else if (child.kill_at == kNever ||
                 (!group && !child.scattered)) {  // it has lost its head, its group
        stop(child, SIGTERM);
        child.kill_at = std::min(child.kill_at, monotonic_now() + grace_);
        child.scattered = !group;
        changed_ = true;
      }
    }
  }

  void kill_overdue() {
    const TimePoint now = monotonic_now();
    for (Child& child : children_) {
      if (child.state == ChildState::Exited || now < child.kill_at) continue;
      signal_all(child, SIGKILL);
      child.kill_at = now + std::chrono::seconds(1);  // and again, for who was just being forked
    }
  }

  void end_all() {
    ending_ = true;
    give_up_at_ = monotonic_now() + grace_ + kStuck;
    for (Child& child : children_) {
      if (child.state == ChildState::Exited) continue;
      stop(child, SIGTERM);
      ::kill(-child.pid, SIGCONT);
      child.kill_at = monotonic_now() + grace_;
    }
  }

  void tell() {
    const std::vector<SupervisedChild> state(children_.begin(), children_.end());
    const std::string text = encode(state);
    changed_ = false;
    unsent_ = ::send(kSocket, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno == EAGAIN;
  }

  // Children that have left their groups: ours by now. Who still runs at the end of the time is told, and
  // left.
  void sweep() const {
    const TimePoint until = monotonic_now() + kSweep;
    while (true) {
      while (::waitpid(-1, nullptr, WNOHANG) > 0) continue;
      const std::vector<pid_t> left = own_children();
      if (left.empty()) return;
      for (const pid_t pid : left) ::kill(pid, SIGKILL);
      const TimePoint now = monotonic_now();
      if (now >= until) {
        for (const pid_t pid : left)
          std::fprintf(stderr, "lb: autoscale: process %d has not ended after SIGKILL and is left\n", pid);
        return;
      }
      pollfd ended{signals_, POLLIN, 0};
      ::poll(&ended, 1, static_cast<int>((until - now).count() / 1'000'000 + 1));
      drain_signals();
    }
  }

  static std::vector<pid_t> own_children() {
    std::ifstream list("/proc/self/task/" + std::to_string(::getpid()) + "/children");
    std::vector<pid_t> pids;
    for (pid_t pid = 0; list >> pid;) pids.push_back(pid);
    return pids;
  }

  const int signals_;
  std::vector<Child> children_;
  Duration grace_ = kGrace;
  bool ending_ = false;
  TimePoint give_up_at_ = kNever;
  bool changed_ = false;
  bool unsent_ = false;
};

bool of_the_balancer_alone(std::string_view variable) {
  for (const std::string_view name : {"LISTEN_PID=", "LISTEN_FDS=", "LISTEN_FDNAMES=", "DLB_HANDOVER=",
                                      "NOTIFY_SOCKET=", "WATCHDOG_PID=", "WATCHDOG_USEC="}) {
    if (variable.starts_with(name)) return true;
  }
  return false;
}

}  // namespace

int supervisor_main() {
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  ::prctl(PR_SET_NAME, "lb-supervisor");
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  sigset_t child;
  ::sigemptyset(&child);
  ::sigaddset(&child, SIGCHLD);
  ::fcntl(kSocket, F_SETFD, FD_CLOEXEC);
  const int signals = ::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
  int type = 0;
  socklen_t length = sizeof type;
  if (signals < 0 || ::getsockopt(kSocket, SOL_SOCKET, SO_TYPE, &type, &length) != 0 ||
      type != SOCK_SEQPACKET) {
    std::fprintf(stderr, "lb: supervise: this is started by the balancer itself\n");
    return 2;
  }
  return Supervisor(signals).run();
}

Result<StartedSupervisor> start_supervisor(const char* const* environment) {
  int pair[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
    return errno_error("socketpair", errno);
  StartedSupervisor started{.socket = Fd(pair[0])};
  const Fd theirs(pair[1]);
  ::fcntl(pair[0], F_SETFL, O_NONBLOCK);
  const Fd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  // Where dup2() to 3 clears close-on-exec: it must be another descriptor.
  const Fd high(::fcntl(theirs.get(), F_DUPFD_CLOEXEC, kSocket + 1));
  if (!null || !high) return errno_error("descriptor", errno);
  std::vector<char*> variables;
  for (const char* const* one = environment; *one != nullptr; ++one) {
    if (!of_the_balancer_alone(*one)) variables.push_back(const_cast<char*>(*one));
  }
  variables.push_back(nullptr);
  char name[] = "lb-supervisor", mode[] = "supervise";
  char* const arguments[] = {name, mode, nullptr};
  started.pid = ::fork();
  if (started.pid < 0) return errno_error("fork", errno);
  if (started.pid > 0) return started;
  ::setpgid(0, 0);
  const bool placed =
      ::dup2(null.get(), 0) == 0 && ::dup2(2, 1) == 1 && ::dup2(high.get(), kSocket) == kSocket;
  ::close_range(kSocket + 1, ~0U, 0);
  if (placed) ::execve("/proc/self/exe", arguments, variables.data());
  ::_exit(kNotExecuted);
}

}  // namespace dlb::lb
