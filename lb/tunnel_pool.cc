#include "lb/tunnel_pool.h"

#include <algorithm>
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
  return !http->taken_out() && http->healthy.load(kRelaxed) && !http->memory_blocked.load(kRelaxed) &&
         http->weight.load(kRelaxed) > 0 &&
         http->ejected_until_ns.load(kRelaxed) <= now.time_since_epoch().count();
}

std::optional<std::uint32_t> TunnelPool::pick(std::uint64_t tried, TimePoint now) const {
  const std::uint64_t turn = common_->turn.fetch_add(1, kRelaxed);
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

namespace {

std::shared_ptr<TunnelPool> next_pool(const TunnelPool* earlier, TunnelKind kind, const std::string& listen,
                                      TunnelPolicy policy) {
  return earlier != nullptr ? std::make_shared<TunnelPool>(*earlier, policy)
                            : std::make_shared<TunnelPool>(kind, listen, policy);
}

// The one of `earlier` at this address, of the same HTTP backend; else a new one.
std::shared_ptr<TunnelBackend> next_backend(const TunnelPool* earlier, const std::string& id,
                                            const Address& address,
                                            const std::shared_ptr<const Backend>& http) {
  if (earlier != nullptr) {
    for (const auto& known : earlier->backends) {
      if (known->id == id && known->address == address && known->http == http) return known;
    }
  }
  return std::make_shared<TunnelBackend>(id, address, http);
}

void add_leaving(TunnelPool& pool, const TunnelPool& earlier) {
  for (const auto& known : earlier.backends) {
    if (pool.backends.size() == TunnelPool::kMaxBackends) return;
    if (std::ranges::find(pool.backends, known) == pool.backends.end()) pool.backends.push_back(known);
  }
}

}  // namespace

TunnelPools make_tunnel_pools(const Options& options, const BackendSet& backends, const TunnelPools& earlier,
                              bool keep_leaving) {
  TunnelPools pools;
  const auto before = [&] { return pools.size() < earlier.size() ? earlier[pools.size()].get() : nullptr; };
  const auto finish = [&](std::shared_ptr<TunnelPool> pool) {
    if (keep_leaving && before() != nullptr) add_leaving(*pool, *before());
    pools.push_back(std::move(pool));
  };
  for (const TcpOption& option : options.tcp) {
    const auto policy = option.policy == "least_conn" ? TunnelPolicy::LeastConn : TunnelPolicy::RoundRobin;
    auto pool = next_pool(before(), TunnelKind::Tcp, option.listen, policy);
    pool->send_proxy_protocol = option.send_proxy_protocol;
    for (std::size_t i = 0; i < option.addresses.size(); ++i) {
      pool->backends.push_back(next_backend(before(), option.backends[i], option.addresses[i], nullptr));
    }
    finish(std::move(pool));
  }
  if (options.wss_listen.empty()) return pools;
  auto pool = next_pool(before(), TunnelKind::Wss, options.wss_listen, TunnelPolicy::LeastConn);
  pool->max_connections = static_cast<std::uint32_t>(options.wss_max_connections);
  pool->send_proxy_protocol = options.wss_send_proxy_protocol;
  for (std::size_t i = 0; i < options.backends.size(); ++i) {
    const BackendOption& option = options.backends[i];
    if (option.wss.empty()) continue;
    const auto& http = backends.shared_at(backends.members()[i]);
    pool->backends.push_back(next_backend(before(), option.id, option.wss_address, http));
  }
  finish(std::move(pool));
  return pools;
}

}  // namespace dlb::lb
