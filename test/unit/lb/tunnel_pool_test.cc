#include "lb/tunnel_pool.h"

#include <memory>
#include <thread>
#include <vector>

#include "lb/options.h"
#include "test/support/catch.h"

namespace dlb::lb {
namespace {

constexpr TimePoint kNow{std::chrono::hours(1)};

TunnelPool& with_backends(TunnelPool& pool, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    pool.backends.push_back(std::make_shared<TunnelBackend>("b" + std::to_string(i), Address{}, nullptr));
    pool.backends.back()->up = true;
  }
  return pool;
}

TEST_CASE("a pick reserves, leaves out those that were tried or are down, and ends") {
  TunnelPool pool(TunnelKind::Tcp, ":1", TunnelPolicy::LeastConn);
  with_backends(pool, 3).backends[1]->up = false;
  const auto first = pool.pick(0, kNow);
  REQUIRE(first);
  CHECK(*first != 1);
  CHECK(pool.backends[*first]->active.taken() == 1);
  const auto second = pool.pick(std::uint64_t{1} << *first, kNow);
  REQUIRE(second);
  CHECK(*second == 2 - *first);
  CHECK_FALSE(pool.pick(0b101, kNow));
  CHECK(pool.backends[0]->active.taken() + pool.backends[2]->active.taken() == 2);
}

TEST_CASE("least_conn stays even when several workers choose at once") {
  TunnelPool pool(TunnelKind::Tcp, ":1", TunnelPolicy::LeastConn);
  with_backends(pool, 4);
  std::vector<std::thread> workers;
  for (int i = 0; i < 4; ++i) {
    workers.emplace_back([&pool] {
      for (int k = 0; k < 1000; ++k) pool.pick(0, kNow);
    });
  }
  for (std::thread& worker : workers) worker.join();
  std::uint32_t total = 0;
  for (const auto& backend : pool.backends) {
    total += backend->active.taken();
    CHECK(backend->active.taken() >= 990);
    CHECK(backend->active.taken() <= 1010);
  }
  CHECK(total == 4000);
}

TEST_CASE("a backend of wss-listen is usable as its HTTP side is") {
  Options options;
  options.backends.resize(2);
  options.backends[0].id = "a";
  options.backends[0].wss = "127.0.0.1:1";
  options.backends[1].id = "b";  // without a wss address
  options.wss_listen = ":2";
  options.wss_max_connections = 7;
  options.tcp.resize(1);
  options.tcp[0].backends = {"127.0.0.1:3"};
  options.tcp[0].addresses.resize(1);
  const auto set = make_backend_set(options);
  const TunnelPools pools = make_tunnel_pools(options, *set);
  REQUIRE(pools.size() == 2);
  CHECK(pools[0]->kind == TunnelKind::Tcp);
  const TunnelPool& wss = *pools[1];
  CHECK(wss.max_connections == 7);
  CHECK(wss.policy == TunnelPolicy::LeastConn);
  REQUIRE(wss.backends.size() == 1);
  CHECK(wss.backends[0]->id == "a");

  Backend& http = set->at(0);
  const TunnelBackend& backend = *wss.backends[0];
  CHECK_FALSE(backend.usable(kNow));
  http.healthy = true;
  CHECK(backend.usable(kNow));
  http.memory_blocked = true;
  CHECK_FALSE(backend.usable(kNow));
  http.memory_blocked = false;
  http.reported_draining = true;
  CHECK_FALSE(backend.usable(kNow));
  http.reported_draining = false;
  http.admin = AdminState::Drain;
  CHECK_FALSE(backend.usable(kNow));
  http.admin = AdminState::Ready;
  http.weight = 0;
  CHECK_FALSE(backend.usable(kNow));
  http.weight = 1;
  http.ejected_until_ns = kNow.time_since_epoch().count() + 1;
  CHECK_FALSE(backend.usable(kNow));
  http.ejected_until_ns = kNow.time_since_epoch().count();
  CHECK(backend.usable(kNow));
}

TEST_CASE("the next pools go on with the same backends and counts, and keep those that leave while told so") {
  Options options;
  options.tcp.resize(1);
  options.tcp[0].listen = ":1";
  options.tcp[0].backends = {"127.0.0.1:3", "127.0.0.1:4"};
  for (const std::string& text : options.tcp[0].backends)
    options.tcp[0].addresses.push_back(*Address::parse(text));
  const auto set = make_backend_set(options);
  const TunnelPools first = make_tunnel_pools(options, *set);
  first[0]->connections().try_reserve(0);
  first[0]->backends[1]->up = true;

  options.tcp[0].backends = {"127.0.0.1:5", "127.0.0.1:4"};
  options.tcp[0].addresses[0] = *Address::parse("127.0.0.1:5");
  options.tcp[0].policy = "least_conn";
  const TunnelPools both = make_tunnel_pools(options, *set, first, true);
  const TunnelPools next = make_tunnel_pools(options, *set, both, false);
  REQUIRE(both[0]->backends.size() == 3);
  CHECK(both[0]->backends[2] == first[0]->backends[0]);
  REQUIRE(next[0]->backends.size() == 2);
  CHECK(next[0]->policy == TunnelPolicy::LeastConn);
  CHECK(next[0]->backends[0] == both[0]->backends[0]);
  CHECK(next[0]->backends[1] == first[0]->backends[1]);
  CHECK(next[0]->connections().taken() == 1);
  first[0]->connections().release();
  CHECK(next[0]->connections().taken() == 0);
}

}  // namespace
}  // namespace dlb::lb
