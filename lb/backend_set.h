// BackendSet: the backends by index, and what all threads know of each. Data workers reserve and release
// slots and record outcomes; the control thread writes health, statistics and admin state; everyone reads.
// Each backend is a few cache lines of atomics; nothing here takes a lock, and no picture older than its
// reader can make it oversell: slots are reserved by compare-and-swap, never added and undone.
//
// A set is a value that never changes; each thread has the one of its configuration. A reload makes the next
// one (backend_changes.h), in which the same server at the same address is the same Backend at the same
// index.
//
// A backend's state is separate axes, joined only by eligible() (lb/policy/eligibility.h):
//   admin (ready, drain, maintenance) × health (up, down) × ejected-until × memory guards × free slots
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "common/address.h"
#include "common/clock.h"
#include "lb/policy/health_streak.h"
#include "lb/policy/latency_average.h"
#include "lb/policy/stall_watch.h"

namespace dlb::lb {

struct Options;

enum class AdminState : std::uint8_t { Ready, Drain, Maintenance };

enum class Membership : std::uint8_t {
  Member,   // of the configuration in force
  Leaving,  // no longer, but it serves on until those that came with the reload have been checked
  Gone,     // gets nothing new; what runs on it ends in its own time
};

// Which connections and limits an exchange uses: messages, or the isolated feed transport (L6).
enum class TransportClass : std::uint8_t { Message, Feed };

// A bounded counter of reservations shared by all threads.
class SlotCounter {
 public:
  // Reserves one when fewer than `cap` are taken (0: no cap).
  bool try_reserve(std::uint32_t cap) {
    std::uint32_t taken = taken_.load(std::memory_order_relaxed);
    do {
      if (cap != 0 && taken >= cap) return false;
    } while (!taken_.compare_exchange_weak(taken, taken + 1, std::memory_order_acq_rel,
                                           std::memory_order_relaxed));
    return true;
  }
  // Reserves one when exactly `seen` are taken still: for a choice that was made by that figure.
  bool try_reserve_at(std::uint32_t seen) {
    return taken_.compare_exchange_strong(seen, seen + 1, std::memory_order_acq_rel,
                                          std::memory_order_relaxed);
  }
  void release() { taken_.fetch_sub(1, std::memory_order_acq_rel); }
  std::uint32_t taken() const { return taken_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint32_t> taken_{0};
};

// What the last /internal/stats said (or -1 for what it did not say). Written by the control thread only; a
// reader may see parts of two samples, which a score tolerates.
struct BackendReport {
  std::atomic<double> cpu_percent{-1};            // of the cgroup's quota
  std::atomic<double> unreclaimable_percent{-1};  // of the tightest limit: what both memory guards judge
  std::atomic<double> working_set_percent{-1};
  std::atomic<double> total_percent{-1};
  std::atomic<std::int64_t> received_at_ns{0};  // on the monotonic line; 0: never
};

struct BackendCounters {
  std::atomic<std::uint64_t> requests{0};  // picked, retries included
  std::atomic<std::uint64_t> responses_2xx{0}, responses_3xx{0}, responses_4xx{0}, responses_5xx{0};
  std::atomic<std::uint64_t> connect_failures{0}, response_failures{0}, timeouts{0}, resets{0};
  std::atomic<std::uint64_t> retried_away{0};  // exchanges that left this backend for another
  std::atomic<std::uint64_t> connections_opened{0}, connections_reused{0};
  std::atomic<std::uint64_t> bytes_in{0}, bytes_out{0};  // from and to the backend
  std::atomic<std::uint64_t> probes{0}, probe_failures{0}, probes_skipped{0};
  std::atomic<std::uint64_t> health_changes{0};  // to up, or to down
  std::atomic<std::uint64_t> drain_cuts{0};  // exchanges that it failed, before the client, while it drained
};

// What outlier ejection (L12, lb/outlier_monitor.h) knows of a backend, beside Backend::ejected_until_ns.
struct EjectionState {
  std::atomic<std::uint32_t> failures_in_row{0};  // counted by data workers
  std::atomic<std::int64_t> judged_from_ns{0};    // outcomes of requests given to it before then don't count
  std::atomic<std::uint32_t> times{0};            // ejections that are not forgotten yet
  std::atomic<std::uint64_t> total{0};            // ejections ever
};

// The last trouble with a backend, for /lb/status. Any thread writes: one that would have to wait drops its
// text instead.
class LastError {
 public:
  struct Entry {
    std::string text;          // empty: none yet
    std::int64_t wall_us = 0;  // when, since 1970
    std::uint64_t count = 0;   // ever
  };

