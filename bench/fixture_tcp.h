// TcpFixture: the layer-4 side of fixture_server: each connection gets one line, then its own bytes back. A
// half- closed client gets what is still on its way. One loop, one thread; a connection holds what it has not
// been able to echo, at most one block.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <unordered_map>

#include "common/acceptor.h"
#include "common/event_loop.h"
#include "common/fd.h"
#include "common/transport.h"

namespace dlb::bench {

class TcpFixture final : public AcceptHandler, public TurnEndHook {
 public:
  // `greeting` is sent first. The loop must outlive it.
  TcpFixture(EventLoop& loop, Fd listener, std::string greeting);
  TcpFixture(const TcpFixture&) = delete;
  TcpFixture& operator=(const TcpFixture&) = delete;
  ~TcpFixture();

  void on_accept(Fd fd, const Address& peer) override;
  void on_turn_end() override;

 private:
  struct Echo;

  EventLoop& loop_;
  Fd listener_;
  const std::string greeting_;
  std::unordered_map<Echo*, std::unique_ptr<Echo>> echoes_;
  std::vector<Echo*> ended_;  // destroyed at the end of the turn
  Acceptor acceptor_;
};

}  // namespace dlb::bench
