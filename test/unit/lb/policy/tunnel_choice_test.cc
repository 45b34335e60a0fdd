#include "lb/policy/tunnel_choice.h"

#include <map>
#include <vector>

#include "common/rng.h"
#include "test/support/catch.h"

namespace dlb::lb {
namespace {

std::vector<TunnelView> random_views(Rng& rng) {
  std::vector<TunnelView> views(1 + rng.below(8));
  for (TunnelView& view : views) {
    view.usable = rng.below(3) != 0;
    view.active = static_cast<std::uint32_t>(rng.below(4));
  }
  return views;
}

TEST_CASE("a tunnel's backend is usable, and under least_conn none has fewer connections") {
  Rng rng(11);
  for (int round = 0; round < 20'000; ++round) {
    const std::vector<TunnelView> views = random_views(rng);
    const auto policy = rng.below(2) == 0 ? TunnelPolicy::RoundRobin : TunnelPolicy::LeastConn;
    const auto chosen = choose_tunnel_backend(views, policy, rng.next());
    bool any = false;
    for (const TunnelView& view : views) any = any || view.usable;
    REQUIRE(chosen.has_value() == any);
    if (!chosen) continue;
    REQUIRE(views[*chosen].usable);
    if (policy == TunnelPolicy::RoundRobin) continue;
    for (const TunnelView& view : views) {
      if (view.usable) REQUIRE(views[*chosen].active <= view.active);
    }
  }
}

TEST_CASE("turns are even among the usable ones, and ties rotate") {
  for (const TunnelPolicy policy : {TunnelPolicy::RoundRobin, TunnelPolicy::LeastConn}) {
    std::vector<TunnelView> views{{true, 2}, {false, 0}, {true, 2}, {true, 2}};
    std::map<std::uint32_t, int> got;
    for (std::uint64_t turn = 0; turn < 300; ++turn) ++got[*choose_tunnel_backend(views, policy, turn)];
    CHECK(got == std::map<std::uint32_t, int>{{0, 100}, {2, 100}, {3, 100}});
  }
}

}  // namespace
}  // namespace dlb::lb
