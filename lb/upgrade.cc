#include "lb/upgrade.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "common/child_process.h"
#include "common/service_manager.h"
#include "lb/admin_server.h"
#include "lb/autoscale.h"
#include "lb/handover.h"

namespace dlb::lb {
namespace {

// Descriptors: where to say "ready", what is told, and, when there is one, the supervisor's.
constexpr const char* kVariable = "DLB_HANDOVER";
constexpr std::size_t kMostText = 16U << 20;
constexpr int kNotExecuted = 127;  // the exit code of a child that did not become the program

// As it was called, so that a link may lead to another version by now; else the file of this process.
std::string own_program(std::string_view called) {
  if (called.find('/') != std::string_view::npos && ::access(std::string(called).c_str(), X_OK) == 0)
    return std::string(called);
  std::array<char, PATH_MAX> path;
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  return length > 0 ? std::string(path.data(), static_cast<std::size_t>(length)) : std::string();
}

// `name=` and a number, written by hand: between fork and exec nothing may allocate.
void write_number(char* out, long number) {
  char digits[24];
  int count = 0;
  do digits[count++] = static_cast<char>('0' + number % 10);
  while ((number /= 10) > 0);
  while (count > 0) *out++ = digits[--count];
  *out = '\0';
}

bool is_handover_variable(std::string_view variable) {
  for (const std::string_view name : {"LISTEN_PID=", "LISTEN_FDS=", "LISTEN_FDNAMES=", "DLB_HANDOVER="}) {
    if (variable.starts_with(name)) return true;
  }
  return false;
}

}  // namespace

TakenOver TakenOver::from_environment() {
  TakenOver taken;
  const char* value = std::getenv(kVariable);
  if (value == nullptr) return taken;
  const std::string_view text = value;
  std::array<int, 3> given = {-1, -1, -1};
  const char* const end = text.data() + text.size();
  const char* at = text.data();
  for (int& one : given) {
    const auto read = std::from_chars(at, end, one);
    if (read.ec != std::errc() || read.ptr == end) break;
    at = read.ptr + 1;
  }
  const auto [ready, told, supervisor] = given;
  ::unsetenv(kVariable);
  if (ready < kFirstHandedOver || told < kFirstHandedOver) return taken;
  if (supervisor >= kFirstHandedOver) {
    taken.supervisor = Fd(supervisor);
    ::fcntl(supervisor, F_SETFD, FD_CLOEXEC);
  }
  taken.socket = Fd(ready);
  const Fd file(told);
  ::fcntl(ready, F_SETFD, FD_CLOEXEC);
  std::array<char, 4096> block;
  while (taken.backends.size() < kMostText) {
    const ssize_t got = ::read(told, block.data(), block.size());
    if (got <= 0) break;
    taken.backends.append(block.data(), static_cast<std::size_t>(got));
  }
  return taken;
}

Upgrade::Upgrade(EventLoop& loop, TimerHeap& timers, const OptionSources& sources, std::vector<int> more,
                 AdminServer* admin, Autoscale* autoscale, const Predecessor& predecessor,
                 BackendEvents& events, Shared& shared, Lifecycle& lifecycle, ReloadFigures& figures)
    : loop_(loop),
      sources_(sources),
      more_(std::move(more)),
      admin_(admin),
      autoscale_(autoscale),
      predecessor_(predecessor),
      events_(events),
      shared_(shared),
      lifecycle_(lifecycle),
      figures_(figures),
      program_(own_program(sources.argv[0])),
      timer_(timers, *this) {}

Upgrade::~Upgrade() {
  end_child();
  forget();
}

void Upgrade::request() {
  if (child_ != 0) return shared_.log.warn("SIGUSR2: an upgrade is on its way");
  if (lifecycle_.state() != Lifecycle::State::Serving)
    return shared_.log.warn("SIGUSR2: no upgrade while this process starts or stops");
  int pair[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0)
    return failed(errno_error("socketpair", errno).text);
  socket_ = Fd(pair[0]);
  const Fd theirs(pair[1]);
  const Fd text(::memfd_create("dlb-handover", MFD_CLOEXEC));
  if (admin_ != nullptr) admin_->freeze();
  if (autoscale_ != nullptr) autoscale_->freeze();
  const auto configuration = shared_.configuration.current();
  const std::string told = describe_backends(configuration->backends, *configuration->options);
  if (!text || ::write(text.get(), told.data(), told.size()) != static_cast<ssize_t>(told.size()) ||
      ::lseek(text.get(), 0, SEEK_SET) != 0) {
    return failed(errno_error("memfd", errno).text);
  }
  auto added = loop_.add(socket_.get(), *this);
  if (!added) return failed(added.error().text);
  source_ = *added;
  child_ = start(theirs.get(), text.get());
  if (child_ < 0) {
    const int err = errno;
    child_ = 0;
    return failed(errno_error("start " + program_, err).text);
  }
  timer_.arm_at(loop_.now() + kReadyTimeout);
  shared_.log.info("upgrade: the new process is starting", {{"program", program_}, {"pid", child_}});
}

// Descriptors 3, 4, … of the new process: the listening sockets, then where to say "ready", then what is
// told, then the supervisor's.
pid_t Upgrade::start(int their_end, int text_fd) {
  std::vector<int> given;
  for (const Listener& listener : shared_.listeners) given.push_back(listener.fd.get());
  given.insert(given.end(), more_.begin(), more_.end());
  const auto sockets = static_cast<int>(given.size());
  given.push_back(their_end);
  given.push_back(text_fd);
  const int supervisor = autoscale_ != nullptr ? autoscale_->supervisor_fd() : -1;
  if (supervisor >= 0) given.push_back(supervisor);
  // Copied to above their places first, so that none is overwritten before its turn.
  const int above = kFirstHandedOver + static_cast<int>(given.size());
  std::vector<Fd> copies;
  for (const int fd : given) {
    copies.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, above));
    if (!copies.back()) return -1;
  }

  std::string count = "LISTEN_FDS=" + std::to_string(sockets);
  std::string pid = "LISTEN_PID=" + std::string(24, '\0');
  std::string handover = std::string(kVariable) + "=" + std::to_string(kFirstHandedOver + sockets) + "," +
                         std::to_string(kFirstHandedOver + sockets + 1);
  if (supervisor >= 0) handover += "," + std::to_string(kFirstHandedOver + sockets + 2);
  std::vector<char*> environment = {count.data(), pid.data(), handover.data()};
  for (const char* const* variable = sources_.environment; *variable != nullptr; ++variable) {
    if (!is_handover_variable(*variable)) environment.push_back(const_cast<char*>(*variable));
  }
  environment.push_back(nullptr);
  char* const pid_digits = pid.data() + std::strlen("LISTEN_PID=");

  const pid_t child = ::fork();
  if (child != 0) return child;
  write_number(pid_digits, ::getpid());
  for (std::size_t i = 0; i < copies.size(); ++i) {
    if (::dup2(copies[i].get(), kFirstHandedOver + static_cast<int>(i)) < 0) ::_exit(kNotExecuted);
  }
  ::execve(program_.c_str(), const_cast<char* const*>(sources_.argv), environment.data());
  ::_exit(kNotExecuted);
}

