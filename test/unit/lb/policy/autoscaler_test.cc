#include "lb/policy/autoscaler.h"

#include <algorithm>
#include <map>
#include <vector>

#include "common/rng.h"
#include "test/support/catch.h"

namespace dlb::lb {
namespace {

using namespace std::chrono_literals;
using Kind = AutoscaleAction::Kind;

constexpr AutoscaleRules kRules{.min = 1,
                                .max = 4,
                                .up_after = 2s,
                                .idle_after = 10s,
                                .start_timeout = 5s,
                                .replace_after = 4s,
                                .stop_timeout = 3s};

// Instances as their owner sees them; a turn a second.
struct Scene {
  explicit Scene(const AutoscaleRules& rules = kRules) : scaler(rules) {}

  InstanceFacts& at(std::uint32_t id) { return *std::ranges::find(instances, id, &InstanceFacts::id); }
  bool has(std::uint32_t id) const { return std::ranges::count(instances, id, &InstanceFacts::id) != 0; }
  InstanceFacts& add(bool up) {
    instances.push_back({.id = next++, .healthy = up, .available = up, .capacity = 5});
    return instances.back();
  }
  void up(std::uint32_t id, bool is = true) { at(id).healthy = at(id).available = is; }
  void end(std::uint32_t id) {
    std::erase_if(instances, [&](const auto& one) { return one.id == id; });
  }
  void load(std::uint32_t each) {
    for (InstanceFacts& one : instances) {
      if (!one.healthy || one.draining) continue;
      one.in_flight = each;
      one.requests += each;
    }
  }
  // Carried out at once; returned as `start drain2 …`.
  std::string turn(Duration step = 1s) {
    now += step;
    for (InstanceFacts& one : instances) one.busy = one.in_flight > 0;
    std::string text;
    for (const AutoscaleAction& action :
         scaler.turn({.instances = instances, .waiting = waiting, .may_shrink = may_shrink}, now)) {
      if (!text.empty()) text += ' ';
      text += action_name(action.kind);
      if (action.kind != Kind::Start) text += std::to_string(action.id);
      if (action.kind == Kind::Start) add(false);
      if (action.kind == Kind::Drain || action.kind == Kind::Replace) at(action.id).draining = true;
      if (action.kind == Kind::Stop) at(action.id).stopping = true;
      last = action;
    }
    return text;
  }
  std::string turns(int count) {
    std::string all;
    for (int i = 0; i < count; ++i) {
      if (const std::string one = turn(); !one.empty()) all += (all.empty() ? "" : " ") + one;
    }
    return all;
  }

