#include "lb/policy/outlier.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace dlb::lb {
namespace {

using Action = OutlierDecision::Action;

constexpr double kOutOfLine = 3;      // times the peers' median
constexpr double kAtLeastHalf = 0.5;  // a share has to be over it
constexpr double kJitter = 0.1;       // of a cooldown, by which it may be shorter

std::size_t present(std::span<const OutlierPeer> peers) {
  return static_cast<std::size_t>(std::ranges::count(peers, false, &OutlierPeer::gone));
}

}  // namespace

void OutlierDetector::forget(std::uint32_t index) {
  if (index < states_.size()) states_[index] = {};
}

void OutlierDetector::take_over(std::uint32_t index, std::optional<TimePoint> until, std::uint32_t times,
                                TimePoint now) {
  State& one = state(index);
  one = {};
  if (until) one.until = std::min(*until, now + std::max(rules_.base, rules_.longest));
  one.since = now;
  one.times = times;
  one.calm_since = now;
}

std::uint32_t OutlierDetector::bound(double max_percent, std::size_t backends) {
  if (max_percent <= 0) return 0;
  // The small addition keeps 34 % of 50 (in binary a little under 17) at 17.
  const double share = max_percent * static_cast<double>(backends) / 100 + 1e-9;
  return std::max(1U, static_cast<std::uint32_t>(share));
}

OutlierDetector::State& OutlierDetector::state(std::uint32_t index) {
  if (index >= states_.size()) states_.resize(index + std::size_t{1});
  return states_[index];
}

std::optional<TimePoint> OutlierDetector::until(std::uint32_t index) const {
  return index < states_.size() ? states_[index].until : std::nullopt;
}

bool OutlierDetector::ejected(std::uint32_t index, TimePoint now) const {
  return index < states_.size() && states_[index].until.has_value() && *states_[index].until > now;
}

bool OutlierDetector::on_probation(std::uint32_t index, TimePoint now) const {
  return index < states_.size() && states_[index].until.has_value() && *states_[index].until <= now;
}

std::uint32_t OutlierDetector::times(std::uint32_t index) const {
  return index < states_.size() ? states_[index].times : 0;
}

std::uint32_t OutlierDetector::ejected_now(TimePoint now) const {
  return static_cast<std::uint32_t>(std::ranges::count_if(
      states_, [now](const State& one) { return one.until.has_value() && *one.until > now; }));
}

std::optional<TimePoint> OutlierDetector::next_end(TimePoint now) const {
  std::optional<TimePoint> next;
  for (const State& one : states_) {
    if (one.until.has_value() && *one.until > now && (!next || *one.until < *next)) next = one.until;
  }
  return next;
}

bool OutlierDetector::sound(std::uint32_t index, const OutlierPeer& peer) const {
  const bool marked = index < states_.size() && states_[index].until.has_value();
  return peer.in_service && !marked && peer.failures_in_row == 0;
}

bool OutlierDetector::sound_peer(std::uint32_t index, std::span<const OutlierPeer> peers) const {
  for (std::uint32_t i = 0; i < peers.size(); ++i) {
    if (i != index && sound(i, peers[i])) return true;
  }
  return false;
}

// Of those that could serve: neither ejected nor on probation, each in a row of failures that would eject it.
bool OutlierDetector::everybody_fails(std::span<const OutlierPeer> peers) const {
  for (std::uint32_t i = 0; i < peers.size(); ++i) {
    const bool marked = i < states_.size() && states_[i].until.has_value();
    if (peers[i].in_service && !marked && peers[i].failures_in_row < rules_.failures_in_row) return false;
  }
  return true;
}

OutlierDecision OutlierDetector::failed(std::uint32_t index, std::span<const OutlierPeer> peers,
                                        TimePoint now) {
  State& one = state(index);
  if (rules_.max_percent <= 0 || index >= peers.size() || ejected(index, now)) return {};
  const bool probation = one.until.has_value();
  one.successes = 0;
  const std::uint32_t in_row = peers[index].failures_in_row;
  if (!probation && in_row < rules_.failures_in_row) return {};
  if (in_row == (probation ? 1 : rules_.failures_in_row)) one.refusal_told = false;
  if (!peers[index].in_service) return {};  // out already, and for a better reason
  if (sound_peer(index, peers)) {
    return eject(index, probation ? OutlierReason::Probation : OutlierReason::InRow, present(peers), now);
  }
  if (probation) return become_sound(index, now);
  return everybody_fails(peers) ? lift_all(now) : OutlierDecision{};
}

