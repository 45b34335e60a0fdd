#include "lb/policy/outlier.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "test/support/catch.h"

using namespace dlb;
using namespace dlb::lb;
using namespace std::chrono_literals;
using Action = OutlierDecision::Action;

namespace {

constexpr TimePoint at(Duration since) { return TimePoint(1000s) + since; }

// A pool as its workers see it: outcomes go in one by one.
struct Pool {
  explicit Pool(std::size_t backends, OutlierRules rules = {}, std::uint64_t seed = 1)
      : detector(rules, seed), peers(backends, OutlierPeer{true, 0}), totals(backends) {}

  OutlierDecision fail(std::uint32_t index) {
    ++peers[index].failures_in_row;
    ++totals[index].first;
    ++totals[index].second;
    const OutlierDecision decision = detector.failed(index, peers, now);
    if (decision.action == Action::Eject) peers[index].failures_in_row = 0;
    return decision;
  }
  OutlierDecision fail(std::uint32_t index, int times) {
    OutlierDecision decision;
    for (int i = 0; i < times; ++i) decision = fail(index);
    return decision;
  }
  OutlierDecision succeed(std::uint32_t index) {
    peers[index].failures_in_row = 0;
    ++totals[index].first;
    return detector.succeeded(index, now);
  }
  // A second passes; the decisions of that second, by backend.
  std::vector<OutlierDecision> second() {
    now += 1s;
    std::vector<OutlierDecision> out;
    for (std::uint32_t i = 0; i < peers.size(); ++i) detector.sample(i, totals[i].first, totals[i].second);
    for (std::uint32_t i = 0; i < peers.size(); ++i) out.push_back(detector.judge(i, peers, now));
    return out;
  }
  void seconds(int count) {
    for (int i = 0; i < count; ++i) second();
  }
  std::uint32_t ejected() const { return detector.ejected_now(now); }
  bool ejected(std::uint32_t index) const { return detector.ejected(index, now); }
  bool probation(std::uint32_t index) const { return detector.on_probation(index, now); }
  // Ejects `index`, which is sound, and lets its cooldown pass.
  OutlierDecision eject_and_wait(std::uint32_t index) {
    const OutlierDecision decision = fail(index, 5);
    REQUIRE(decision.action == Action::Eject);
    now = decision.until;
    return decision;
  }

  OutlierDetector detector;
  std::vector<OutlierPeer> peers;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> totals;  // answers, failures
  TimePoint now = at(0s);
};

}  // namespace

TEST_CASE("the bound of ejections is exact") {
  for (const auto& [percent, backends, bound] : {std::tuple{34.0, 1, 1},
                                                 {34.0, 2, 1},
                                                 {34.0, 3, 1},
                                                 {34.0, 5, 1},
                                                 {34.0, 6, 2},
                                                 {34.0, 10, 3},
                                                 {34.0, 50, 17},
                                                 {50.0, 10, 5},
                                                 {100.0, 10, 10},
                                                 {0.1, 10, 1},
                                                 {0.0, 10, 0}}) {
    CAPTURE(percent, backends);
    CHECK(OutlierDetector::bound(percent, static_cast<std::size_t>(backends)) ==
          static_cast<std::uint32_t>(bound));
  }
}

TEST_CASE("five failures in a row eject, a success in between starts anew") {
  Pool pool(3);
  CHECK(pool.fail(0, 4).action == Action::None);
  pool.succeed(0);
  CHECK(pool.fail(0, 4).action == Action::None);
  const OutlierDecision decision = pool.fail(0);
  CHECK(decision.action == Action::Eject);
  CHECK(decision.reason == OutlierReason::InRow);
  CHECK(decision.times == 1);
  CHECK(pool.ejected(0));
  CHECK(pool.fail(0).action == Action::None);  // one that was on its way
}

