#include "lb/descriptors.h"

#include "common/rng.h"
#include "lb/options.h"
#include "test/support/catch.h"

namespace dlb::lb {

TEST_CASE("descriptors: with enough of them every cap stays as it is") {
  Options options;
  options.client_connection_burst = 100;
  const DescriptorNeeds needs = descriptor_needs(options, 3);
  const DescriptorPlan plan = plan_descriptors(1'000'000, needs);
  CHECK_FALSE(plan.lowered);
  CHECK(plan.client_cap == 2600);
  CHECK(plan.client_burst == 100);
  CHECK_FALSE(plan_descriptors(plan.wanted + needs.upstreams, needs).lowered);
}

TEST_CASE("descriptors: a small limit leaves as many for backends as for clients") {
  Options options;
  const DescriptorPlan plan = plan_descriptors(64, descriptor_needs(options, 1));
  CHECK(plan.lowered);
  CHECK(plan.client_cap == (64 - 43 - 2) / 2);
  CHECK(plan.client_burst == 0);
}

TEST_CASE("descriptors: a limit below our own needs still admits one client") {
  CHECK(plan_descriptors(3, descriptor_needs(Options{}, 5)).client_cap == 1);
}

TEST_CASE("descriptors: no client limit means as many as are left") {
  Options options;
  options.client_max_connections = 0;
  const DescriptorPlan plan = plan_descriptors(20'000, descriptor_needs(options, 2));
  CHECK_FALSE(plan.lowered);
  CHECK(plan.client_cap > 15'000);
  CHECK(plan.client_cap < 20'000);
}

TEST_CASE("descriptors: whatever the limits, clients never take what probes and their own upstreams need") {
  Rng rng(7);
  for (int round = 0; round < 2000; ++round) {
    DescriptorNeeds needs;
    needs.own = rng.next() % 100;
    needs.probes = rng.next() % 50;
    needs.upstreams = rng.next() % 2000;
    needs.clients = rng.next() % 5000;
    needs.burst = rng.next() % 500;
    const std::uint64_t limit = 10 + rng.next() % 10'000;
    const DescriptorPlan plan = plan_descriptors(limit, needs);
    const std::uint64_t clients = plan.client_cap + plan.client_burst;
    if (needs.own + needs.probes + 2 > limit) continue;  // one client, come what may
    INFO("limit " << limit << ", clients " << needs.clients << "+" << needs.burst << ", upstreams "
                  << needs.upstreams);
    CHECK(needs.own + needs.probes + clients + std::min<std::uint64_t>(clients, needs.upstreams) <= limit);
  }
}

}  // namespace dlb::lb