void Upgrade::on_events(std::uint32_t) {
  std::array<char, 4096> block;
  while (socket_) {
    const ssize_t got = ::read(socket_.get(), block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) return child_ != 0 ? failed(end_child()) : forget();
    std::string_view words(block.data(), static_cast<std::size_t>(got));
    if (child_ != 0) {
      words.remove_prefix(1);
      succeeded();
    }
    follow(words);
  }
}

void Upgrade::succeeded() {
  const pid_t successor = std::exchange(child_, 0);
  timer_.cancel();
  shared_.log.info("upgrade: the new process accepts, this one drains", {{"pid", successor}});
  notify_service_manager("MAINPID=" + std::to_string(successor));
  if (admin_ != nullptr) admin_->hand_over();
  lifecycle_.hand_over();
}

// What an operator sets in the new process holds for the requests that are left here too, and before.
void Upgrade::follow(std::string_view words) {
  words_.append(words);
  const auto configuration = shared_.configuration.current();
  for (std::size_t end = 0; (end = words_.find('\n')) != std::string::npos; words_.erase(0, end + 1)) {
    std::ignore =
        take_over_setting(configuration->backends, std::string_view(words_).substr(0, end), events_);
    predecessor_.tell(std::string_view(words_).substr(0, end + 1));
  }
}

void Upgrade::on_heap_timer(HeapTimer&) { failed("it was not ready in time"); }

void Upgrade::pass_on(int signal_number) const {
  if (child_ != 0) ::kill(child_, signal_number);
}

bool Upgrade::abandon() {
  if (child_ == 0) return true;
  on_events(0);  // it may have become ready
  if (child_ == 0) return lifecycle_.state() == Lifecycle::State::Serving;
  end_child();
  forget();
  return true;
}

void Upgrade::failed(std::string_view why) {
  ++figures_.failed_upgrades;
  shared_.log.error("upgrade failed, this process goes on", {{"reason", why}});
  end_child();
  forget();
  if (admin_ != nullptr) admin_->thaw();
  if (autoscale_ != nullptr) autoscale_->thaw();
}

std::string Upgrade::end_child() {
  if (child_ == 0) return {};
  const pid_t child = std::exchange(child_, 0);
  ::kill(child, SIGKILL);
  const auto status = wait_for_child(child, kEndTimeout);
  if (!status) {
    shared_.log.error("upgrade: the new process does not end and is left", {{"pid", child}});
    return "it was not ready, and is stuck in the kernel";
  }
  if (WIFSIGNALED(*status))
    return "signal " + std::to_string(WTERMSIG(*status)) + " ended it before it was ready";
  if (WEXITSTATUS(*status) == kNotExecuted) return program_ + " can't be executed";
  return "it ended before it was ready; its log says why";
}

void Upgrade::forget() {
  timer_.cancel();
  if (!socket_) return;
  if (source_) loop_.remove(std::exchange(source_, {}), socket_.get());
  socket_.reset();
  words_.clear();
}

}  // namespace dlb::lb
