// Acceptor: takes connections from a listening socket that several loops may share (EPOLLEXCLUSIVE|EPOLLET).
// Accepts in batches until EAGAIN, at most kBatch a turn so that accepting never starves what runs. When
// descriptors run out (EMFILE, ENFILE, ENOBUFS, ENOMEM) it neither spins nor stalls: it tries again by timer,
// and counts.
#pragma once

#include <cstdint>

#include "common/address.h"
#include "common/event_loop.h"
#include "common/fd.h"
#include "common/timer_list.h"

namespace dlb {

class AcceptHandler {
 public:
  // A new non-blocking, close-on-exec socket. Dropping the Fd refuses the client.
  virtual void on_accept(Fd fd, const Address& peer) = 0;

 protected:
  ~AcceptHandler() = default;
};

class Acceptor final : public EventHandler, public TimerHandler {
 public:
  static constexpr int kBatch = 64;

  // `listener` stays owned by the caller, must be non-blocking and must outlive the acceptor.
  Acceptor(EventLoop& loop, int listener, AcceptHandler& handler);
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;
  ~Acceptor();

  // Leaves the listening socket open for others. on_events() still takes who waits.
  void stop();

  void on_events(std::uint32_t events) override;
  void on_timer(Timer& timer) override;

  std::uint64_t accepted() const { return accepted_; }
  std::uint64_t out_of_descriptors() const { return out_of_descriptors_; }

 private:
  EventLoop& loop_;
  int listener_;
  AcceptHandler& handler_;
  SourceId source_;
  TimerList retry_list_;
  Timer retry_;
  std::uint64_t accepted_ = 0;
  std::uint64_t out_of_descriptors_ = 0;
};

}  // namespace dlb
