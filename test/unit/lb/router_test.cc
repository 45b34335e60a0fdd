#include "lb/router.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "lb/backend_changes.h"
#include "lb/options.h"
#include "lb/score_view.h"
#include "test/support/catch.h"

namespace dlb::lb {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint at(Duration since_start) { return TimePoint(1'000'000s + since_start); }

// n healthy backends without statistics.
struct Pool {
  explicit Pool(std::size_t n, PolicyKind kind = PolicyKind::Score) {
    options.policy_kind = kind;
    options.stats_path = "";
    for (std::size_t i = 0; i < n; ++i) {
      BackendOption backend;
      backend.id = "sys" + std::to_string(i + 2);
      options.backends.push_back(backend);
    }
  }
  BackendSet& make() {
    set = make_backend_set(options);
    for (const auto& backend : *set) {
      backend->healthy = true;
      backend->accepting = true;
    }
    return *set;
  }
  Options options;
  std::unique_ptr<BackendSet> set;
};

TEST_CASE("a pick holds a slot and a connection of its transport until each is released") {
  Pool pool(1);
  BackendSet& set = pool.make();
  Router router(pool.options, set, 1);
  const Choice message = router.pick(TransportClass::Message, at(0s));
  const Choice feed = router.pick(TransportClass::Feed, at(0s));
  REQUIRE(message.status == PickStatus::Picked);
  REQUIRE(feed.status == PickStatus::Picked);
  CHECK(set.at(0).slots.taken() == 2);
  CHECK(set.at(0).connections.taken() == 1);
  CHECK(set.at(0).feed_connections.taken() == 1);
  router.release_slot(0);
  router.release_connection(0, TransportClass::Feed);
  CHECK(set.at(0).slots.taken() == 1);
  CHECK(set.at(0).feed_connections.taken() == 0);
  CHECK(set.at(0).connections.taken() == 1);
  CHECK(router.counters().picks == 2);
}

// Ineligible in every way that there is, by turns.
void spoil(Backend& backend, std::size_t way) {
  if (way == 0) backend.healthy = false;
  if (way == 1) backend.admin = AdminState::Drain;
  if (way == 2) backend.weight = 0;
  if (way == 3) backend.memory_blocked = true;
}

TEST_CASE("policies that draw take every eligible backend as often, no other, and find the last one") {
  const std::size_t n = 40;
  for (const PolicyKind kind : {PolicyKind::RandomTwo, PolicyKind::Prequal}) {
    for (const std::size_t eligible : {40U, 39U, 20U, 3U, 2U, 1U}) {
      CAPTURE(kind, eligible);
      Pool pool(n, kind);
      BackendSet& set = pool.make();
      for (std::size_t i = eligible; i < n; ++i) spoil(set.at(i * 7 % n), i % 4);
      Router router(pool.options, set, 3);
      const int each = 400;
      std::array<int, n> picks{};
      for (int i = 0; i < each * static_cast<int>(eligible); ++i) {
        const Choice choice = router.pick(TransportClass::Message, at(i * 1ms));
        REQUIRE(choice.status == PickStatus::Picked);
        ++picks[choice.backend];
        router.release_slot(choice.backend);
        router.release_connection(choice.backend, TransportClass::Message);
      }
      for (std::size_t i = 0; i < n; ++i) {
        const int count = picks[i * 7 % n];
        CAPTURE(i, count);
        REQUIRE((i < eligible ? std::abs(count - each) < each / 4 : count == 0));
      }
    }
  }
}

TEST_CASE("random_two leaves the fullest alone and what has been tried to the last, however many there are") {
  const std::size_t n = 30;
  Pool pool(n, PolicyKind::RandomTwo);
  BackendSet& set = pool.make();
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t held = 0; held < i; ++held) set.at(i).slots.try_reserve(0);
  }
  Router router(pool.options, set, 1);
  const std::uint32_t tried[] = {0, 1};
  std::array<int, n> picks{};
  for (int i = 0; i < 4000; ++i) {
    const Choice choice = router.pick(TransportClass::Message, at(0s), tried);
    REQUIRE(choice.status == PickStatus::Picked);
    ++picks[choice.backend];
    router.release_slot(choice.backend);
    router.release_connection(choice.backend, TransportClass::Message);
  }
  CHECK(picks[0] + picks[1] + picks[n - 1] == 0);
  CHECK(picks[2] > picks[n / 2]);  // of 28: in 2 of 28 pairs, against half as many
  CHECK(picks[n / 2] > picks[n - 2]);
  for (std::uint32_t i = 2; i < n; ++i) set.at(i).healthy = false;
  CHECK(router.pick(TransportClass::Message, at(0s), tried).backend < 2);
}