OutlierDecision OutlierDetector::succeeded(std::uint32_t index, TimePoint now) {
  if (!on_probation(index, now)) return {};
  if (++state(index).successes < rules_.successes_back) return {};
  return become_sound(index, now);
}

OutlierDecision OutlierDetector::end_early(std::uint32_t index, TimePoint began, TimePoint now) {
  if (!ejected(index, now) || began < state(index).since) return {};
  state(index).until = now;
  return {.action = Action::EndEarly, .until = now};
}

void OutlierDetector::sample(std::uint32_t index, std::uint64_t answers, std::uint64_t failures) {
  State& one = state(index);
  const Counts before = one.total.value_or(Counts{answers, failures});
  one.total = Counts{answers, failures};
  one.window[one.next] = {answers - std::min(answers, before.answers),
                          failures - std::min(failures, before.failures)};
  one.next = (one.next + 1) % kWindowSamples;
}

// 0 without answers: nothing speaks against a backend that nobody has asked.
double OutlierDetector::share(std::uint32_t index) const {
  if (index >= states_.size()) return 0;
  Counts sum;
  for (const Counts& second : states_[index].window) {
    sum.answers += second.answers;
    sum.failures += second.failures;
  }
  if (sum.answers == 0) return 0;
  return static_cast<double>(std::min(sum.failures, sum.answers)) / static_cast<double>(sum.answers);
}

double OutlierDetector::median_share_of_peers(std::uint32_t index, std::span<const OutlierPeer> peers,
                                              TimePoint now) const {
  std::vector<double> shares;
  for (std::uint32_t i = 0; i < peers.size(); ++i) {
    if (i != index && peers[i].in_service && !ejected(i, now)) shares.push_back(share(i));
  }
  if (shares.empty()) return 1;
  const std::size_t middle = shares.size() / 2;
  std::ranges::sort(shares);
  return shares.size() % 2 == 1 ? shares[middle] : (shares[middle - 1] + shares[middle]) / 2;
}

OutlierDecision OutlierDetector::judge(std::uint32_t index, std::span<const OutlierPeer> peers,
                                       TimePoint now) {
  State& one = state(index);
  if (one.until.has_value()) return {};
  while (one.times > 0 && now - one.calm_since >= rules_.base) {
    --one.times;
    one.calm_since += rules_.base;
  }
  if (rules_.max_percent <= 0 || index >= peers.size() || !peers[index].in_service) return {};
  std::uint64_t answers = 0;
  for (const Counts& second : one.window) answers += second.answers;
  const double failing = share(index);
  if (answers < rules_.min_answers || failing <= kAtLeastHalf) return {};
  if (failing <= kOutOfLine * median_share_of_peers(index, peers, now) || !sound_peer(index, peers))
    return {};
  OutlierDecision decision = eject(index, OutlierReason::Share, present(peers), now);
  decision.share = failing;
  return decision;
}

OutlierDecision OutlierDetector::eject(std::uint32_t index, OutlierReason reason, std::size_t backends,
                                       TimePoint now) {
  State& one = state(index);
  if (ejected_now(now) >= bound(rules_.max_percent, backends)) {
    if (std::exchange(one.refusal_told, true)) return {};
    return {.action = Action::Refused, .reason = reason};
  }
  ++one.times;
  const auto longest = static_cast<double>(std::max(rules_.base, rules_.longest).count());
  const double cooldown =
      std::min(longest, static_cast<double>(rules_.base.count()) * one.times) * (1 - kJitter * rng_.unit());
  one.since = now;
  one.until = now + Duration(static_cast<Duration::rep>(cooldown));
  one.successes = 0;
  one.refusal_told = false;
  one.window.fill({});
  return {.action = Action::Eject, .reason = reason, .times = one.times, .until = *one.until};
}

OutlierDecision OutlierDetector::become_sound(std::uint32_t index, TimePoint now) {
  State& one = state(index);
  one.until.reset();
  one.successes = 0;
  one.calm_since = now;
  one.window.fill({});
  return {.action = Action::Sound};
}

OutlierDecision OutlierDetector::lift_all(TimePoint now) {
  bool any = false;
  for (std::uint32_t i = 0; i < states_.size(); ++i) {
    if (!ejected(i, now)) continue;
    any = true;
    std::ignore = become_sound(i, now);
  }
  return {.action = any ? Action::LiftAll : Action::None};
}

}  // namespace dlb::lb