TEST_CASE("one backend alone is never ejected, nor is the last sound one") {
  Pool alone(1);
  CHECK(alone.fail(0, 100).action == Action::None);
  CHECK(alone.ejected() == 0);

  OutlierRules rules;
  rules.max_percent = 100;
  Pool two(2, rules);
  CHECK(two.fail(0, 5).action == Action::Eject);
  CHECK(two.fail(1, 4).action == Action::None);
  CHECK_FALSE(two.ejected(1));
}

TEST_CASE("a peer that is down, draining or short of memory is no sound peer") {
  Pool pool(3);
  pool.peers[1].in_service = pool.peers[2].in_service = false;
  CHECK(pool.fail(0, 20).action == Action::None);
  pool.peers[2].in_service = true;
  CHECK(pool.fail(0).action == Action::Eject);
}

TEST_CASE("who is out of service already is not ejected") {
  Pool pool(3);
  pool.peers[0].in_service = false;
  CHECK(pool.fail(0, 20).action == Action::None);
}

TEST_CASE("no more than the bound at a time, told once in a row of failures") {
  for (const int backends : {2, 3, 10}) {
    CAPTURE(backends);
    Pool pool(static_cast<std::size_t>(backends));
    const std::uint32_t bound = OutlierDetector::bound(34, pool.peers.size());
    std::uint32_t refused = 0;
    for (std::uint32_t i = 0; i + 1 < pool.peers.size(); ++i) {
      for (int n = 0; n < 30; ++n) refused += pool.fail(i).action == Action::Refused;
    }
    CHECK(pool.ejected() == bound);
    CHECK(refused == pool.peers.size() - 1 - bound);
  }
}

TEST_CASE("when all fail together none is ejected") {
  Pool pool(3);
  for (int round = 0; round < 50; ++round) {
    for (std::uint32_t i = 0; i < 3; ++i) REQUIRE(pool.fail(i).action == Action::None);
    if (round % 10 == 9) {
      for (const OutlierDecision& one : pool.second()) REQUIRE(one.action == Action::None);
    }
  }
  CHECK(pool.ejected() == 0);
}

TEST_CASE("who failed first comes back when it turns out that all fail") {
  Pool pool(3);
  CHECK(pool.fail(0, 5).action == Action::Eject);
  CHECK(pool.fail(1, 5).action == Action::Refused);
  CHECK(pool.fail(2, 4).action == Action::None);
  CHECK(pool.fail(2).action == Action::LiftAll);
  CHECK(pool.ejected() == 0);
  CHECK_FALSE(pool.probation(0));
  CHECK(pool.fail(0, 20).action == Action::None);
  pool.succeed(1);
  CHECK(pool.fail(0).action == Action::Eject);
  CHECK(pool.detector.times(0) == 2);
}

TEST_CASE("a cooldown is the base times the count, at most a tenth shorter, never over the longest") {
  OutlierRules rules;
  rules.base = 10s;
  rules.longest = 300s;
  bool varies = false;
  Duration first{};
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    Pool pool(2, rules, seed);
    OutlierDecision decision = pool.fail(0, 5);
    for (std::uint32_t times = 1; times <= 40; ++times) {
      REQUIRE(decision.action == Action::Eject);
      REQUIRE(decision.times == times);
      const Duration full = std::min<Duration>(rules.longest, rules.base * times);
      const Duration cooldown = decision.until - pool.now;
      REQUIRE(cooldown <= full);
      REQUIRE(cooldown >= full * 9 / 10);
      if (times == 1 && seed == 0) first = cooldown;
      varies = varies || (times == 1 && cooldown != first);
      pool.now = decision.until;
      decision = pool.fail(0);  // on probation
    }
  }
  CHECK(varies);
}

TEST_CASE("probation: the first failure ejects again, some successes end it") {
  Pool pool(3);
  pool.eject_and_wait(0);
  CHECK(pool.probation(0));
  for (int i = 0; i < 4; ++i) CHECK(pool.succeed(0).action == Action::None);
  const OutlierDecision again = pool.fail(0);
  CHECK(again.action == Action::Eject);
  CHECK(again.reason == OutlierReason::Probation);
  CHECK(again.times == 2);
  pool.now = again.until;
  for (int i = 0; i < 4; ++i) CHECK(pool.succeed(0).action == Action::None);
  CHECK(pool.succeed(0).action == Action::Sound);
  CHECK_FALSE(pool.probation(0));
  CHECK(pool.fail(0, 4).action == Action::None);
}

