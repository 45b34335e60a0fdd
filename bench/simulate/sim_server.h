// SimServer: one simulated server: what befalls it when (episodes), and the requests that it works on or that
// wait for it. Pure: times in, answers out; the simulation moves the time and the requests.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "bench/simulate/scenario.h"
#include "common/clock.h"

namespace dlb::bench {

class SimServer {
 public:
  // `zero`: the scenario's time 0, from which episodes count.
  SimServer(const ServerSpec& spec, TimePoint zero) : spec_(spec), zero_(zero) {}

  const ServerSpec& spec() const { return spec_; }

  bool running(TimePoint now) const;   // there is a process that may listen
  bool draining(TimePoint now) const;  // its checks say so
  bool passes(TimePoint now) const;    // its checks do; requires running()
  bool hangs(TimePoint now) const { return in(EpisodeKind::Hang, now) != nullptr; }
  bool drops(TimePoint now) const { return in(EpisodeKind::Drop, now) != nullptr; }
  double share(EpisodeKind kind, TimePoint now) const;  // of requests that meet it
  double slowness(TimePoint now) const;                 // times the service time

  // Autoscaled servers run from start() to stop() only; others always have.
  void start(TimePoint now) { on_ = true, started_ = now; }
  void stop(TimePoint now) { on_ = false, clear(now); }
  bool on() const { return on_; }

  // When the process is killed with what runs on it.
  std::vector<TimePoint> deaths() const;

  // --- requests at work and in line
  bool has_room() const { return spec_.capacity == 0 || active_ < static_cast<std::size_t>(spec_.capacity); }
  bool line_full() const { return waiting_.size() >= static_cast<std::size_t>(spec_.queue); }
  std::size_t active() const { return active_; }
  void begin(TimePoint now) { note_busy(now), ++active_; }
  void end(TimePoint now) { note_busy(now), --active_; }
  void clear(TimePoint now) { note_busy(now), active_ = 0, waiting_.clear(); }
  std::deque<std::uint32_t>& waiting() { return waiting_; }

  // Share of its capacity in use since the last call, in percent; a server of any capacity reports none (-1).
  double take_cpu_percent(TimePoint now);

 private:
  const Episode* in(EpisodeKind kind, TimePoint now) const;
  void note_busy(TimePoint now);

  const ServerSpec& spec_;
  TimePoint zero_;
  bool on_ = true;
  TimePoint started_{};
  std::size_t active_ = 0;
  std::deque<std::uint32_t> waiting_;  // requests, first in, first out
  TimePoint noted_{}, taken_{};
  double busy_ns_ = 0;  // since taken_
};

}  // namespace dlb::bench
