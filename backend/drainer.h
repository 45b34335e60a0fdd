// Drainer: does what DrainState decides. It receives the signals, hears of health checks, looks at the
// servers at the end of each turn while a drain runs, and stops the loop. WebSocket sessions are told to go
// in the course of the notice; those that don't are cut with the rest. Register it behind the servers' own
// turn-end work: construct it after them. Loop thread.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/drain.h"
#include "backend/http_api.h"
#include "common/event_loop.h"
#include "common/signals.h"

namespace dlb {
class HttpServer;
class Log;
class WsServer;
}  // namespace dlb

namespace dlb::backend {

class Drainer final : public SignalHandler, public ProbeObserver, public TimerSource, public TurnEndHook {
 public:
  Drainer(EventLoop& loop, Log& log, std::vector<HttpServer*> servers, WsServer& sockets,
          const DrainConfig& config);
  Drainer(const Drainer&) = delete;
  Drainer& operator=(const Drainer&) = delete;
  ~Drainer();

  void on_signal(int signal_number) override;
  void on_probe(std::uint64_t prober) override;
  TimePoint next_deadline() const override { return state_.next_deadline(); }
  void expire(TimePoint now) override;
  void on_turn_end() override;

  const DrainState& state() const { return state_; }
  // Exchanges that the end of the drain cut; the answer to "was anyone hurt".
  std::uint64_t cut() const { return cut_; }
  std::uint64_t sockets_cut() const { return sockets_cut_; }  // WebSocket sessions, likewise

 private:
  void act(const DrainState::Step& step);
  std::size_t exchanges() const;
  std::size_t running() const;

  EventLoop& loop_;
  Log& log_;
  std::vector<HttpServer*> servers_;
  WsServer& sockets_;
  DrainConfig config_;
  DrainState state_;
  std::uint64_t cut_ = 0;
  std::uint64_t sockets_cut_ = 0;
};

}  // namespace dlb::backend