  Autoscaler scaler;
  std::vector<InstanceFacts> instances;
  std::uint32_t next = 1, waiting = 0;
  bool may_shrink = true;
  TimePoint now{1000s};
  AutoscaleAction last;
};

TEST_CASE("starts min at once, and no more than one of them again while they start") {
  AutoscaleRules rules = kRules;
  rules.min = 3;
  Scene scene(rules);
  CHECK(scene.turn() == "start start start");
  CHECK(scene.last.reason == "fewer than min = 3");
  CHECK(scene.turns(3).empty());
  CHECK(scene.scaler.phase(1) == InstancePhase::Starting);
  scene.up(1);
  CHECK(scene.turn().empty());
  CHECK(scene.scaler.phase(1) == InstancePhase::Serving);
}

TEST_CASE("starts another when all have been at capacity for up-after, not before, and none beyond max") {
  Scene scene;
  scene.turn();
  scene.up(1);
  scene.load(4);
  CHECK(scene.turns(10).empty());
  scene.load(5);
  CHECK(scene.turns(2).empty());
  CHECK(scene.turn() == "start");
  CHECK(scene.last.reason == "all have been at capacity for 2 s");
  CHECK(scene.turns(4).empty());  // one start at a time
  scene.up(2);
  CHECK(scene.turns(5).empty());  // it has room
  scene.load(5);
  CHECK(scene.turns(3) == "start");
  scene.up(3);
  scene.load(5);
  CHECK(scene.turns(3) == "start");
  scene.up(4);
  scene.load(5);
  CHECK(scene.turns(20).empty());
  CHECK(scene.scaler.desired() == 4);
}

TEST_CASE("a moment of room starts the clock anew") {
  Scene scene;
  scene.turn();
  scene.up(1);
  for (int i = 0; i < 10; ++i) {
    scene.at(1).in_flight = i % 2 == 0 ? 5 : 4;
    CHECK(scene.turn().empty());
  }
}

TEST_CASE("what waits says how many to start, at most as many as there are") {
  AutoscaleRules rules = kRules;
  rules.max = 20;
  Scene scene(rules);
  scene.turn();
  scene.up(1);
  scene.load(5);
  scene.waiting = 55;
  CHECK(scene.turns(3) == "start");
  CHECK(scene.last.reason == "55 requests wait, all are at capacity");
  scene.up(2);
  scene.load(5);
  scene.waiting = 50;
  CHECK(scene.turns(3) == "start start");
  scene.up(3);
  scene.up(4);
  scene.load(5);
  scene.waiting = 11;  // three of them do
  CHECK(scene.turns(3) == "start start start");
}

TEST_CASE(
    "drains the youngest that has been idle for idle-after, then stops it, one at a time, down to min") {
  Scene scene;
  for (int i = 0; i < 3; ++i) scene.add(true);
  CHECK(scene.turns(10).empty());
  CHECK(scene.turn() == "drain3");
  CHECK(scene.last.reason == "idle for 10 s");
  CHECK(scene.scaler.phase(3) == InstancePhase::Draining);
  CHECK(scene.turn() == "stop3");
  CHECK(scene.turn() == "drain2");
  scene.end(3);
  CHECK(scene.turn() == "stop2");
  scene.end(2);
  CHECK(scene.turns(60).empty());
  CHECK(scene.scaler.desired() == 1);
}

TEST_CASE("one that is given a request between two turns is not idle") {
  Scene scene;
  scene.add(true);
  scene.add(true);
  for (int i = 0; i < 40; ++i) {
    for (InstanceFacts& one : scene.instances) ++one.requests;
    CHECK(scene.turn().empty());
  }
}

TEST_CASE("what runs on a draining instance is waited for") {
  Scene scene;
  scene.add(true);
  scene.add(true);
  CHECK(scene.turns(11) == "drain2");
  scene.at(2).in_flight = 1;
  CHECK(scene.turns(50).empty());
  scene.at(2).in_flight = 0;
  CHECK(scene.turn() == "stop2");
}

TEST_CASE("a drain that is taken back, since a request came, leaves as many as before") {
  Scene scene;
  scene.add(true);
  scene.add(true);
  CHECK(scene.turns(11) == "drain2");
  CHECK(scene.scaler.desired() == 1);
  scene.at(2).draining = false;
  scene.load(1);
  CHECK(scene.turns(20).empty());
  CHECK(scene.scaler.desired() == 2);
}

TEST_CASE("the last healthy one is never drained") {
  Scene scene;
  scene.add(true);
  scene.add(true);
  scene.turn();
  scene.up(1, false);
  for (int i = 0; i < 30; ++i) {
    const std::string did = scene.turn();
    CHECK(did.find("drain2") == std::string::npos);
    if (did.find("replace1") != std::string::npos) break;
  }
  CHECK(scene.at(1).draining);
}

TEST_CASE("one that fails its checks for replace-after is replaced; a short failure is nothing") {
  Scene scene;
  scene.add(true);
  scene.at(1).in_flight = 1;
  scene.turns(12);
  scene.up(1, false);
  CHECK(scene.turns(4).empty());
  scene.up(1);
  CHECK(scene.turns(3).empty());
  scene.up(1, false);
  CHECK(scene.turns(4).empty());
  CHECK(scene.turn() == "replace1 start");  // max is 4: there is room for both
  CHECK(scene.last.reason == "in place of one that fails");
  scene.up(2);
  CHECK(scene.turns(2).empty());
  CHECK(scene.turn() == "stop1");  // what runs on it has had its time
  CHECK(scene.last.reason == "what runs on it has had 3 s");
  CHECK(scene.turns(3).empty());
  CHECK(scene.turn() == "kill1");
  scene.end(1);
  scene.load(1);
  CHECK(scene.turns(20).empty());
}

TEST_CASE("at max the failed one has to end first") {
  AutoscaleRules rules = kRules;
  rules.max = 1;
  Scene scene(rules);
  scene.add(true);
  scene.turn();
  scene.up(1, false);
  CHECK(scene.turns(5) == "replace1");
  CHECK(scene.turn() == "stop1");
  scene.end(1);
  CHECK(scene.turn() == "start");
}

TEST_CASE("when all fail they are replaced one after the other") {
  AutoscaleRules rules = kRules;
  rules.min = 3;
  Scene scene(rules);
  for (int i = 0; i < 3; ++i) scene.add(true);
  scene.turns(12);
  for (const std::uint32_t id : {1U, 2U, 3U}) scene.up(id, false);
  CHECK(scene.turns(5) == "replace1 start");
  CHECK(scene.turns(1) == "stop1");
  scene.end(1);
  scene.up(4);
  CHECK(scene.turn() == "replace2 start");
}

TEST_CASE("one that dies is replaced at once; one that dies again and again, ever later") {
  Scene scene;
  scene.add(true);
  scene.turns(20);
  scene.end(1);
  CHECK(scene.turn() == "start");
  CHECK(scene.last.reason == "in place of one that has ended");
  std::vector<int> gaps;
  int gap = 0;
  for (int i = 0; i < 300; ++i) {
    if (!scene.instances.empty()) scene.instances.clear();  // at once
    ++gap;
    if (scene.turn() == "start") gaps.push_back(std::exchange(gap, 0));
  }
  CHECK(gaps == std::vector<int>{2, 3, 5, 9, 17, 33, 61, 61, 61});
  CHECK(scene.scaler.failed_starts() == 10);
}

TEST_CASE("one that never becomes healthy is replaced after start-timeout, and counts as a failed start") {
  Scene scene;
  CHECK(scene.turn() == "start");
  CHECK(scene.turns(5).empty());
  CHECK(scene.turn() == "replace1");
  CHECK(scene.scaler.failed_starts() == 1);
  CHECK(scene.turn() == "stop1 start");
  scene.end(1);
  scene.up(2);
  CHECK(scene.turns(30).empty());
}

TEST_CASE("growth whose start has failed is given up when nobody needs it any more") {
  Scene scene;
  scene.add(true);
  scene.load(5);
  CHECK(scene.turns(3) == "start");
  scene.load(0);
  scene.end(2);
  CHECK(scene.turns(100).empty());
  CHECK(scene.scaler.desired() == 1);
}

TEST_CASE("an operator's drain lowers what is desired, not below min") {
  Scene scene;
  scene.add(true);
  scene.add(true);
  scene.turn();
  scene.at(1).draining = true;
  CHECK(scene.turn() == "stop1");
  CHECK(scene.scaler.desired() == 1);
  scene.end(1);
  scene.at(2).draining = true;
  scene.at(2).in_flight = 1;
  CHECK(scene.turn() == "start");
}

TEST_CASE("beside another process that uses them too nobody is drained or stopped") {
  Scene scene;
  scene.may_shrink = false;
  scene.add(true);
  scene.add(true);
  CHECK(scene.turns(40).empty());
  scene.at(2).draining = true;
  CHECK(scene.turns(5).empty());
  scene.may_shrink = true;
  CHECK(scene.turn() == "stop2");
}

TEST_CASE("other limits take effect: more than max are drained, the least busy first") {
  Scene scene;
  for (int i = 0; i < 4; ++i) scene.add(true).in_flight = static_cast<std::uint32_t>(4 - i % 2);
  scene.turn();
  AutoscaleRules rules = kRules;
  rules.max = 2;
  scene.scaler.set_rules(rules);
  CHECK(scene.turn() == "drain4");
  CHECK(scene.last.reason == "more than max = 2");
  CHECK(scene.turn() == "drain2");
  CHECK(scene.turns(5).empty());
  rules = kRules;
  rules.min = 4;
  scene.scaler.set_rules(rules);
  scene.end(2);
  scene.end(4);
  CHECK(scene.turn() == "start start");
}

TEST_CASE("those that the load does not need rest, until it does") {
  Scene scene;
  for (int i = 0; i < 4; ++i) scene.add(true).in_flight = 1;
  const auto resting = [&] {
    std::string text;
    for (std::uint32_t id = 1; id <= 4; ++id) text += scene.scaler.rests(id) ? 'r' : '.';
    return text;
  };
  scene.turn();
  CHECK(resting() == "..rr");  // 4 of 10
  scene.load(2);
  scene.turn();
  CHECK(resting() == "..rr");  // 8 of 10
  scene.at(1).in_flight = 3;
  scene.turn();
  CHECK(resting() == "...r");
  scene.load(0);
  scene.turn();
  CHECK(resting() == ".rrr");
  scene.waiting = 1;
  scene.turn();
  CHECK(resting() == "....");
}

// A world that behaves badly, and what must hold in it at every turn.
struct Walk : Scene {
  Walk(const AutoscaleRules& the_rules, std::uint64_t seed) : Scene(the_rules), rules(the_rules), rng(seed) {}