TEST_CASE("sequential picks rotate over idle backends") {
  for (const PolicyKind kind : kPolicyKinds) {
    if (kind == PolicyKind::First || kind == PolicyKind::RandomTwo) continue;  // an order of their own
    for (const std::int64_t workers : {1, 2}) {
      Pool pool(3, kind);
      pool.options.workers = workers;
      Router router(pool.options, pool.make(), 1);
      std::array<int, 3> picks{};
      for (int i = 0; i < 300; ++i) {
        const Choice choice = router.pick(TransportClass::Message, at(i * 1ms));
        REQUIRE(choice.status == PickStatus::Picked);
        ++picks[choice.backend];
        router.release_slot(choice.backend);
        router.release_connection(choice.backend, TransportClass::Message);
      }
      CHECK(picks == std::array<int, 3>{100, 100, 100});
    }
  }
}

TEST_CASE("the cap and the connection limits make Full, each transport by itself") {
  for (const PolicyKind kind : kPolicyKinds) {
    Pool pool(2, kind);
    pool.options.proxy_max_feed_conns_per_host = 1;
    pool.options.proxy_max_conns_per_host = 2;
    pool.options.backend_cap = 4;
    Router router(pool.options, pool.make(), 1);
    for (int i = 0; i < 2; ++i) CHECK(router.pick(TransportClass::Feed, at(0s)).status == PickStatus::Picked);
    CHECK(router.pick(TransportClass::Feed, at(0s)).status == PickStatus::Full);
    for (int i = 0; i < 4; ++i) {
      CHECK(router.pick(TransportClass::Message, at(0s)).status == PickStatus::Picked);
    }
    CHECK(router.pick(TransportClass::Message, at(0s)).status == PickStatus::Full);
    router.release_connection(1, TransportClass::Message);
    router.release_slot(1);
    const Choice freed = router.pick(TransportClass::Message, at(0s));
    CHECK(freed.status == PickStatus::Picked);
    CHECK(freed.backend == 1);
    CHECK(router.counters().full == 2);
  }
}

TEST_CASE("the score shown is the one that decided, and fallback is told") {
  Pool pool(1);
  pool.options.max_inflight = 10;
  pool.options.threshold = 40;
  Router router(pool.options, pool.make(), 1);
  for (int i = 0; i < 10; ++i) {
    const Choice choice = router.pick(TransportClass::Message, at(0s));
    REQUIRE(choice.status == PickStatus::Picked);
    CHECK(choice.score == Approx(0.45 * 10 * i));
    CHECK(choice.fallback == (0.45 * 10 * i >= 40));
  }
  CHECK(router.counters().fallbacks == 1);
}

TEST_CASE("latency counts in the score and decays") {
  Pool pool(2);
  BackendSet& set = pool.make();
  Router router(pool.options, set, 1);
  router.record_latency(0, 100ms, at(0s));
  CHECK(score_of(set.at(0), pool.options, at(0s)).total == Approx(30));
  CHECK(score_of(set.at(0), pool.options, at(5s)).total == Approx(15));
}

TEST_CASE(
    "statistics older than three intervals, or none yet, cost the penalty, unless there are none to be had") {
  Pool pool(1);
  pool.options.stats_path = "/internal/stats";
  pool.options.stats_interval = 500ms;
  BackendSet& set = pool.make();
  CHECK(score_of(set.at(0), pool.options, at(0s)).penalty == 15);
  set.at(0).report.received_at_ns = at(0s).time_since_epoch().count();
  CHECK(score_of(set.at(0), pool.options, at(1500ms)).penalty == 0);
  CHECK(score_of(set.at(0), pool.options, at(1501ms)).penalty == 15);
  pool.options.stats_path = "";
  CHECK(score_of(set.at(0), pool.options, at(1h)).penalty == 0);
}

