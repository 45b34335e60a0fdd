#include "backend/drainer.h"

#include <csignal>
#include <utility>

#include "common/http_server.h"
#include "common/log.h"
#include "common/ws_server.h"

namespace dlb::backend {

Drainer::Drainer(EventLoop& loop, Log& log, std::vector<HttpServer*> servers, WsServer& sockets,
                 const DrainConfig& config)
    : loop_(loop),
      log_(log),
      servers_(std::move(servers)),
      sockets_(sockets),
      config_(config),
      state_(config) {
  loop_.add_timer_source(*this);
  loop_.add_turn_end_hook(*this);
}

Drainer::~Drainer() {
  loop_.remove_turn_end_hook(*this);
  loop_.remove_timer_source(*this);
}

std::size_t Drainer::exchanges() const {
  std::size_t sum = 0;
  for (const HttpServer* server : servers_) sum += server->active_exchanges();
  return sum;
}

std::size_t Drainer::running() const {
  return exchanges() + sockets_.open_sessions() + sockets_.closing_sessions();
}

void Drainer::on_signal(int signal_number) {
  const bool second = state_.draining();
  log_.info(second ? "second signal: cutting what runs" : "draining",
            {{"signal", signal_number == SIGINT ? "SIGINT" : "SIGTERM"},
             {"exchanges", exchanges()},
             {"sockets", sockets_.open_sessions()}});
  act(state_.on_signal(loop_.now(), running()));
}

void Drainer::on_probe(std::uint64_t prober) { state_.note_probe(prober, loop_.now()); }

void Drainer::expire(TimePoint now) {
  if (state_.next_deadline() <= now) act(state_.advance(now, running()));
}

// Answers end and probers are told in the course of a turn: its end is where that shows.
void Drainer::on_turn_end() {
  if (state_.draining()) act(state_.advance(loop_.now(), running()));
}

void Drainer::act(const DrainState::Step& step) {
  if (step.entered_notice) {
    for (HttpServer* server : servers_) server->begin_drain();
    sockets_.begin_drain(config_.notice);
  }
  if (step.entered_finishing) {
    for (HttpServer* server : servers_) {
      server->accept_waiting();
      server->close_listener();
      server->close_idle();
    }
    log_.info("drain notice is over, listeners closed",
              {{"exchanges", exchanges()}, {"sockets", sockets_.open_sessions()}});
    return act(state_.advance(loop_.now(), running()));
  }
  if (step.entered_stopped) {
    for (HttpServer* server : servers_) {
      server->close_listener();
      cut_ += server->cut_all();
    }
    sockets_cut_ = sockets_.cut_all();
    loop_.stop();
  }
}

}  // namespace dlb::backend