  struct Watch {
    TimePoint busy_at{}, replaced_at{}, stopped_at{};
    bool been_up = false;
  };

  void world_moves() {
    if (rng.below(40) == 0) crowd = static_cast<std::uint32_t>(rng.below(60));
    std::uint32_t left = crowd;
    waiting = 0;
    for (InstanceFacts& one : instances) {
      Watch& seen = watch[one.id];
      const std::uint64_t luck = rng.below(100);
      if (!seen.been_up && !one.stopping) {
        one.healthy = one.available = luck < 30;
        if (luck >= 97) gone.push_back(one.id);
      } else if (luck == 0 || ((one.stopping || one.draining) && luck < (one.stopping ? 40U : 2U))) {
        gone.push_back(one.id);
      } else if (luck < 3) {
        one.healthy = one.available = !one.healthy;
      }
      if (one.healthy && !std::exchange(seen.been_up, seen.been_up || one.healthy)) seen.busy_at = now + 1s;
      const bool takes = one.available && !one.draining && !one.stopping;
      const std::uint32_t given = takes ? std::min(left, one.capacity) : std::min(one.in_flight, 1U);
      left -= takes ? given : 0;
      if (takes && given > 0) one.requests += given;
      if (!takes && rng.below(3) == 0) one.in_flight = 0;
      if (takes) one.in_flight = given;
      if (one.in_flight > 0 || (takes && given > 0)) seen.busy_at = now + 1s;
    }
    waiting = left;
    for (const std::uint32_t id : std::exchange(gone, {})) end(id);
  }