TEST_CASE("a handed-over slot is adopted only where the backend may still serve") {
  Pool pool(2);
  pool.options.proxy_max_conns_per_host = 1;
  BackendSet& set = pool.make();
  Router router(pool.options, set, 1);
  Choice choice = router.pick(TransportClass::Message, at(0s));
  const std::uint32_t index = choice.backend;
  Choice adopted;
  CHECK_FALSE(router.adopt_slot(index, TransportClass::Message, at(0s), adopted));  // its connection is busy
  router.release_connection(index, TransportClass::Message);
  set.at(index).reported_draining = true;
  CHECK_FALSE(router.adopt_slot(index, TransportClass::Message, at(0s), adopted));
  set.at(index).reported_draining = false;
  REQUIRE(router.adopt_slot(index, TransportClass::Message, at(0s), adopted));
  CHECK(adopted.status == PickStatus::Picked);
  CHECK(adopted.backend == index);
  CHECK(set.at(index).slots.taken() == 1);
  CHECK(set.at(index).connections.taken() == 1);
}

TEST_CASE("tried backends are left out while others are usable") {
  Pool pool(3);
  BackendSet& set = pool.make();
  Router router(pool.options, set, 1);
  const std::uint32_t tried[] = {0, 2};
  for (int i = 0; i < 5; ++i) CHECK(router.pick(TransportClass::Message, at(0s), tried).backend == 1);
  set.at(1).healthy = false;
  CHECK(router.pick(TransportClass::Message, at(0s), tried).status == PickStatus::Picked);
}

TEST_CASE("least_conn's heap notices events: out, back, slots freed, weights") {
  Pool pool(3, PolicyKind::LeastConn);
  pool.options.workers = 1;
  pool.options.backend_cap = 2;
  BackendSet& set = pool.make();
  Router router(pool.options, set, 1);
  set.at(0).healthy = false;
  set.note_change();
  for (int i = 0; i < 4; ++i) CHECK(router.pick(TransportClass::Message, at(0s)).backend != 0);
  CHECK(router.pick(TransportClass::Message, at(0s)).status == PickStatus::Full);
  set.at(0).healthy = true;
  set.note_change();
  CHECK(router.pick(TransportClass::Message, at(0s)).backend == 0);
  CHECK(router.pick(TransportClass::Message, at(0s)).backend == 0);
  CHECK(router.pick(TransportClass::Message, at(0s)).status == PickStatus::Full);
  router.release_slot(2);
  router.release_connection(2, TransportClass::Message);
  CHECK(router.pick(TransportClass::Message, at(0s)).backend == 2);

  // An ejection ends by time alone.
  router.release_slot(1);
  set.at(1).ejected_until_ns = at(300ms).time_since_epoch().count();
  CHECK(router.pick(TransportClass::Message, at(0s)).status == PickStatus::Full);
  CHECK(router.pick(TransportClass::Message, at(400ms)).backend == 1);
}

TEST_CASE("a backend on probation gets three requests at a time") {
  for (const PolicyKind kind : kPolicyKinds) {
    CAPTURE(policy_name(kind));
    Pool pool(2, kind);
    pool.options.workers = 1;
    BackendSet& set = pool.make();
    Router router(pool.options, set, 1);
    set.at(0).ejected_until_ns = at(1s).time_since_epoch().count();
    for (int i = 0; i < 6; ++i) CHECK(router.pick(TransportClass::Message, at(0s)).backend == 1);
    set.note_change();  // the control thread tells of the end of a cooldown
    for (int i = 0; i < 20; ++i) {
      REQUIRE(router.pick(TransportClass::Message, at(1s)).status == PickStatus::Picked);
    }
    // Under `adaptive` it starts slowly: at first it gets less than it may have.
    if (kind == PolicyKind::Adaptive) continue;
    CHECK(set.at(0).slots.taken() == 3);

    // A slot that is handed on is taken only while not more than those are held.
    Choice choice;
    CHECK(router.adopt_slot(0, TransportClass::Message, at(1s), choice));
    CHECK(set.at(0).slots.try_reserve(0));
    CHECK_FALSE(router.adopt_slot(0, TransportClass::Message, at(1s), choice));

    set.at(0).ejected_until_ns = 0;
    set.note_change();
    CHECK(router.adopt_slot(0, TransportClass::Message, at(1s), choice));
    for (int i = 0; i < 20; ++i) {
      REQUIRE(router.pick(TransportClass::Message, at(2s)).status == PickStatus::Picked);
    }
    CHECK(set.at(0).slots.taken() > 4);
  }
}

