#include "lb/upstream.h"

#include <sys/socket.h>

#include <cerrno>

#include "common/check.h"
#include "lb/exchange.h"
#include "lb/worker.h"

namespace dlb::lb {

Upstream::Upstream(Worker& worker, std::uint32_t backend, TransportClass transport_class, Fd fd,
                   bool connecting, Handle<Upstream> self)
    : worker_(worker),
      transport_(std::move(fd), connecting),
      idle_timer_(*this),
      self_(self),
      backend_(backend),
      transport_class_(transport_class) {
  enter(connecting ? State::Connecting : State::Busy);
}

// The idle ones of both transports are counted by their pool.
void Upstream::enter(State state) {
  WorkerMetrics& metrics = worker_.metrics();
  const bool feed = transport_class_ == TransportClass::Feed;
  const auto count = [&](State of, void (WorkerCount::*change)(std::uint64_t)) {
    if (of == State::Connecting) (metrics.upstream_connecting.*change)(1);
    if (of == State::Busy) (metrics.upstream_busy.*change)(1);
    if (of == State::Busy && feed) (metrics.upstream_feed_busy.*change)(1);
    if (of == State::Idle && feed) (metrics.upstream_feed_idle.*change)(1);
  };
  count(state_, &WorkerCount::sub);
  count(state, &WorkerCount::add);
  state_ = state;
}

Result<void> Upstream::attach() { return transport_.attach(worker_.loop(), *this); }

void Upstream::lend(Exchange& user) {
  user_ = &user;
  ++exchanges_;
  idle_timer_.cancel();
  if (state_ == State::Idle) enter(State::Busy);
}

void Upstream::rest() {
  DLB_CHECK(state_ == State::Busy);
  user_ = nullptr;
  enter(State::Idle);
  idle_since_turn_ = worker_.loop().counters().turns;
  worker_.timers().upstream_idle.arm(idle_timer_);
}

void Upstream::on_events(std::uint32_t events) {
  transport_.note_events(events);
  if (state_ == State::Idle) {
    // An idle connection that speaks, ends or breaks is of no use: whatever it says belongs to no request.
    if ((events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) close();
    return;
  }
  if (user_ != nullptr) user_->on_upstream_events();
}

void Upstream::on_timer(Timer&) {
  worker_.metrics().upstream_idle_timeouts.add();
  close();
}

bool Upstream::peek_clean() const {
  char byte = 0;
  const ssize_t got = ::recv(transport_.fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got < 0 && errno == EAGAIN;
}

Transport Upstream::hand_over() {
  DLB_CHECK(state_ == State::Busy);
  enter(State::Closed);
  user_ = nullptr;
  worker_.upstreams().retire(self_);
  return std::move(transport_);
}

void Upstream::close() {
  if (state_ == State::Closed) return;
  if (state_ == State::Idle) worker_.pool().remove(*this);
  enter(State::Closed);
  user_ = nullptr;
  idle_timer_.cancel();
  transport_.close(worker_.loop());
  worker_.upstreams().retire(self_);
}

}  // namespace dlb::lb
