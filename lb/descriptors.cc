#include "lb/descriptors.h"

#include <sys/resource.h>

#include <algorithm>
#include <limits>

#include "common/socket.h"
#include "lb/autoscale_options.h"
#include "lb/options.h"

namespace dlb::lb {
namespace {

// Standard streams, signals, the control loop, cgroup and /proc files, the access log, and some room for
// accepting those who are refused.
constexpr std::uint64_t kOwn = 40;
constexpr std::uint64_t kAdmin = 97;        // its listener, connections and readers of events
constexpr std::uint64_t kOwnPerWorker = 3;  // epoll and two event descriptors
constexpr std::uint64_t kPipesPerWorker = 256;

}  // namespace

DescriptorNeeds descriptor_needs(const Options& options, std::size_t backends) {
  const auto workers = static_cast<std::uint64_t>(options.workers);
  backends += autoscale_most(options.autoscale);
  DescriptorNeeds needs;
  needs.own = kOwn + kOwnPerWorker * workers + (options.admin_address.empty() ? 0 : kAdmin);
  needs.probes = 2 * backends;
  needs.upstreams =
      static_cast<std::uint64_t>(options.proxy_max_conns_per_host + options.proxy_max_feed_conns_per_host) *
          backends +
      static_cast<std::uint64_t>(options.proxy_max_idle) * workers;
  // A tunnel of layer 4 has a backend connection of its own.
  if (!options.wss_listen.empty()) needs.upstreams += static_cast<std::uint64_t>(options.wss_max_connections);
  if (!options.tcp.empty()) needs.upstreams += static_cast<std::uint64_t>(options.client_max_connections);
  for (const TcpOption& tcp : options.tcp) needs.probes += tcp.backends.size();
  needs.pipes = kPipesPerWorker * workers;
  needs.clients = static_cast<std::uint64_t>(options.client_max_connections);
  needs.burst = static_cast<std::uint64_t>(options.client_connection_burst);
  return needs;
}

DescriptorPlan plan_descriptors(std::uint64_t limit, const DescriptorNeeds& needs) {
  const std::uint64_t fixed = needs.own + needs.probes;
  const std::uint64_t left = limit > fixed ? limit - fixed : 0;
  const std::uint64_t most = std::max(left / 2, left > needs.upstreams ? left - needs.upstreams : 0);
  constexpr std::uint64_t kLargest = std::numeric_limits<std::uint32_t>::max() / 2;
  const std::uint64_t clients = needs.clients + needs.burst;
  DescriptorPlan plan;
  plan.lowered = clients > most;
  plan.wanted = fixed + clients + std::min(needs.upstreams, clients) + needs.pipes;
  const std::uint64_t cap = needs.clients == 0 ? most : std::min(most, needs.clients);
  plan.client_cap = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(cap, 1, kLargest));
  plan.client_burst = static_cast<std::uint32_t>(std::min(needs.burst, most - std::min(most, cap)));
  return plan;
}

DescriptorPlan raise_descriptor_limit(const Options& options, std::size_t backends, Log& log) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
    ::getrlimit(RLIMIT_NOFILE, &limit);
  }
  const DescriptorPlan plan = plan_descriptors(limit.rlim_cur, descriptor_needs(options, backends));
  if (plan.lowered) {
    log.warn(
        "too few file descriptors for client-max-connections, fewer clients are admitted: raise ulimit -n",
        {{"wanted", plan.wanted},
         {"have", static_cast<std::uint64_t>(limit.rlim_cur)},
         {"clients", static_cast<std::uint64_t>(plan.client_cap)}});
  }
  return plan;
}

bool is_own_shortage(int err) { return is_descriptor_shortage(err) || err == EADDRNOTAVAIL; }

}  // namespace dlb::lb
