#include "lb/backend_changes.h"

#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "lb/options.h"

namespace dlb::lb {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

// As a server that nothing is known of: the next check decides.
void forget_health(Backend& backend) {
  backend.healthy.store(false, kRelaxed);
  backend.accepting.store(false, kRelaxed);
  backend.active_health.store(HealthState::Unknown, kRelaxed);
  backend.reported_draining.store(false, kRelaxed);
  backend.memory_blocked.store(false, kRelaxed);
  backend.connect_failures_in_row.store(0, kRelaxed);
  backend.connect_down_at_ns.store(0, kRelaxed);
  backend.checked_at_ns.store(0, kRelaxed);
  backend.report.received_at_ns.store(0, kRelaxed);
}

template <auto... Member>
void add_all(BackendCounters& to, const BackendCounters& from) {
  ((to.*Member).fetch_add((from.*Member).load(kRelaxed), kRelaxed), ...);
}

void add_counters(BackendCounters& to, const BackendCounters& from) {
  using C = BackendCounters;
  add_all<&C::requests, &C::responses_2xx, &C::responses_3xx, &C::responses_4xx, &C::responses_5xx,
          &C::connect_failures, &C::response_failures, &C::timeouts, &C::resets, &C::retried_away,
          &C::connections_opened, &C::connections_reused, &C::bytes_in, &C::bytes_out, &C::probes,
          &C::probe_failures, &C::probes_skipped, &C::health_changes, &C::drain_cuts>(to, from);
}

// Makes one set out of the current one; see change_backends().
class Change {
 public:
  Change(const BackendSet& current, const Options& before, std::uint64_t seen_by_all)
      : current_(current), backends_(current.begin(), current.end()) {
    for (const BackendOption& option : before.backends) weights_.emplace(option.id, option.weight);
    for (const auto& backend : backends_) {
      by_id_[backend->id].push_back(backend->index);
      if (backend->gone() && backend->gone_since <= seen_by_all && backend->idle())
        free_.push_back(backend->index);
    }
  }

  // Those that are known first, so that no new one takes the place of one that comes back.
  void take(const std::vector<BackendOption>& options) {
    members_.resize(options.size());
    std::vector<std::size_t> unknown;
    for (std::size_t i = 0; i < options.size(); ++i) {
      if (Backend* known = find(options[i]); known != nullptr) {
        keep(*known, options[i]);
        members_[i] = known->index;
      } else {
        unknown.push_back(i);
      }
    }
    for (const std::size_t i : unknown) members_[i] = add(options[i]);
  }

  BackendChanges finish() && {
    std::vector<std::uint32_t> leaving;
    const std::unordered_set<std::uint32_t> members(members_.begin(), members_.end());
    for (const auto& backend : backends_) {
      if (members.contains(backend->index) || backend->gone()) continue;
      backend->membership.store(Membership::Leaving, kRelaxed);
      leaving.push_back(backend->index);
    }
    note_counted();
    return {BackendSet(std::move(backends_), std::move(members_), current_), std::move(added_),
            std::move(leaving)};
  }

 private:
  Backend* find(const BackendOption& option) const {
    const auto known = by_id_.find(option.id);
    if (known == by_id_.end()) return nullptr;
    for (const std::uint32_t index : known->second) {
      Backend& backend = *backends_[index];
      if (backend.url == option.url && backend.address == option.address) return &backend;
    }
    return nullptr;
  }

  // The one that has its id and is at another address.
  const Backend* predecessor(const BackendOption& option) const {
    const auto known = by_id_.find(option.id);
    if (known == by_id_.end()) return nullptr;
    for (const std::uint32_t index : known->second) {
      const Backend& backend = current_.at(index);
      if (backend.membership.load(kRelaxed) == Membership::Member) return &backend;
    }
    return nullptr;
  }

  void keep(Backend& backend, const BackendOption& option) {
    const auto before = weights_.find(option.id);
    if (before == weights_.end() || before->second != option.weight)
      backend.weight.store(static_cast<std::uint32_t>(option.weight), kRelaxed);
    if (backend.gone()) {
      forget_health(backend);
      std::erase(free_, backend.index);
      added_.push_back(backend.index);
    }
    backend.membership.store(Membership::Member, std::memory_order_release);
  }

  std::uint32_t add(const BackendOption& option) {
    auto index = static_cast<std::uint32_t>(backends_.size());
    if (!free_.empty()) {
      index = free_.back();
      free_.pop_back();
      const Backend& old = *backends_[index];
      if (old.counted.load(kRelaxed)) add_counters(current_.departed(), old.counters);
    } else {
      backends_.emplace_back();
    }
    const Backend* before = predecessor(option);
    backends_[index] = std::make_shared<Backend>(index, option.id, option.url, option.address,
                                                 static_cast<std::uint32_t>(option.weight),
                                                 before != nullptr ? before->shared_counters : nullptr);
    if (before != nullptr) backends_[index]->admin.store(before->admin.load(kRelaxed), kRelaxed);
    added_.push_back(index);
    return index;
  }

  // Of those that share their counters, the member counts.
  void note_counted() {
    std::unordered_set<const BackendCounters*> seen;
    for (const std::uint32_t index : members_) seen.insert(&backends_[index]->counters);
    for (const auto& backend : backends_) {
      const bool member = backend->membership.load(kRelaxed) == Membership::Member;
      backend->counted.store(member || seen.insert(&backend->counters).second, kRelaxed);
    }
  }

  const BackendSet& current_;
  std::vector<std::shared_ptr<Backend>> backends_;
  std::unordered_map<std::string_view, std::vector<std::uint32_t>> by_id_;
  std::unordered_map<std::string_view, std::int64_t> weights_;
  std::vector<std::uint32_t> free_;
  std::vector<std::uint32_t> added_;
  BackendSet::Members members_;
};

}  // namespace

BackendChanges change_backends(const BackendSet& current, const Options& before, const Options& after,
                               std::uint64_t seen_by_all) {
  Change change(current, before, seen_by_all);
  change.take(after.backends);
  return std::move(change).finish();
}

void retire_backends(const BackendSet& set, const std::vector<std::uint32_t>& leaving, std::uint64_t serial) {
  for (const std::uint32_t index : leaving) {
    Backend& backend = set.at(index);
    if (backend.membership.load(kRelaxed) != Membership::Leaving) continue;
    backend.gone_since = serial;
    backend.membership.store(Membership::Gone, std::memory_order_release);
  }
  set.note_change();
}

}  // namespace dlb::lb