TEST_CASE("a failure on probation while no peer is sound ends it: others are no better") {
  Pool pool(2);
  pool.eject_and_wait(0);
  CHECK(pool.fail(1, 10).action == Action::None);  // who is on probation is no sound peer
  CHECK(pool.fail(0).action == Action::Sound);
  CHECK(pool.ejected() == 0);
}

TEST_CASE("a failure on probation at the bound leaves it on probation") {
  Pool pool(3);
  pool.eject_and_wait(0);
  CHECK(pool.fail(1, 5).action == Action::Eject);
  CHECK(pool.fail(0).action == Action::Refused);
  CHECK(pool.probation(0));
}

TEST_CASE("the count falls in quiet times") {
  Pool pool(2);
  OutlierDecision decision = pool.eject_and_wait(0);
  decision = pool.fail(0);
  pool.now = decision.until;
  decision = pool.fail(0);
  pool.now = decision.until;
  CHECK(pool.detector.times(0) == 3);
  pool.seconds(60);
  CHECK(pool.detector.times(0) == 3);  // on probation still: nobody knows how it would do
  for (int i = 0; i < 5; ++i) pool.succeed(0);
  pool.seconds(9);
  CHECK(pool.detector.times(0) == 3);
  pool.seconds(1);
  CHECK(pool.detector.times(0) == 2);
  pool.seconds(20);
  CHECK(pool.detector.times(0) == 0);
  CHECK(pool.eject_and_wait(0).times == 1);
}

TEST_CASE("a share of failures out of line ejects, from 20 answers on") {
  Pool pool(3);
  pool.second();
  const auto answer = [&](std::uint32_t index, int answers, int failures) {
    pool.totals[index].first += static_cast<std::uint64_t>(answers);
    pool.totals[index].second += static_cast<std::uint64_t>(failures);
  };
  answer(0, 19, 19);
  answer(1, 100, 0);
  CHECK(pool.second()[0].action == Action::None);
  answer(0, 1, 0);
  const OutlierDecision decision = pool.second()[0];
  CHECK(decision.action == Action::Eject);
  CHECK(decision.reason == OutlierReason::Share);
  CHECK(decision.share == Approx(0.95));
  pool.now = decision.until;
  CHECK(pool.second()[0].action == Action::None);  // what it was ejected for is forgotten
}

TEST_CASE("a share of half, or one that peers have too, or that is 10 s old, ejects nobody") {
  // The failures are seen in a first sample, `old` samples before the one that is judged with backends in
  // service.
  const auto share_of = [](int failures_0, int failures_others, int old) {
    Pool pool(3);
    pool.second();
    for (std::uint32_t i = 0; i < 3; ++i) {
      pool.totals[i].first += 100;
      pool.totals[i].second += static_cast<std::uint64_t>(i == 0 ? failures_0 : failures_others);
    }
    for (int left = old; left >= 0; --left) {
      for (OutlierPeer& peer : pool.peers) peer.in_service = left == 0;
      pool.second();
    }
    return pool.ejected();
  };
  CHECK(share_of(51, 0, 0) == 1);
  CHECK(share_of(50, 0, 0) == 0);
  CHECK(share_of(90, 29, 0) == 1);
  CHECK(share_of(90, 31, 0) == 0);
  CHECK(share_of(100, 0, 9) == 1);
  CHECK(share_of(100, 0, 10) == 0);
}

TEST_CASE("what has begun during an ejection may end it early") {
  Pool pool(3);
  const TimePoint before = pool.now;
  pool.now += 1s;
  pool.fail(0, 5);
  pool.now += 1s;
  CHECK(pool.detector.end_early(0, before, pool.now).action == Action::None);
  CHECK(pool.detector.end_early(0, pool.now, pool.now).action == Action::EndEarly);
  CHECK(pool.probation(0));
  CHECK(pool.detector.end_early(0, pool.now, pool.now).action == Action::None);
  CHECK(pool.detector.end_early(2, pool.now, pool.now).action == Action::None);
}