// The heap and the scan are two forms of one rule: with one worker they choose among equally loaded backends.
TEST_CASE("least_conn: heap and scan choose the same loads under random traffic") {
  const std::uint64_t seed = 99;
  CAPTURE(seed);
  Rng rng(seed);
  Pool heap_pool(20, PolicyKind::LeastConn);
  heap_pool.options.workers = 1;
  Pool scan_pool(20, PolicyKind::LeastConn);
  scan_pool.options.workers = 2;
  for (Pool* pool : {&heap_pool, &scan_pool}) {
    pool->options.backend_cap = 5;
    for (std::size_t i = 0; i < 20; ++i) pool->options.backends[i].weight = static_cast<std::int64_t>(i % 4);
  }
  BackendSet& heap_set = heap_pool.make();
  BackendSet& scan_set = scan_pool.make();
  Router with_heap(heap_pool.options, heap_set, 1);
  Router with_scan(scan_pool.options, scan_set, 1);
  std::vector<std::uint32_t> running;
  for (int i = 0; i < 20'000; ++i) {
    const TimePoint now = at(i * 1ms);
    if (rng.below(50) == 0) {
      const auto index = static_cast<std::uint32_t>(rng.below(20));
      const bool healthy = rng.below(2) == 0;
      for (BackendSet* set : {&heap_set, &scan_set}) {
        set->at(index).healthy = healthy;
        set->note_change();
      }
    }
    if (rng.below(2) == 0 && !running.empty()) {
      const std::size_t place = rng.below(running.size());
      const std::uint32_t index = running[place];
      running[place] = running.back();
      running.pop_back();
      for (Router* router : {&with_heap, &with_scan}) {
        router->release_slot(index);
        router->release_connection(index, TransportClass::Message);
      }
      continue;
    }
    const Choice a = with_heap.pick(TransportClass::Message, now);
    const Choice b = with_scan.pick(TransportClass::Message, now);
    REQUIRE(a.status == b.status);
    if (a.status != PickStatus::Picked) continue;
    REQUIRE(a.backend == b.backend);
    running.push_back(a.backend);
  }
}

