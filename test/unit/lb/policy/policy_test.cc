#include "lb/policy/policy.h"

#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include "common/rng.h"
#include "lb/policy/weighted_turn.h"
#include "test/support/catch.h"

namespace dlb::lb {
namespace {

BackendView sound(std::uint32_t in_flight = 0, std::uint64_t last_pick = 0, std::uint32_t weight = 1) {
  BackendView view;
  view.healthy = true;
  view.accepting = true;
  view.in_flight = in_flight;
  view.last_pick = last_pick;
  view.weight = weight;
  return view;
}

constexpr PolicyRules rules_of(PolicyKind kind) { return {kind, 75, true}; }

// Picks n times as the router does, without ever giving anything back unless `release`.
std::vector<std::uint32_t> pick_in_turn(std::vector<BackendView>& views, const PolicyRules& rules, int n,
                                        bool release) {
  std::vector<std::uint32_t> out;
  for (int i = 0; i < n; ++i) {
    const Decision decision = choose(views, rules);
    REQUIRE((decision.reason == PickReason::Picked || decision.reason == PickReason::Fallback));
    std::uint64_t newest = 0;
    for (const BackendView& view : views) newest = std::max(newest, view.last_pick);
    views[decision.index].last_pick = newest + 1;
    if (!release) ++views[decision.index].in_flight;
    out.push_back(decision.index);
  }
  return out;
}

TEST_CASE("policy names are the configuration's and back") {
  for (const PolicyKind kind : kPolicyKinds) CHECK(policy_from_name(policy_name(kind)) == kind);
  CHECK_FALSE(policy_from_name("scores"));
}

TEST_CASE("fewest outstanding requests win under score and least_conn") {
  const std::vector<BackendView> views = {sound(5), sound(2), sound(9)};
  for (const PolicyKind kind : {PolicyKind::Score, PolicyKind::LeastConn}) {
    const Decision decision = choose(views, rules_of(kind));
    CHECK(decision.reason == PickReason::Picked);
    CHECK(decision.index == 1);
  }
}

TEST_CASE("outstanding requests count per unit of weight, exactly") {
  // 10/3 = 3.33 against 3/1 and 7/2 = 3.5.
  const std::vector<BackendView> views = {sound(10, 0, 3), sound(3, 0, 1), sound(7, 0, 2)};
  CHECK(choose(views, rules_of(PolicyKind::Score)).index == 1);

  std::vector<BackendView> filling = {sound(0, 0, 1), sound(0, 0, 3)};
  const auto picks = pick_in_turn(filling, rules_of(PolicyKind::LeastConn), 400, false);
  CHECK(std::count(picks.begin(), picks.end(), 0U) == 100);

  // Products that overflow 32 bits.
  const std::vector<BackendView> large = {sound(4'000'000'000U, 0, 60'000), sound(4'000'000'000U, 0, 65'535)};
  CHECK(choose(large, rules_of(PolicyKind::Score)).index == 1);
}

TEST_CASE("exact ties rotate under every policy that neither draws nor keeps an order") {
  for (const PolicyKind kind : kPolicyKinds) {
    if (kind == PolicyKind::First || kind == PolicyKind::RandomTwo) continue;
    if (kind == PolicyKind::WeightedRoundRobin) continue;  // its turns are the router's: router_test.cc
    std::vector<BackendView> views = {sound(), sound(), sound()};
    const auto picks = pick_in_turn(views, rules_of(kind), 9, true);
    CHECK(picks == std::vector<std::uint32_t>{0, 1, 2, 0, 1, 2, 0, 1, 2});
  }
}

TEST_CASE("round robin stays even among the rest while one is skipped") {
  std::vector<BackendView> views = {sound(), sound(), sound(), sound()};
  pick_in_turn(views, rules_of(PolicyKind::RoundRobin), 6, true);
  views[1].healthy = false;
  const auto picks = pick_in_turn(views, rules_of(PolicyKind::RoundRobin), 300, true);
  for (const std::uint32_t i : {0U, 2U, 3U}) CHECK(std::count(picks.begin(), picks.end(), i) == 100);

  views[1].healthy = true;
  const auto after = pick_in_turn(views, rules_of(PolicyKind::RoundRobin), 400, true);
  for (const std::uint32_t i : {0U, 1U, 2U, 3U}) CHECK(std::count(after.begin(), after.end(), i) == 100);
}

TEST_CASE("round robin looks at neither load nor weight, but weight 0 gets nothing") {
  std::vector<BackendView> views = {sound(50, 0, 1), sound(0, 0, 7), sound(0, 0, 0)};
  const auto picks = pick_in_turn(views, rules_of(PolicyKind::RoundRobin), 100, true);
  CHECK(std::count(picks.begin(), picks.end(), 0U) == 50);
  CHECK(std::count(picks.begin(), picks.end(), 2U) == 0);
}

TEST_CASE("only the score policy looks at the threshold") {
  std::vector<BackendView> views = {sound(1), sound(8)};
  views[0].score = 80;
  CHECK(choose(views, rules_of(PolicyKind::Score)).index == 1);
  CHECK(choose(views, rules_of(PolicyKind::LeastConn)).index == 0);
}

TEST_CASE("none under the threshold: the least loaded that passes every other filter, as fallback") {
  std::vector<BackendView> views = {sound(9), sound(4), sound(6), sound(1)};
  for (BackendView& view : views) view.score = 90;
  views[3].memory_blocked = true;
  const Decision decision = choose(views, rules_of(PolicyKind::Score));
  CHECK(decision.reason == PickReason::Fallback);
  CHECK(decision.index == 1);

  views[1].slot_free = false;
  CHECK(choose(views, rules_of(PolicyKind::Score)).index == 2);
}

TEST_CASE("the reason says what is missing") {
  for (const PolicyKind kind : kPolicyKinds) {
    std::vector<BackendView> views = {sound(), sound(), sound()};
    views[0].slot_free = false;
    views[1].connection_free = false;
    views[2].memory_blocked = true;
    CHECK(choose(views, rules_of(kind)).reason == PickReason::Full);

    views[0].memory_blocked = true;
    views[1].healthy = false;
    CHECK(choose(views, rules_of(kind)).reason == PickReason::NoMemory);

    views[0].draining = true;
    views[2].weight = 0;
    views[1].accepting = false;
    CHECK(choose(views, rules_of(kind)).reason == PickReason::NoHealthy);
  }
  CHECK(choose({}, rules_of(PolicyKind::Score)).reason == PickReason::NoHealthy);
}

TEST_CASE("a backend that was tried is taken only when no other is usable") {
  std::vector<BackendView> views = {sound(0), sound(50), sound(60)};
  views[0].excluded = true;
  CHECK(choose(views, rules_of(PolicyKind::Score)).index == 1);

  views[1].healthy = false;
  views[2].slot_free = false;  // worth waiting for
  CHECK(choose(views, rules_of(PolicyKind::Score)).reason == PickReason::Full);

  views[2].memory_blocked = true;
  const Decision decision = choose(views, rules_of(PolicyKind::Score));
  CHECK(decision.reason == PickReason::Picked);
  CHECK(decision.index == 0);
}

TEST_CASE("panic: all fail their checks, those that accept connections are used and it shows") {
  std::vector<BackendView> views = {sound(3), sound(1), sound(0)};
  for (BackendView& view : views) view.healthy = false;
  views[2].accepting = false;
  Decision decision = choose(views, rules_of(PolicyKind::Score));
  CHECK(decision.reason == PickReason::Picked);
  CHECK(decision.index == 1);
  CHECK(decision.panic);

  views[1].draining = true;  // taken out on purpose: panic doesn't override that
  decision = choose(views, rules_of(PolicyKind::Score));
  CHECK(decision.index == 0);

  views[0].slot_free = false;
  CHECK(choose(views, rules_of(PolicyKind::Score)).reason == PickReason::Full);
  views[0].memory_blocked = true;
  CHECK(choose(views, rules_of(PolicyKind::Score)).reason == PickReason::NoMemory);

  PolicyRules off = rules_of(PolicyKind::Score);
  off.panic_fallback = false;
  CHECK(choose(views, off).reason == PickReason::NoHealthy);
}

TEST_CASE("no panic while one backend is healthy, even if it can't be used") {
  std::vector<BackendView> views = {sound(), sound()};
  views[0].healthy = false;
  views[1].memory_blocked = true;
  Decision decision = choose(views, rules_of(PolicyKind::Score));
  CHECK(decision.reason == PickReason::NoMemory);
  CHECK_FALSE(decision.panic);
}

TEST_CASE("ejection is overlooked when nothing else is left, but not what was done on purpose") {
  std::vector<BackendView> views = {sound(), sound(), sound()};
  views[0].ejected = true;
  views[1].healthy = false;
  views[2].draining = true;
  for (const bool panic_fallback : {true, false}) {
    PolicyRules rules = rules_of(PolicyKind::LeastConn);
    rules.panic_fallback = panic_fallback;
    const Decision decision = choose(views, rules);
    CHECK(decision.reason == PickReason::Picked);
    CHECK(decision.index == 0);
    CHECK(decision.panic);
  }
  // Rather than those that are short of memory, or down and still accepting.
  views[1].healthy = true;
  views[1].memory_blocked = true;
  CHECK(choose(views, rules_of(PolicyKind::Score)).index == 0);
  views[1].healthy = false;
  views[1].accepting = true;
  CHECK(choose(views, rules_of(PolicyKind::Score)).index == 0);
  views[0].draining = true;
  CHECK(choose(views, rules_of(PolicyKind::Score)).index == 1);

  views = {sound(), sound()};
  views[0].ejected = true;
  views[1].slot_free = false;  // worth waiting for
  CHECK(choose(views, rules_of(PolicyKind::Score)).reason == PickReason::Full);
  views[1].slot_free = true;
  views[1].excluded = true;  // has failed this request, and is better than one that fails them all
  CHECK(choose(views, rules_of(PolicyKind::Score)).index == 1);
}

TEST_CASE("weighted turns are spread, not given in a row") {
  std::vector<std::uint32_t> weights = {5, 1, 1};
  std::vector<std::uint64_t> turns(3);
  std::uint64_t newest = 0;
  std::vector<std::uint32_t> picks;
  for (int i = 0; i < 14; ++i) {
    std::vector<BackendView> views;
    for (std::size_t b = 0; b < 3; ++b) {
      views.push_back(sound(0, 0, weights[b]));
      views.back().turn = current_turn(turns[b], weights[b], newest);
    }
    const std::uint32_t index = choose(views, rules_of(PolicyKind::WeightedRoundRobin)).index;
    newest = std::max(newest, views[index].turn);
    turns[index] = views[index].turn + stride_of(weights[index]);
    picks.push_back(index);
  }
  CHECK(std::count(picks.begin(), picks.end(), 0U) == 10);
  CHECK(std::count(picks.begin(), picks.begin() + 7, 0U) == 5);
  CHECK(std::find(picks.begin(), picks.begin() + 4, 1U) != picks.begin() + 4);  // not behind all five

  // Away for a thousand turns: the next is its own, not the next thousand.
  CHECK(current_turn(0, 1, 1000 * kTurn) == 999 * kTurn);
}

TEST_CASE("random_two takes the less loaded of its two, and every pair gets drawn") {
  const std::vector<BackendView> views = {sound(1), sound(5), sound(9)};
  PolicyRules rules = rules_of(PolicyKind::RandomTwo);
  Rng rng(1);
  std::array<int, 3> picks{};
  for (int i = 0; i < 3000; ++i) {
    rules.draw = rng.next();
    ++picks[choose(views, rules).index];
  }
  CHECK(picks[2] == 0);  // never: whoever is drawn beside it is less loaded
  CHECK(std::abs(picks[0] - 2000) < 150);
}

TEST_CASE("peak_ewma and adaptive weigh latency by load") {
  std::vector<BackendView> views = {sound(3), sound(0), sound(1)};
  views[0].peak_us = 1000;  // 1000 · 4
  views[1].peak_us = 9000;  // 9000 · 1
  views[2].peak_us = 2500;  // 2500 · 2
  for (const PolicyKind kind : {PolicyKind::PeakEwma, PolicyKind::Adaptive}) {
    CHECK(choose(views, rules_of(kind)).index == 0);
  }
  views[0].share = 0.1;  // it has just come back
  CHECK(choose(views, rules_of(PolicyKind::PeakEwma)).index == 0);
  CHECK(choose(views, rules_of(PolicyKind::Adaptive)).index == 2);

  // Quicker than usual is no reason: load decides then.
  PolicyRules rules = rules_of(PolicyKind::Adaptive);
  rules.normal_us = 10'000;
  CHECK(choose(views, rules).index == 1);

  views[1].vetoed = true;
  CHECK(choose(views, rules).index == 2);
  for (BackendView& view : views) view.vetoed = true;
  CHECK(choose(views, rules).reason == PickReason::Fallback);
}

TEST_CASE("prequal takes the quickest of those that are not the fullest") {
  std::vector<BackendView> views = {sound(4), sound(2), sound(3)};
  views[0].latency_us = 100;  // the quickest, and the fullest
  views[1].latency_us = 900;
  views[2].latency_us = 500;
  CHECK(choose(views, rules_of(PolicyKind::Prequal)).index == 2);
  for (BackendView& view : views) view.in_flight = 4;  // all are as full: the oldest pick
  views[1].last_pick = 1;
  views[0].last_pick = 2;
  CHECK(choose(views, rules_of(PolicyKind::Prequal)).index == 2);
  for (BackendView& view : views) view.in_flight = 0;  // idle ones are never hot
  CHECK(choose(views, rules_of(PolicyKind::Prequal)).index == 0);
}

// The invariant of every policy, whatever the state: what it picks passes the filters, it says Full,
// NoMemory, NoHealthy only when that is so, and it misses no eligible backend.
TEST_CASE("random states: never an ineligible pick, never a missed one") {
  const std::uint64_t seed = 20260910;
  CAPTURE(seed);
  Rng rng(seed);
  const auto chance = [&](double p) { return rng.unit() < p; };
  for (int round = 0; round < 20'000; ++round) {
    std::vector<BackendView> views(rng.below(7));
    for (BackendView& view : views) {
      view.draining = chance(0.2);
      view.healthy = chance(0.6);
      view.accepting = chance(0.5);
      view.ejected = chance(0.15);
      view.memory_blocked = chance(0.2);
      view.slot_free = chance(0.7);
      view.connection_free = chance(0.8);
      view.excluded = chance(0.15);
      view.weight = static_cast<std::uint32_t>(rng.below(4));
      view.in_flight = static_cast<std::uint32_t>(rng.below(5));
      view.last_pick = rng.below(50);
      view.score = static_cast<double>(rng.below(100));
      view.order = static_cast<std::uint32_t>(rng.below(50));
      view.turn = rng.below(4) * kTurn;
      view.latency_us = static_cast<double>(rng.below(3)) * 1000;
      view.peak_us = static_cast<double>(rng.below(3)) * 1000;
      view.share = chance(0.5) ? 1 : 0.1;
    }
    PolicyRules rules{kPolicyKinds[rng.below(std::size(kPolicyKinds))], 75, chance(0.5)};
    rules.normal_us = 1000;
    rules.draw = rng.next();
    const double threshold = rules.kind == PolicyKind::Score ? 75 : kNoThreshold;
    const Decision decision = choose(views, rules);
    CAPTURE(round, static_cast<int>(decision.reason), decision.index);

    const auto any = [&](auto&& wanted) { return std::any_of(views.begin(), views.end(), wanted); };
    const bool healthy_one =
        any([](const BackendView& v) { return !v.draining && v.weight > 0 && v.healthy; });
    const auto usable = [&](const BackendView& v) {
      return !v.draining && v.weight > 0 && !v.memory_blocked &&
             (decision.panic ? v.healthy || (!healthy_one && v.accepting) : v.healthy && !v.ejected);
    };
    const auto takeable = [&](const BackendView& v) { return usable(v) && v.slot_free && v.connection_free; };
    const auto in_favour = [](const BackendView& v) {  // overlooking ejection
      return !v.draining && v.weight > 0 && v.healthy && !v.memory_blocked;
    };
    if (decision.panic) {
      REQUIRE((healthy_one || rules.panic_fallback));
      REQUIRE_FALSE(any([&](const BackendView& v) { return in_favour(v) && !v.ejected; }));
    }

    if (decision.reason == PickReason::Picked || decision.reason == PickReason::Fallback) {
      const BackendView& chosen = views[decision.index];
      REQUIRE(takeable(chosen));
      const bool under = chosen.score < threshold;
      REQUIRE(under == (decision.reason == PickReason::Picked));
      if (chosen.excluded) {
        REQUIRE_FALSE(any([&](const BackendView& v) { return !v.excluded && usable(v); }));
      }
      for (const BackendView& other : views) {
        if (other.excluded != chosen.excluded || !takeable(other)) continue;
        const bool other_under = other.score < threshold;
        if (!under) REQUIRE_FALSE(other_under);
        if (other_under != under) continue;
        if (rules.kind == PolicyKind::RoundRobin) {
          REQUIRE(chosen.last_pick <= other.last_pick);
        } else if (rules.kind == PolicyKind::First) {
          REQUIRE(chosen.order <= other.order);
        } else if (rules.kind == PolicyKind::WeightedRoundRobin) {
          REQUIRE(turn_key(chosen.turn, chosen.weight) <= turn_key(other.turn, other.weight));
        } else if (rules.kind == PolicyKind::Score || rules.kind == PolicyKind::LeastConn) {
          REQUIRE(std::uint64_t{chosen.in_flight} * other.weight <=
                  std::uint64_t{other.in_flight} * chosen.weight);
        }
      }
    } else if (decision.reason == PickReason::Full) {
      REQUIRE(any(usable));
      REQUIRE_FALSE(any([&](const BackendView& v) { return !v.excluded && takeable(v); }));
    } else {
      REQUIRE_FALSE(any(usable));
      REQUIRE_FALSE(any(in_favour));
    }
  }
}

TEST_CASE("policy: who rests gets nothing while another has room, and something before anyone waits") {
  for (const PolicyKind kind : kPolicyKinds) {
    CAPTURE(policy_name(kind));
    std::vector<BackendView> views(3);
    for (std::uint32_t i = 0; i < views.size(); ++i) {
      views[i].healthy = true;
      views[i].order = i;
      views[i].last_pick = i;
      views[i].in_flight = i == 2 ? 4 : 0;
      views[i].resting = i != 2;
    }
    const PolicyRules rules{.kind = kind, .threshold = 75, .normal_us = 1000, .draw = 3};
    CHECK(choose(views, rules).index == 2);
    views[2].slot_free = false;
    const Decision decision = choose(views, rules);
    CHECK(decision.reason == PickReason::Picked);
    CHECK(decision.index != 2);
    if (kind == PolicyKind::Score || kind == PolicyKind::First) CHECK(decision.index == 0);
  }
}

}  // namespace
}  // namespace dlb::lb
