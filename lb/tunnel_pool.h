// TunnelPool: where the connections of one layer-4 listener go: a [[tcp]] table's backends, or those that
// wss-listen spreads over. Shared by all workers: what changes is atomic, a backend's count is raised by
// compare-and-swap from the figure that the choice was made by, so that several workers choosing at once do
// not all take the same one. A reload makes the next pool of a listener, which goes on with the same backends
// and counts; who has begun in an old one ends in it.
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
  TunnelBackend(std::string name, Address where, std::shared_ptr<const Backend> http_backend)
      : id(std::move(name)), address(where), http(std::move(http_backend)) {}

  bool usable(TimePoint now) const;

  const std::string id;
  const Address address;
  const std::shared_ptr<const Backend> http;  // of wss-listen: whose health counts; else null

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
      : kind(pool_kind), listen(std::move(listen_text)), policy(how), common_(std::make_shared<Common>()) {}
  // The next pool of the listener that `earlier` was of.
  TunnelPool(const TunnelPool& earlier, TunnelPolicy how)
      : kind(earlier.kind), listen(earlier.listen), policy(how), common_(earlier.common_) {}

  // A usable backend that is not in `tried` (bit per index), with one connection reserved; nothing when there
  // is none.
  std::optional<std::uint32_t> pick(std::uint64_t tried, TimePoint now) const;

  // Its connections, from accept to end; those that began in earlier pools too.
  SlotCounter& connections() const { return common_->connections; }

  const TunnelKind kind;
  const std::string listen;
  const TunnelPolicy policy;
  std::uint32_t max_connections = 0;  // in all; 0: no limit of its own
  bool send_proxy_protocol = false;
  std::vector<std::shared_ptr<TunnelBackend>> backends;  // 0 to kMaxBackends; complete before it is shared

 private:
  struct Common {
    alignas(64) SlotCounter connections;
    std::atomic<std::uint64_t> turn{0};
  };
  std::shared_ptr<Common> common_;
};

using TunnelPools = std::vector<std::shared_ptr<const TunnelPool>>;

// The pools of `options` (after finish_options()): one for each [[tcp]] table in order, then wss-listen's.
// With `earlier` ones, of the same listeners, it is the step from those: backends at the same address go on.
// `keep_leaving` keeps those that are no longer named beside the others, until the new ones have been
// checked.
TunnelPools make_tunnel_pools(const Options& options, const BackendSet& backends,
                              const TunnelPools& earlier = {}, bool keep_leaving = false);

}  // namespace dlb::lb