  void set(std::string_view text, std::int64_t wall_us);
  Entry get() const;

 private:
  mutable std::mutex mutex_;
  Entry entry_;
};

class alignas(64) Backend {
 public:
  // With `counts`, the counters of its predecessor of the same id at another address.
  Backend(std::uint32_t index_in_set, std::string name, std::string url_text, Address backend_address,
          std::uint32_t backend_weight, std::shared_ptr<BackendCounters> counts = {})
      : index(index_in_set),
        id(std::move(name)),
        url(std::move(url_text)),
        address(backend_address),
        weight(backend_weight),
        shared_counters(counts ? std::move(counts) : std::make_shared<BackendCounters>()),
        counters(*shared_counters) {}

  // What its Host field says when we ask for ourselves: host and port of the url; empty for a Unix socket.
  std::string_view authority() const;

  // No request, no tunnel and no busy connection of any worker's is on it.
  bool idle() const {
    return slots.taken() == 0 && connections.taken() == 0 && feed_connections.taken() == 0 &&
           tunnels.taken() == 0;
  }
  // Ask this before health: who comes back has lost its health first.
  bool gone() const { return membership.load(std::memory_order_acquire) == Membership::Gone; }
  // It has stopped answering: others are preferred.
  bool stalled(TimePoint now) const {
    return heads.stalled(now, [&] { return read_latency(latency_us, latency_at_ns, now); });
  }
  // Gets nothing new, by the operator's will or by its own word.
  bool taken_out() const {
    return gone() || admin.load(std::memory_order_relaxed) != AdminState::Ready ||
           reported_draining.load(std::memory_order_relaxed);
  }

  // Fixed for its life.
  const std::uint32_t index;
  const std::string id;
  const std::string url;
  const Address address;
  std::atomic<std::uint32_t> weight;  // 0: gets no new request

  // Hot: written by data workers.
  alignas(64) SlotCounter slots;  // outstanding requests; a feed holds one until its response head is in
  SlotCounter feed_connections;   // busy connections of the feed transport
  SlotCounter connections;        // busy connections of the message transport
  SlotCounter tunnels;            // upgraded connections: they count under none of the above
  std::atomic<std::uint64_t> last_pick{0};  // order of the last pick, for rotating exact ties

  // Latency to response head, feed paths left out: see lb/policy/latency_average.h for the meaning of the two
  // words.
  alignas(64) std::atomic<double> latency_us{0};
  std::atomic<std::int64_t> latency_at_ns{0};
  StallWatch heads;  // exchanges that wait for a connect or a response head

  // For `peak_ewma` and `adaptive`: lb/policy/peak_latency.h, veto.h. For `weighted_round_robin`:
  // weighted_turn.h.
  alignas(64) std::atomic<double> peak_us{0};
  std::atomic<std::int64_t> peak_at_ns{0};
  std::atomic<std::uint8_t> veto{0};
  std::atomic<std::uint64_t> turn{0};

