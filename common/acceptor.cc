#include "common/acceptor.h"

#include <sys/socket.h>

#include <cerrno>

#include "common/check.h"

namespace dlb {
namespace {

constexpr Duration kRetryAfterExhaustion = std::chrono::milliseconds(50);

}  // namespace

Acceptor::Acceptor(EventLoop& loop, int listener, AcceptHandler& handler)
    : loop_(loop),
      listener_(listener),
      handler_(handler),
      retry_list_(loop, kRetryAfterExhaustion),
      retry_(*this) {
  auto added = loop_.add(listener_, *this, EventLoop::kListenerEvents);
  DLB_CHECK_MSG(added.has_value(), "the listening socket can't be watched");
  source_ = *added;
  loop_.make_runnable(source_);  // connections that waited before the registration bring no edge
}

Acceptor::~Acceptor() { stop(); }

void Acceptor::stop() {
  retry_.cancel();
  loop_.remove(source_, listener_, /*closing=*/false);
  source_ = {};
}

void Acceptor::on_timer(Timer&) { on_events(0); }

void Acceptor::on_events(std::uint32_t) {
  const bool watched = static_cast<bool>(source_);
  for (int i = 0; i < kBatch; ++i) {
    sockaddr_storage storage{};
    socklen_t length = sizeof storage;
    const int fd =
        ::accept4(listener_, reinterpret_cast<sockaddr*>(&storage), &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      ++accepted_;
      handler_.on_accept(Fd(fd), Address::from_sockaddr(reinterpret_cast<const sockaddr*>(&storage), length));
      if (watched && !source_) return;  // the handler stopped us
      continue;
    }
    switch (errno) {
      case EAGAIN:
        return;
      case EMFILE:
      case ENFILE:
      case ENOBUFS:
      case ENOMEM:
        ++out_of_descriptors_;
        retry_list_.arm(retry_);
        return;
      default:  // ECONNABORTED, EINTR and errors of that one connection: on to the next
        continue;
    }
  }
  loop_.make_runnable(source_);
}

}  // namespace dlb
