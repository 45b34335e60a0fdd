// OutlierDetector: which backend is ejected for how its answers look beside its peers' (L12), for how long,
// and how it comes back. Values and a time in; a decision and its reason out. No fd, no clock, no log, no
// lock: the caller (lb/outlier_monitor.h) guards it, publishes what it decides, and counts.
//
//   Sound ──5 failures in a row, or a share of failures out of line──▶ Ejected
//   Ejected ──cooldown over; up again; by option: a check passes──▶ Probation
//   Ejected ──everybody fails: it is not this backend──▶ Sound
//   Probation ──first failure──▶ Ejected
//   Probation ──5 successes; a failure while no peer is sound──▶ Sound
//
// Whoever is to be ejected needs a sound peer: one in service, neither ejected nor on probation, whose last
// outcome was no failure. So the last eligible one stays, and when all fail together nobody goes. The bound,
// max(1, floor(max_percent × n)), is checked before ejecting. The cooldown is base × times, at most
// `longest`, up to a tenth shorter by chance, so that backends ejected together do not return together;
// `times` falls by one with each `base` that a backend is neither ejected nor on probation.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/clock.h"
#include "common/rng.h"

namespace dlb::lb {

struct OutlierRules {
  double max_percent = 34;  // of all backends; 0: nobody is ever ejected
  Duration base = std::chrono::seconds(10);
  Duration longest = std::chrono::seconds(300);
  std::uint32_t failures_in_row = 5;
  std::uint32_t successes_back = 5;  // that end a probation
  std::uint64_t min_answers = 20;    // in the window, before its share of failures says anything
};

// Slots that a backend on probation may have taken; the router's limit, not the detector's.
inline constexpr std::uint32_t kProbationSlots = 3;

// What the caller knows of a backend at this moment. All calls get all backends, by index.
struct OutlierPeer {
  bool in_service = false;  // healthy, not taken out on purpose, below its memory guards
  std::uint32_t failures_in_row = 0;
  bool gone = false;  // its place is empty: it counts for no share of all
};

enum class OutlierReason : std::uint8_t { InRow, Share, Probation };

struct OutlierDecision {
  enum class Action : std::uint8_t {
    None,
    Eject,     // until `until`
    EndEarly,  // an ejection is over before its time: on probation now
    Sound,     // a probation is over
    LiftAll,   // everybody fails: all ejections are over, those that had one are sound
    Refused,   // it would be ejected, but as many are as may be; told once in a row of failures
  };
  Action action = Action::None;
  OutlierReason reason = OutlierReason::InRow;  // with Eject and Refused
  std::uint32_t times = 0;                      // with Eject: how often it counts as ejected
  TimePoint until{};                            // with Eject
  double share = 0;                             // with reason Share: of failures, 0-1
};

class OutlierDetector {
 public:
  static constexpr std::size_t kWindowSamples = 10;  // seconds, one sample() each

  OutlierDetector(const OutlierRules& rules, std::uint64_t seed) : rules_(rules), rng_(seed) {}

  // How many of `backends` may be ejected at a time.
  static std::uint32_t bound(double max_percent, std::size_t backends);

  // Other rules from the next call on. Ejections that run keep their end.
  void set_rules(const OutlierRules& rules) { rules_ = rules; }
  // Nothing is known of `index` any more: another backend is there, or none.
  void forget(std::uint32_t index);

  // What another process has known of `index`, which nothing is known of here: ejected until then, on
  // probation when that is over, sound without it; and how often it counts as ejected.
  void take_over(std::uint32_t index, std::optional<TimePoint> until, std::uint32_t times, TimePoint now);

  // An outcome of `index` that counts: of an exchange begun after its last ejection ended. `failed` may be
  // left out while the backend is sound and peers[index] has fewer than `failures_in_row` failures in a row.
  OutlierDecision failed(std::uint32_t index, std::span<const OutlierPeer> peers, TimePoint now);
  // Likewise; may be left out while it is not on probation.
  OutlierDecision succeeded(std::uint32_t index, TimePoint now);
  // Something has happened since `began` that ends an ejection early, if it had begun by then: a check has
  // passed, or the backend was down and has come up again.
  OutlierDecision end_early(std::uint32_t index, TimePoint began, TimePoint now);

  // Once a second: what a backend has answered, and how much of it failed, since the beginning of time.
  void sample(std::uint32_t index, std::uint64_t answers, std::uint64_t failures);
  // Once a second behind the samples: whether the share of failures stands out, and `times` decays.
  OutlierDecision judge(std::uint32_t index, std::span<const OutlierPeer> peers, TimePoint now);

  // Until when it is ejected, from when on it is on probation; nothing: it is sound.
  std::optional<TimePoint> until(std::uint32_t index) const;
  bool ejected(std::uint32_t index, TimePoint now) const;
  bool on_probation(std::uint32_t index, TimePoint now) const;
  std::uint32_t times(std::uint32_t index) const;
  std::uint32_t ejected_now(TimePoint now) const;
  // When the next ejection ends; nothing while nobody is ejected.
  std::optional<TimePoint> next_end(TimePoint now) const;

 private:
  struct Counts {
    std::uint64_t answers = 0, failures = 0;
  };
  struct State {
    std::optional<TimePoint> until;  // ejected up to here, on probation from here on
    TimePoint since{};               // of the ejection
    std::uint32_t successes = 0;     // on probation
    std::uint32_t times = 0;
    TimePoint calm_since{};  // while times > 0 and it is sound: when the last step of its decay began
    bool refusal_told = false;
    std::optional<Counts> total;  // at the last sample
    std::array<Counts, kWindowSamples> window{};
    std::size_t next = 0;
  };

  State& state(std::uint32_t index);
  bool sound(std::uint32_t index, const OutlierPeer& peer) const;
  bool sound_peer(std::uint32_t index, std::span<const OutlierPeer> peers) const;
  bool everybody_fails(std::span<const OutlierPeer> peers) const;
  double share(std::uint32_t index) const;
  double median_share_of_peers(std::uint32_t index, std::span<const OutlierPeer> peers, TimePoint now) const;
  OutlierDecision eject(std::uint32_t index, OutlierReason reason, std::size_t backends, TimePoint now);
  OutlierDecision become_sound(std::uint32_t index, TimePoint now);
  OutlierDecision lift_all(TimePoint now);

  OutlierRules rules_;
  Rng rng_;
  std::vector<State> states_;  // by index, grown when one is first named
};

}  // namespace dlb::lb