  // Written by the control thread; `healthy`, `accepting` and the two passive words also by
  // HealthChecker::note_connect_*() on the data workers.
  alignas(64) std::atomic<bool> healthy{false};  // active checks and failed connects joined
  // Up again, or off probation: it starts slowly; 0: never was out.
  std::atomic<std::int64_t> back_since_ns{0};
  // The last probe connected, and connects haven't failed failure-limit times since.
  std::atomic<bool> accepting{false};
  std::atomic<HealthState> active_health{HealthState::Unknown};  // active checks alone
  std::atomic<AdminState> admin{AdminState::Ready};
  std::atomic<bool> resting{false};               // an instance that the load does not need: autoscale.h
  std::atomic<bool> reported_draining{false};     // its own health check said so
  std::atomic<bool> memory_blocked{false};        // either memory guard, with hysteresis
  std::atomic<std::int64_t> ejected_until_ns{0};  // 0: not ejected; past: on probation
  EjectionState ejection;
  std::atomic<std::uint32_t> connect_failures_in_row{0};
  std::atomic<std::int64_t> connect_down_at_ns{0};  // 0: not taken out by failed connects
  std::atomic<std::int64_t> checked_at_ns{0};       // the last check's verdict; 0: none yet
  std::atomic<std::int64_t> check_us{-1};           // how long it took
  BackendReport report;

  // Written by reloads, on the control thread.
  std::atomic<Membership> membership{Membership::Member};
  std::atomic<bool> counted{true};  // false: its counters are another one's too, who counts them
  // The serial of the configuration from which on it is Gone; control thread only.
  std::uint64_t gone_since = 0;

  LastError last_error;
  const std::shared_ptr<BackendCounters> shared_counters;
  BackendCounters& counters;
};

// The axes in one word for people: `starting`, `ready`, `draining`, `maintenance`, `down`, `ejected`,
// `memory`, `stalled`, `probation`, `gone`.
std::string_view backend_state(const Backend& backend, TimePoint now);

// What it names is shared: a copy of a set is another list of the same backends.
class BackendSet {
 public:
  using Members = std::vector<std::uint32_t>;

  // `members`: the indexes of the configuration's backends, in its order.
  BackendSet(std::vector<std::shared_ptr<Backend>> backends, Members members)
      : backends_(std::move(backends)), members_(std::move(members)), common_(std::make_shared<Common>()) {}
  // The next set: what `earlier` counts goes on.
  BackendSet(std::vector<std::shared_ptr<Backend>> backends, Members members, const BackendSet& earlier)
      : backends_(std::move(backends)), members_(std::move(members)), common_(earlier.common_) {}

  // All of them by index, those that are leaving or gone too.
  std::size_t size() const { return backends_.size(); }
  Backend& at(std::size_t index) const { return *backends_[index]; }
  const std::shared_ptr<Backend>& shared_at(std::size_t index) const { return backends_[index]; }
  auto begin() const { return backends_.begin(); }
  auto end() const { return backends_.end(); }

  const Members& members() const { return members_; }

  // Grows by one whenever something that eligible() looks at may have changed by event (health, statistics,
  // admin state, weight). Routers that keep a heap look at it to know when to look again.
  void note_change() const { common_->changes.fetch_add(1, std::memory_order_release); }
  std::uint64_t changes() const { return common_->changes.load(std::memory_order_acquire); }

  // The counters of backends whose place another one has taken, added up.
  BackendCounters& departed() const { return common_->departed; }

 private:
  struct Common {
    alignas(64) std::atomic<std::uint64_t> changes{0};
    BackendCounters departed;
  };

  std::vector<std::shared_ptr<Backend>> backends_;
  Members members_;
  std::shared_ptr<Common> common_;
};

// True while panic routing (L11) would be in force: every backend that was not taken out on purpose fails its
// checks, and one of them at least still accepts connections.
bool in_panic(const BackendSet& backends, const Options& options);

// The backends of `options` (after finish_options()), none of them checked yet.
std::unique_ptr<BackendSet> make_backend_set(const Options& options);

}  // namespace dlb::lb
