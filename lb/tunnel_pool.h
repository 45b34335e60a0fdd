// TunnelPool: where the connections of one layer-4 listener go: a [[tcp]] table's backends, or those that
// wss-listen spreads over. Shared by all workers: what changes is atomic, a backend's count is raised by
// compare-and-swap from the figure that the choice was made by, so that several workers choosing at once do
// not all take the same one.
//
// Health: a [[tcp]] backend by its own TCP checks (tunnel_health.h); a wss-listen backend by that of the HTTP
// backend it belongs to, which also has to be ready, not draining, not ejected and memory-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/address.h"
#include "common/clock.h"
#include "lb/backend_set.h"
#include "lb/policy/tunnel_choice.h"

namespace dlb::lb {

struct Options;

enum class TunnelKind : std::uint8_t { Upgrade, Tcp, Wss };

class TunnelBackend {
 public:
  TunnelBackend(std::string name, Address where, const Backend* http_backend)
      : id(std::move(name)), address(where), http(http_backend) {}

  bool usable(TimePoint now) const;

  const std::string id;
  const Address address;
  const Backend* const http;  // of wss-listen: whose health counts; else null

  std::atomic<bool> up{false};       // of [[tcp]]: its checks
  std::atomic<bool> checked{false};  // likewise: once at least
  alignas(64) SlotCounter active;    // connections, from the pick on
  std::atomic<std::uint64_t> opened{0}, connect_failures{0};
  std::atomic<std::uint64_t> bytes_in{0}, bytes_out{0};  // from and to the backend
};

class TunnelPool {
 public:
  // The set of those that were tried is a word.
  static constexpr std::size_t kMaxBackends = 64;

  TunnelPool(TunnelKind pool_kind, std::string listen_text, TunnelPolicy how)
      : kind(pool_kind), listen(std::move(listen_text)), policy(how) {}

  // A usable backend that is not in `tried` (bit per index), with one connection reserved; nothing when there
  // is none.
  std::optional<std::uint32_t> pick(std::uint64_t tried, TimePoint now);

  const TunnelKind kind;
  const std::string listen;
  const TunnelPolicy policy;
  std::uint32_t max_connections = 0;  // in all; 0: no limit of its own
  bool send_proxy_protocol = false;
  std::vector<std::unique_ptr<TunnelBackend>>
      backends;  // 1 to kMaxBackends; complete before the first thread

  alignas(64) SlotCounter connections;

 private:
  std::atomic<std::uint64_t> turn_{0};
};

using TunnelPools = std::vector<std::unique_ptr<TunnelPool>>;

// The pools of `options` (after finish_options()): one for each [[tcp]] table in order, then wss-listen's.
TunnelPools make_tunnel_pools(const Options& options, const BackendSet& backends);

}  // namespace dlb::lb