  void check_turn() {
    for (InstanceFacts& one : instances) one.busy = one.in_flight > 0;
    const auto before = instances;
    const std::uint32_t desired = scaler.desired();
    now += 1s;
    std::uint32_t live = 0, healthy = 0, starting = 0, drains = 0, starts = 0;
    bool room = false;
    for (const InstanceFacts& one : before) {
      if (one.draining || one.stopping) continue;
      ++live;
      if (one.healthy) ++healthy;
      if (!watch[one.id].been_up) ++starting;
      room = room || (one.available && one.in_flight < one.capacity);
    }
    const bool pressed = waiting > 0 || (healthy > 0 && !room);
    pressed_for = pressed && starting == 0 ? pressed_for + 1 : 0;
    for (const AutoscaleAction& action : scaler.turn({.instances = before, .waiting = waiting}, now)) {
      switch (action.kind) {
        case Kind::Start:
          ++starts;
          add(false);
          break;
        case Kind::Drain: {
          ++drains;
          const InstanceFacts& one = at(action.id);
          REQUIRE(one.in_flight == 0);
          REQUIRE(now - watch[action.id].busy_at >= rules.idle_after);
          REQUIRE(live > rules.min);
          REQUIRE(healthy > rules.min);
          REQUIRE(starting == 0);
          REQUIRE_FALSE(pressed);
          at(action.id).draining = true;
          break;
        }
        case Kind::Replace:
          REQUIRE_FALSE(at(action.id).healthy);
          at(action.id).draining = true;
          watch[action.id].replaced_at = now;
          break;
        case Kind::Stop: {
          Watch& seen = watch[action.id];
          REQUIRE(at(action.id).draining);
          const bool overdue =
              seen.replaced_at != TimePoint{} && now - seen.replaced_at >= rules.stop_timeout;
          REQUIRE((overdue || !at(action.id).busy));
          at(action.id).stopping = true;
          seen.stopped_at = now;
          break;
        }
        case Kind::Kill:
          REQUIRE(now - watch[action.id].stopped_at >= rules.stop_timeout);
          break;
      }
    }
    REQUIRE(drains <= 1);
    REQUIRE(instances.size() <= rules.max);
    REQUIRE(scaler.desired() >= rules.min);
    REQUIRE(scaler.desired() <= rules.max);
    if (desired != 0 && scaler.desired() > desired) REQUIRE(pressed_for * 1s > rules.up_after);
    REQUIRE(starts <= std::max(rules.min, healthy));
    total_starts += starts;
    total_drains += drains;
  }

  const AutoscaleRules rules;
  Rng rng;
  std::map<std::uint32_t, Watch> watch;
  std::vector<std::uint32_t> gone;
  std::uint32_t crowd = 0;
  int pressed_for = 0;
  std::uint64_t total_starts = 0, total_drains = 0;
};

TEST_CASE("in a world that behaves badly: never over max, nobody drained who is needed or busy") {
  std::uint64_t starts = 0, drains = 0;
  for (std::uint64_t seed = 1; seed <= 16; ++seed) {
    CAPTURE(seed);
    Rng draw(seed);
    AutoscaleRules rules = kRules;
    rules.min = static_cast<std::uint32_t>(1 + draw.below(3));
    rules.max = rules.min + static_cast<std::uint32_t>(draw.below(12));
    Walk walk(rules, seed);
    for (int i = 0; i < 1000; ++i) {
      walk.world_moves();
      walk.check_turn();
    }
    starts += walk.total_starts;
    drains += walk.total_drains;
    // When it behaves again, min are there before long.
    walk.crowd = 0;
    for (int i = 0; i < 200; ++i) {
      for (const InstanceFacts& one : std::vector(walk.instances)) {
        if (one.stopping) walk.end(one.id);
      }
      for (InstanceFacts& one : walk.instances) {
        one.healthy = one.available = true;
        one.in_flight = 0;
      }
      walk.waiting = 0;
      walk.turn();
    }
    CHECK(walk.instances.size() == rules.min);
  }
  CHECK(starts > 200);
  CHECK(drains > 60);
}

}  // namespace
}  // namespace dlb::lb
