#include "common/signals.h"

#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>

#include "common/check.h"

namespace dlb {
namespace {

sigset_t set_of(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : signals) sigaddset(&set, number);
  return set;
}

}  // namespace

void block_signals(std::initializer_list<int> signals) {
  const sigset_t set = set_of(signals);
  DLB_CHECK(::pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0);
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  DLB_CHECK(::sigaction(SIGPIPE, &ignore, nullptr) == 0);
}

SignalSource::SignalSource(EventLoop& loop, std::initializer_list<int> signals, SignalHandler& handler)
    : loop_(loop), handler_(handler) {
  const sigset_t set = set_of(signals);
  fd_ = Fd(::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
  DLB_CHECK(static_cast<bool>(fd_));
  auto added = loop_.add(fd_.get(), *this, EventLoop::kReadOnlyEvents);
  DLB_CHECK(added.has_value());
  source_ = *added;
}

SignalSource::~SignalSource() { loop_.remove(source_, fd_.get()); }

void SignalSource::on_events(std::uint32_t) {
  signalfd_siginfo info{};
  while (::read(fd_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    handler_.on_signal(static_cast<int>(info.ssi_signo));
  }
}

}  // namespace dlb
