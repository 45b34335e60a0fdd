#include "backend/drainer.h"

#include <csignal>

#include "common/http_server.h"
#include "common/log.h"

namespace dlb::backend {

Drainer::Drainer(EventLoop& loop, Log& log, HttpServer& server, const DrainConfig& config)
    : loop_(loop), log_(log), server_(server), state_(config) {
  loop_.add_timer_source(*this);
  loop_.add_turn_end_hook(*this);
}

Drainer::~Drainer() {
  loop_.remove_turn_end_hook(*this);
  loop_.remove_timer_source(*this);
}

void Drainer::on_signal(int signal_number) {
  const bool second = state_.draining();
  log_.info(second ? "second signal: cutting what runs" : "draining",
            {{"signal", signal_number == SIGINT ? "SIGINT" : "SIGTERM"},
             {"exchanges", server_.active_exchanges()},
             {"connections", server_.open_connections()}});
  act(state_.on_signal(loop_.now(), server_.active_exchanges()));
}

void Drainer::on_probe(std::uint64_t prober) { state_.note_probe(prober, loop_.now()); }

void Drainer::expire(TimePoint now) {
  if (state_.next_deadline() <= now) act(state_.advance(now, server_.active_exchanges()));
}

// Answers end and probers are told in the course of a turn: its end is where that shows.
void Drainer::on_turn_end() {
  if (state_.draining()) act(state_.advance(loop_.now(), server_.active_exchanges()));
}

void Drainer::act(const DrainState::Step& step) {
  if (step.entered_notice) server_.begin_drain();
  if (step.entered_finishing) {
    server_.close_listener();
    server_.close_idle();
    log_.info("drain notice is over, listener closed", {{"exchanges", server_.active_exchanges()}});
  }
  if (step.entered_stopped) {
    cut_ = step.cut;
    server_.close_listener();
    server_.cut_all();
    loop_.stop();
  }
}

}  // namespace dlb::backend