TEST_CASE("four threads never take more slots than the cap, and give all of them back") {
  for (const PolicyKind kind : kPolicyKinds) {
    Pool pool(3, kind);
    pool.options.workers = 4;
    pool.options.backend_cap = 3;
    pool.options.proxy_max_conns_per_host = 2;
    BackendSet& set = pool.make();
    std::array<std::atomic<int>, 3> held{};
    std::atomic<bool> over{false};
    std::atomic<int> picked{0};
    std::vector<std::thread> threads;
    for (std::uint64_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        Router router(pool.options, set, t);
        Rng rng(t);
        std::vector<std::pair<std::uint32_t, TransportClass>> mine;
        for (int i = 0; i < 20'000; ++i) {
          if (mine.size() < 4 && rng.below(2) == 0) {
            const auto transport = rng.below(3) == 0 ? TransportClass::Feed : TransportClass::Message;
            const Choice choice = router.pick(transport, at(i * 1us));
            if (choice.status != PickStatus::Picked) continue;
            picked.fetch_add(1);
            if (held[choice.backend].fetch_add(1) + 1 > 3) over.store(true);
            if (set.at(choice.backend).slots.taken() > 3) over.store(true);
            if (set.at(choice.backend).connections.taken() > 2) over.store(true);
            mine.emplace_back(choice.backend, transport);
          } else if (!mine.empty()) {
            const auto [index, transport] = mine.back();
            mine.pop_back();
            held[index].fetch_sub(1);
            router.release_slot(index);
            router.release_connection(index, transport);
          }
        }
        for (const auto& [index, transport] : mine) {
          held[index].fetch_sub(1);
          router.release_slot(index);
          router.release_connection(index, transport);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK_FALSE(over.load());
    CHECK(picked.load() > 1000);
    for (const auto& backend : set) {
      CHECK(backend->slots.taken() == 0);
      CHECK(backend->connections.taken() == 0);
      CHECK(backend->feed_connections.taken() == 0);
    }
  }
}

// Messages and feeds compete for one slot, so that a connection is often reserved in vain and must be given
// back.
TEST_CASE("a lost race for the last slot leaves nothing reserved") {
  Pool pool(1, PolicyKind::LeastConn);
  pool.options.workers = 2;
  pool.options.backend_cap = 1;
  BackendSet& set = pool.make();
  std::atomic<int> ready{0};
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      Router router(pool.options, set, t);
      const TransportClass transport = t == 0 ? TransportClass::Feed : TransportClass::Message;
      ready.fetch_add(1);
      while (ready.load() < 2) std::this_thread::yield();
      for (int i = 0; i < 400'000; ++i) {
        if (router.pick(transport, at(0s)).status != PickStatus::Picked) continue;
        router.release_slot(0);
        router.release_connection(0, transport);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(set.at(0).slots.taken() == 0);
  CHECK(set.at(0).connections.taken() == 0);
  CHECK(set.at(0).feed_connections.taken() == 0);
}

TEST_CASE("round robin over several workers stays even") {
  Pool pool(3, PolicyKind::RoundRobin);
  pool.options.workers = 2;
  BackendSet& set = pool.make();
  std::array<std::atomic<int>, 3> picks{};
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      Router router(pool.options, set, t);
      for (int i = 0; i < 150'000; ++i) {
        const Choice choice = router.pick(TransportClass::Message, at(0s));
        picks[choice.backend].fetch_add(1);
        router.release_slot(choice.backend);
        router.release_connection(choice.backend, TransportClass::Message);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& count_of_one : picks) CHECK(std::abs(count_of_one.load() - 100'000) <= 5);
}

TEST_CASE("weighted_round_robin gives turns by weight, also to four threads") {
  Pool pool(3, PolicyKind::WeightedRoundRobin);
  pool.options.workers = 4;
  BackendSet& set = pool.make();
  for (std::uint32_t i = 0; i < 3; ++i) set.at(i).weight = i + 1;
  std::array<std::atomic<int>, 3> picks{};
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Router router(pool.options, set, t);
      for (int i = 0; i < 6'000; ++i) {
        const Choice choice = router.pick(TransportClass::Message, at(0s));
        if (choice.status != PickStatus::Picked) continue;
        picks[choice.backend].fetch_add(1);
        router.release_slot(choice.backend);
        router.release_connection(choice.backend, TransportClass::Message);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const int all = picks[0] + picks[1] + picks[2];
  for (int i = 0; i < 3; ++i) CHECK(std::abs(picks[static_cast<std::size_t>(i)] - all * (i + 1) / 6) <= 40);
}

TEST_CASE("first takes the configuration's order, whatever the indexes") {
  Pool pool(3, PolicyKind::First);
  BackendSet& made = pool.make();
  std::vector<std::shared_ptr<Backend>> same(made.begin(), made.end());
  const BackendSet set(std::move(same), {2, 0, 1}, made);
  pool.options.backend_cap = 1;
  Router router(pool.options, set, 1);
  for (const std::uint32_t expected : {2U, 0U, 1U}) {
    CHECK(router.pick(TransportClass::Message, at(0s)).backend == expected);
  }
}

TEST_CASE("adaptive turns away from who is slow or fails, and comes back with time") {
  Pool pool(2, PolicyKind::Adaptive);
  BackendSet& set = pool.make();
  Router router(pool.options, set, 1);
  const auto pick = [&router](Duration when) {
    const Choice choice = router.pick(TransportClass::Message, at(when));
    router.release_slot(choice.backend);
    router.release_connection(choice.backend, TransportClass::Message);
    return choice.backend;
  };
  for (int i = 0; i < 100; ++i) {
    for (const std::uint32_t one : {0U, 1U}) router.record_latency(one, 20ms, at(i * 10ms));
  }
  router.record_failure(0, at(1s));
  for (int i = 0; i < 10; ++i) CHECK(pick(1s) == 1);
  int to_failed = 0;
  for (int i = 0; i < 10; ++i) to_failed += pick(31s) == 0;  // 10 times as slow, six half-lives ago
  CHECK(to_failed == 5);

  set.at(0).back_since_ns = at(31s).time_since_epoch().count();
  for (int i = 0; i < 8; ++i) {  // one request in flight there is as much as ten here
    CHECK(router.pick(TransportClass::Message, at(31s)).backend == 1);
  }
}

TEST_CASE("adaptive leaves a backend out whose cpu alone stands out, until it is 10 points better") {
  Pool pool(3, PolicyKind::Adaptive);
  BackendSet& set = pool.make();
  Router router(pool.options, set, 1);
  const auto used = [&](Duration when) {
    std::set<std::uint32_t> out;
    for (int i = 0; i < 6; ++i) out.insert(router.pick(TransportClass::Message, at(when)).backend);
    return out;
  };
  set.at(0).report.cpu_percent = 80;
  CHECK(used(1s) == std::set<std::uint32_t>{1, 2});
  set.at(0).report.cpu_percent = 70;
  CHECK(used(2s) == std::set<std::uint32_t>{1, 2});
  set.at(0).report.cpu_percent = 60;
  CHECK(used(3s).contains(0));
  for (const auto& backend : set) backend->report.cpu_percent = 99;  // all are busy: nobody stands out
  CHECK(used(4s).size() == 3);
}

TEST_CASE("pick cost", "[.][bench]") {
  for (const PolicyKind kind : kPolicyKinds) {
    for (const std::size_t n : {std::size_t{3}, std::size_t{64}, std::size_t{1000}}) {
      Pool pool(n, kind);
      pool.options.workers = kind == PolicyKind::LeastConn ? 1 : 2;
      Router router(pool.options, pool.make(), 1);
      const int rounds = n > 100 ? 20'000 : 300'000;
      const TimePoint begin = monotonic_now();
      for (int i = 0; i < rounds; ++i) {
        const Choice choice = router.pick(TransportClass::Message, at(i * 1us));
        router.record_latency(choice.backend, 1ms, at(i * 1us));
        router.release_slot(choice.backend);
        router.release_connection(choice.backend, TransportClass::Message);
      }
      const auto ns = (monotonic_now() - begin).count() / rounds;
      WARN(policy_name(kind) << " over " << n << " backends: " << ns << " ns a pick and release");
    }
  }
}

TEST_CASE("other rules and more backends apply from the next pick on, whatever is reserved") {
  Pool pool(2, PolicyKind::LeastConn);
  pool.options.backend_cap = 1;
  BackendSet& set = pool.make();
  Router router(pool.options, set, 1);
  CHECK(router.pick(TransportClass::Message, at(0s)).status == PickStatus::Picked);
  CHECK(router.pick(TransportClass::Message, at(0s)).status == PickStatus::Picked);
  CHECK(router.pick(TransportClass::Message, at(0s)).status == PickStatus::Full);

  Options next = pool.options;
  next.policy_kind = PolicyKind::RoundRobin;
  next.backends.push_back(pool.options.backends[0]);
  next.backends.back().id = "new";
  const BackendChanges changes = change_backends(set, pool.options, next, 1);
  router.apply(next, changes.set);
  CHECK(router.pick(TransportClass::Message, at(0s)).status == PickStatus::Full);  // nobody has checked it
  changes.set.at(2).healthy = true;
  const Choice choice = router.pick(TransportClass::Message, at(0s));
  REQUIRE(choice.status == PickStatus::Picked);
  CHECK(choice.backend == 2);

  next.backend_cap = 2;
  next.policy_kind = PolicyKind::LeastConn;
  router.apply(next, changes.set);
  for (int i = 0; i < 3; ++i)
    CHECK(router.pick(TransportClass::Message, at(0s)).status == PickStatus::Picked);
  CHECK(router.pick(TransportClass::Message, at(0s)).status == PickStatus::Full);
  changes.set.at(0).membership = Membership::Leaving;
  retire_backends(changes.set, {0}, 2);
  router.release_slot(0);
  router.release_connection(0, TransportClass::Message);
  CHECK(router.pick(TransportClass::Message, at(0s)).status ==
        PickStatus::Full);  // gone: its slot serves nobody
}

}  // namespace
}  // namespace dlb::lb
