// How the backend leaves (spec row B12), as a pure state machine: signals, probes, the number of exchanges
// that run and a time in; what to do now out. It knows no socket, no clock and no log: Drainer (drainer.h)
// acts on its word.
//
//   Serving ──signal──▶ Notice ──over, probers told──▶ Finishing ──nothing runs, or drain-timeout──▶ Stopped
//                         └───────────────────── second signal ───────┴───────────────────────────────▶
//
// Notice: /health and /healthz say 503 draining, the listener stays open, answers carry `Connection: close`.
// Finishing: the listener is closed, nothing new comes in; closing it and the idle connections may bring
// requests to light that had arrived unseen, so the step that enters it never stops. Stopped: what still runs
// is cut, `cut` says how much.
//
// Until a prober has heard "draining" it sends requests here, so the notice waits for those that are expected
// to ask again, and a moment longer for what was sent here before they were told. How long one is expected
// follows its own cadence: whoever looked once or in a burst must not hold a drain up.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "common/clock.h"

namespace dlb::backend {

struct DrainConfig {
  Duration notice = std::chrono::seconds(3);
  Duration timeout = std::chrono::seconds(5);  // in Finishing
};

class DrainState {
 public:
  enum class Phase : std::uint8_t {
    Serving,    // nothing has been asked of us
    Notice,     // telling probers, still taking everything
    Finishing,  // nothing new, waiting for what runs
    Stopped,    // over; terminal
  };

  // What the caller must do because of a call; everything false: go on.
  struct Step {
    bool entered_notice = false;  // start answering "draining" and closing connections behind their answers
    bool entered_finishing = false;  // close the listener and idle connections, then advance() again
    bool entered_stopped = false;    // stop the loop
    std::uint64_t cut = 0;           // with entered_stopped: exchanges that had not ended
  };

  // After its last question a prober is expected for this long: two and a half of its own intervals (the
  // longer of the last two) within these bounds, and kUnknownWindow when it has asked only once.
  static constexpr Duration kProberWindow = std::chrono::seconds(5);
  static constexpr Duration kShortestWindow = std::chrono::milliseconds(200);
  static constexpr Duration kUnknownWindow = std::chrono::seconds(3);
  // Requests that were sent before a prober's word got about are on their way for so long.
  static constexpr Duration kAfterTelling = std::chrono::milliseconds(200);
  static constexpr std::size_t kMaxProbers = 64;  // at the cap the one that asked longest ago is forgotten

  explicit DrainState(const DrainConfig& config) : config_(config) {}

  Phase phase() const { return phase_; }
  bool draining() const { return phase_ != Phase::Serving; }

  // `prober` (a hash of who asked) has asked for health; the answer it gets says draining() at this moment.
  void note_probe(std::uint64_t prober, TimePoint now);

  // SIGTERM or SIGINT. The second one cuts. `running`: exchanges whose answers have not been handed to the
  // kernel.
  Step on_signal(TimePoint now, std::uint64_t running);

  // Call after each change of `running`, after note_probe() and at next_deadline().
  Step advance(TimePoint now, std::uint64_t running);

  // When time alone changes something; kNever when it doesn't.
  TimePoint next_deadline() const;

  // Probers that are still expected at `now` and have not been told.
  std::size_t untold(TimePoint now) const;

 private:
  struct Prober {
    std::uint64_t id = 0;
    TimePoint last{};
    Duration interval{};         // between its last two questions; zero: it has asked once
    Duration interval_before{};  // the one before that
    bool told = false;
    TimePoint told_at{};  // after it had been asking; the epoch: it had not
  };

  static TimePoint expected_until(const Prober& prober);
  TimePoint notice_end() const;
  Step stop(std::uint64_t running);

  DrainConfig config_;
  Phase phase_ = Phase::Serving;
  TimePoint phase_begin_{};
  std::array<Prober, kMaxProbers> probers_{};
  std::size_t prober_count_ = 0;
};

}  // namespace dlb::backend
