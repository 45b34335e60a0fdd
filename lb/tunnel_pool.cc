#include "lb/tunnel_pool.h"

#include <array>
#include <utility>

#include "lb/options.h"

namespace dlb::lb {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
// Looks again, when others were quicker, before it takes its choice in any case.
constexpr int kRaces = 8;

}  // namespace

bool TunnelBackend::usable(TimePoint now) const {
  if (http == nullptr) return up.load(kRelaxed);
  return http->healthy.load(kRelaxed) && http->admin.load(kRelaxed) == AdminState::Ready &&
         !http->reported_draining.load(kRelaxed) && !http->memory_blocked.load(kRelaxed) &&
         http->weight.load(kRelaxed) > 0 &&
         http->ejected_until_ns.load(kRelaxed) <= now.time_since_epoch().count();
}

std::optional<std::uint32_t> TunnelPool::pick(std::uint64_t tried, TimePoint now) {
  const std::uint64_t turn = turn_.fetch_add(1, kRelaxed);
  std::array<TunnelView, kMaxBackends> views;
  for (int race = 0;; ++race) {
    for (std::size_t i = 0; i < backends.size(); ++i) {
      views[i].active = backends[i]->active.taken();
      views[i].usable = (tried >> i & 1) == 0 && backends[i]->usable(now);
    }
    const auto index = choose_tunnel_backend({views.data(), backends.size()}, policy, turn);
    if (!index) return {};
    SlotCounter& active = backends[*index]->active;
    if (active.try_reserve_at(views[*index].active)) return index;
    if (policy == TunnelPolicy::RoundRobin || race == kRaces) {
      active.try_reserve(0);
      return index;
    }
  }
}

TunnelPools make_tunnel_pools(const Options& options, const BackendSet& backends) {
  TunnelPools pools;
  for (const TcpOption& option : options.tcp) {
    const auto policy = option.policy == "least_conn" ? TunnelPolicy::LeastConn : TunnelPolicy::RoundRobin;
    auto pool = std::make_unique<TunnelPool>(TunnelKind::Tcp, option.listen, policy);
    pool->send_proxy_protocol = option.send_proxy_protocol;
    for (std::size_t i = 0; i < option.addresses.size(); ++i) {
      pool->backends.push_back(
          std::make_unique<TunnelBackend>(option.backends[i], option.addresses[i], nullptr));
    }
    pools.push_back(std::move(pool));
  }
  if (options.wss_listen.empty()) return pools;
  auto pool = std::make_unique<TunnelPool>(TunnelKind::Wss, options.wss_listen, TunnelPolicy::LeastConn);
  pool->max_connections = static_cast<std::uint32_t>(options.wss_max_connections);
  pool->send_proxy_protocol = options.wss_send_proxy_protocol;
  for (std::size_t i = 0; i < options.backends.size(); ++i) {
    const BackendOption& option = options.backends[i];
    if (option.wss.empty()) continue;
    pool->backends.push_back(std::make_unique<TunnelBackend>(option.id, option.wss_address, &backends.at(i)));
  }
  pools.push_back(std::move(pool));
  return pools;
}

}  // namespace dlb::lb