TEST_CASE("0 percent ejects nobody") {
  OutlierRules rules;
  rules.max_percent = 0;
  Pool pool(3, rules);
  CHECK(pool.fail(0, 100).action == Action::None);
  pool.seconds(20);
  CHECK(pool.ejected() == 0);
}

TEST_CASE("a backend that is added later starts afresh") {
  Pool pool(2);
  pool.eject_and_wait(0);
  pool.peers.push_back({true, 0});
  pool.totals.emplace_back();
  CHECK_FALSE(pool.detector.until(2));
  CHECK(pool.fail(2, 5).action == Action::Eject);
}

// The invariants, whatever happens: the bound holds when one is ejected, and a sound peer was there.
TEST_CASE("random outcomes: bound and sound peer at every ejection") {
  const std::uint64_t seed = 20261130;
  CAPTURE(seed);
  Rng rng(seed);
  for (int round = 0; round < 60; ++round) {
    const auto backends = static_cast<std::uint32_t>(1 + rng.below(8));
    OutlierRules rules;
    rules.max_percent = static_cast<double>(rng.below(101));
    Pool pool(backends, rules, rng.next());
    std::vector<double> failing(backends);
    for (double& share : failing) share = rng.below(2) == 0 ? rng.unit() : rng.unit() * 0.1;
    for (int step = 0; step < 3000; ++step) {
      const auto index = static_cast<std::uint32_t>(rng.below(backends));
      if (rng.below(500) == 0) failing[index] = rng.unit();
      if (rng.below(200) == 0) pool.peers[index].in_service = rng.below(4) != 0;
      std::vector<OutlierPeer> before = pool.peers;
      const std::uint32_t ejected_before = pool.ejected();
      OutlierDecision decision;
      if (rng.unit() < failing[index]) {
        decision = pool.fail(index);
      } else {
        decision = pool.succeed(index);
      }
      if (decision.action == Action::Eject) {
        REQUIRE(pool.ejected() == ejected_before + 1);
        REQUIRE(pool.ejected() <= OutlierDetector::bound(rules.max_percent, backends));
        bool sound = false;
        for (std::uint32_t i = 0; i < backends; ++i) {
          sound = sound || (i != index && before[i].in_service && before[i].failures_in_row == 0 &&
                            !pool.detector.until(i));
        }
        REQUIRE(sound);
      }
      pool.now += std::chrono::milliseconds(rng.below(50));
      if (step % 40 == 0) pool.second();
      REQUIRE(pool.ejected() <= OutlierDetector::bound(rules.max_percent, backends));
    }
  }
}

TEST_CASE("an ejection goes on where another process left it") {
  Pool pool(4);
  pool.detector.take_over(0, pool.now + 5s, 2, pool.now);
  pool.detector.take_over(1, pool.now - 1s, 1, pool.now);
  CHECK(pool.ejected(0));
  CHECK(pool.probation(1));
  CHECK(pool.detector.times(0) == 2);
  CHECK(pool.detector.next_end(pool.now) == pool.now + 5s);
  CHECK(pool.fail(2, 5).action == Action::Refused);  // the bound counts it
  CHECK(pool.succeed(2).action == Action::None);
  pool.now += 5s;
  CHECK(pool.probation(0));
  CHECK(pool.fail(0).times == 3);

  pool.detector.take_over(2, pool.now + std::chrono::hours(24), 1, pool.now);
  CHECK(pool.detector.until(2) == pool.now + OutlierRules{}.longest);
  pool.detector.take_over(2, std::nullopt, 2, pool.now);
  CHECK_FALSE(pool.detector.until(2));
  pool.seconds(10);
  CHECK(pool.detector.times(2) == 1);
}
