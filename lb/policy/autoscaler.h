// Autoscaler: how many instances are to run, and what is to happen to which of them (L25). Pure: facts and
// the time in, actions with their reasons out; processes, ports and backends are lb/autoscale.h's, and those
// of a scenario are the simulator's.
//
//   Start ─▶ Starting ──first good check──▶ Serving ──drain──▶ Draining ──nothing runs on it──▶ Stopping
//               │ start-timeout              │ replace-after   ▲ replaced: for stop-timeout      │
//               └────────── replace ─────────┴─────────────────┘                 killed at stop-timeout
//
//   fact, of the whole                                        │ action
//   ──────────────────────────────────────────────────────────┼──────────────────────────────────────────────
//   all that serve are full, or a request waits, for up-after │ desired grows: by what waits, at most twofold
//   fewer than desired, back-off over, nothing else starting  │ start; never more processes than max
//   more than min, one idle for idle-after, no pressure       │ drain that one, desired falls; one a turn
//   more than max (it was lowered)                            │ drain the least busy
//   draining, and nothing runs on it                          │ stop
//   gone without having been told, or replaced                │ fewer than desired: start
//   never up for start-timeout, or gone before it was up,     │ a failed start: the next waits 1 s, then
//   or within 10 s behind it                                  │ twice that, up to a minute
//
// Never drained: the last healthy one; one that has had a request within idle-after; anyone while one starts.
// An operator's drain counts as one of ours: desired falls, not below min.
//
// Rest: with more instances than the load needs, the last ones are given nothing while others have room
// (eligibility.h), so that they become idle under every policy; all are awake as soon as anyone waits.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/clock.h"

namespace dlb::lb {

struct AutoscaleRules {
  std::uint32_t min = 1;  // at least 1, at most max
  std::uint32_t max = 1;
  Duration up_after = std::chrono::seconds(2);
  Duration idle_after = std::chrono::seconds(60);
  Duration start_timeout = std::chrono::seconds(30);
  Duration replace_after = std::chrono::seconds(10);
  Duration stop_timeout = std::chrono::seconds(10);
};

enum class InstancePhase : std::uint8_t {
  Starting,  // no good check yet
  Serving,   // has been healthy once, whatever its checks say now
  Draining,  // gets nothing new
  Stopping,  // told to end
};
std::string_view phase_name(InstancePhase phase);

// What is known of one process. It is listed from the moment it is asked for until it has ended.
struct InstanceFacts {
  std::uint32_t id = 0;         // no other process' for as long as this one is listed
  bool healthy = false;         // its checks pass
  bool available = false;       // likewise, and neither ejection nor a memory guard keeps requests away
  bool draining = false;        // by us or by an operator
  bool stopping = false;        // it has been told to end
  bool busy = false;            // a request, a feed or a tunnel runs on it
  std::uint32_t in_flight = 0;  // requests that hold a slot
  std::uint32_t capacity = 1;
  std::uint64_t requests = 0;  // ever given to it
};

struct AutoscaleView {
  std::span<const InstanceFacts> instances;  // the eldest first
  std::uint32_t waiting = 0;                 // requests that wait for a slot
  // Backends that are no instances of ours; without any they are full.
  bool others_full = true;
  std::uint32_t others_in_flight = 0, others_capacity = 0;
  bool may_shrink = true;  // false: another process uses the instances too
};

struct AutoscaleAction {
  enum class Kind : std::uint8_t {
    Start,    // one more process
    Drain,    // `id` gets nothing new; not done when it has been given a request since
    Stop,     // `id` is told to end
    Replace,  // `id` is of no use: as Drain, and told to end within stop-timeout whatever runs on it
    Kill,     // `id` has not ended in its time
  } kind = Kind::Start;
  std::uint32_t id = 0;
  std::string reason;
};
std::string_view action_name(AutoscaleAction::Kind kind);

class Autoscaler {
 public:
  explicit Autoscaler(const AutoscaleRules& rules) : rules_(rules) {}

  // From the next turn on.
  void set_rules(const AutoscaleRules& rules) { rules_ = rules; }

  // One turn. The caller carries the actions out before the next, in their order. What came of them shows in
  // the next view: a process that was to be started and isn't there is a start that failed.
  std::vector<AutoscaleAction> turn(const AutoscaleView& view, TimePoint now);

  // As of the last turn.
  std::uint32_t desired() const { return desired_; }
  InstancePhase phase(std::uint32_t id) const;
  bool rests(std::uint32_t id) const;
  bool pressed() const { return pressed_since_ != TimePoint{}; }
  std::uint64_t failed_starts() const { return failed_starts_; }
  // When a start may come next, behind failed ones; in the past: at once.
  TimePoint next_start() const { return next_start_; }

 private:
  struct Memory {
    bool seen = false, been_up = false, draining = false, stopping = false, replaced = false, rests = false;
    TimePoint since{};  // when it came, or came up
    TimePoint idle_since{};
    TimePoint down_since{};  // 0: up
    TimePoint stop_since{};  // when it was replaced, told to end, or killed
    std::uint64_t requests = 0;
  };
  struct Counts {
    std::uint32_t live = 0;      // not leaving
    std::uint32_t starting = 0;  // of them
    std::uint32_t healthy = 0;   // of them
    bool pressed = false;
  };

  void note_failed_start(TimePoint now);
  void observe(const AutoscaleView& view, TimePoint now);
  void observe_one(const InstanceFacts& facts, TimePoint now);
  Counts count(const AutoscaleView& view) const;
  void settle_desired(const Counts& counts);
  void rest(const AutoscaleView& view);
  void finish_leaving(const AutoscaleView& view, TimePoint now);
  void replace(const AutoscaleView& view, TimePoint now);
  void grow(const AutoscaleView& view, const Counts& counts, TimePoint now);
  void start(const AutoscaleView& view, TimePoint now);
  void shrink(const AutoscaleView& view, TimePoint now);
  void drain(const InstanceFacts& facts, std::string reason);
  void act(AutoscaleAction::Kind kind, std::uint32_t id, std::string reason);

  AutoscaleRules rules_;
  std::unordered_map<std::uint32_t, Memory> memory_;
  std::vector<AutoscaleAction> actions_;  // of this turn
  std::string why_more_;                  // of the starts that are still to come
  std::uint32_t desired_ = 0;             // 0: no turn yet
  // Of desired: by pressure, and not reached yet; given up when the pressure is gone.
  std::uint32_t grown_ = 0;
  TimePoint pressed_since_{};
  TimePoint next_start_{};
  std::uint32_t expected_ = 0;  // new ones in the next view
  std::uint32_t failures_in_row_ = 0;
  std::uint64_t failed_starts_ = 0;
};

}  // namespace dlb::lb
