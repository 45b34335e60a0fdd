// How a pick becomes a reservation: view → choose() → compare-and-swap, again when another worker was faster.
// By a heap, by few that are drawn, or by a look at all: one file, since all three begin with the same view
// and end with the same reservation.
//
// The connection is reserved before the slot, so that a slot is never taken and given back: a taken slot
// always belongs to an exchange that will end and wake a waiter. A connection is given back only when the
// slots are full, which means that such exchanges exist; so nobody who found it taken for that instant waits
// for nothing.
#include "lb/router.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <vector>

#include "lb/metrics.h"
#include "lb/options.h"
#include "lb/policy/latency_average.h"
#include "lb/policy/least_conn_heap.h"
#include "lb/policy/outlier.h"
#include "lb/policy/peak_latency.h"
#include "lb/policy/policy.h"
#include "lb/policy/veto.h"
#include "lb/policy/weighted_turn.h"
#include "lb/score_view.h"

namespace dlb::lb {
namespace {

// From how many backends on `least_conn` uses its heap also with several workers.
constexpr std::size_t kScanUpTo = 64;
// How long a backend that the heap has put aside may stay unseen when no event says otherwise (an ejection
// that ends, a slot that another worker has freed).
constexpr Duration kLookAgain = std::chrono::milliseconds(100);
constexpr Duration kVetoInterval = std::chrono::milliseconds(100);
// From how many backends for each one to be drawn on it is quicker to draw than to look at all; and how often
// it is tried for each.
constexpr std::size_t kDrawFrom = 2;
constexpr std::size_t kTriesEach = 2;
// Lost races after which a pick says Full: its caller queues and looks again, so nothing is lost.
constexpr int kAttemptsMax = 64;

}  // namespace

struct Router::Impl {
  Impl(const Options& o, const BackendSet& s, std::uint64_t seed) : rng(seed) { apply(o, s); }

  void apply(const Options& o, const BackendSet& s);

  SlotCounter& connections_of(Backend& backend, TransportClass transport) const {
    return transport == TransportClass::Feed ? backend.feed_connections : backend.connections;
  }
  bool goes_by_latency() const {
    return rules.kind == PolicyKind::Adaptive || rules.kind == PolicyKind::PeakEwma;
  }
  std::uint32_t connection_limit(TransportClass transport) const {
    return transport == TransportClass::Feed ? feed_limit : message_limit;
  }

  std::uint32_t cap_of(const Backend& backend, TimePoint now) const;
  BackendView view_of(Backend& backend, TransportClass transport, TimePoint now) const;
  void look_at_latency(Backend& backend, BackendView& view, TimePoint now) const;
  void refresh_vetoes(TimePoint now);
  bool take_turn(Backend& backend, const BackendView& view, std::uint64_t newest_pick);
  bool reserve(Backend& backend, TransportClass transport, TimePoint now) const;
  Choice scan_pick(TransportClass transport, TimePoint now, std::span<const std::uint32_t> excluded);
  std::optional<Choice> heap_pick(TransportClass transport, TimePoint now);
  std::optional<Choice> drawn_pick(TransportClass transport, TimePoint now,
                                   std::span<const std::uint32_t> excluded);
  Choice picked(Backend& backend, double score, bool fallback, bool panic);
  void put_in_heap(std::uint32_t index);
  void refresh_heap(TimePoint now);

  const Options* options = nullptr;
  const BackendSet* backends = nullptr;
  PolicyRules rules;
  std::uint32_t cap = 0, message_limit = 0, feed_limit = 0;
  // How a pick begins; a scan is what comes when it finds none.
  enum class Way : std::uint8_t { Scan, Heap, Draw } way = Way::Scan;
  std::vector<BackendView> views;    // scratch of scan_pick() and drawn_pick()
  std::vector<std::uint32_t> drawn;  // likewise: whose the first views are
  std::vector<std::uint32_t> order;  // by index: its place in the configuration
  Rng rng;                           // for policies that draw
  TimePoint next_vetoes_at{};        // adaptive
  std::uint64_t newest_turn = 0;     // weighted_round_robin: the furthest that this worker has given
  std::atomic<double> normal_us{
      0};  // of all this worker's answers; what a failure or a lack of samples counts by
  std::atomic<std::int64_t> normal_at_ns{0};

  // least_conn only. Every backend is in the heap or in `aside` (not to be picked for now).
  std::optional<LeastConnHeap> heap;
  std::vector<std::uint32_t> aside;
  std::vector<std::uint32_t> passed_over;  // scratch of heap_pick()
  std::uint64_t seen_changes = 0;
  TimePoint look_again_at{};
  std::uint64_t tick = 0;  // order of this router's picks

  WorkerCount picks, fallbacks, panics, full, no_healthy, no_memory;
};

void Router::Impl::apply(const Options& o, const BackendSet& s) {
  options = &o;
  backends = &s;
  rules = {.kind = o.policy_kind, .threshold = o.threshold, .panic_fallback = o.panic_fallback};
  order.assign(s.size(), static_cast<std::uint32_t>(s.size()));
  for (std::uint32_t place = 0; place < s.members().size(); ++place) order[s.members()[place]] = place;
  cap = static_cast<std::uint32_t>(o.backend_cap);
  message_limit = static_cast<std::uint32_t>(o.proxy_max_conns_per_host);
  feed_limit = static_cast<std::uint32_t>(o.proxy_max_feed_conns_per_host);
  views.resize(s.size());
  heap.reset();
  aside.clear();
  const std::size_t draw = drawn_by(o.policy_kind);
  drawn.reserve(draw);
  way = draw != 0 && s.size() >= draw * kDrawFrom ? Way::Draw : Way::Scan;
  if (o.policy_kind != PolicyKind::LeastConn || (o.workers != 1 && s.size() <= kScanUpTo)) return;
  way = Way::Heap;
  heap.emplace(s.size());
  aside.reserve(s.size());
  passed_over.reserve(s.size());
  for (std::uint32_t i = 0; i < s.size(); ++i) put_in_heap(i);
}

// backend-cap, and less on probation (an ejection whose time is over).
std::uint32_t Router::Impl::cap_of(const Backend& backend, TimePoint now) const {
  const std::int64_t until = backend.ejected_until_ns.load(std::memory_order_relaxed);
  if (until == 0 || until > now.time_since_epoch().count()) return cap;
  return cap == 0 ? kProbationSlots : std::min(cap, kProbationSlots);
}

BackendView Router::Impl::view_of(Backend& backend, TransportClass transport, TimePoint now) const {
  constexpr auto relaxed = std::memory_order_relaxed;
  BackendView view;
  view.draining = backend.taken_out();
  view.healthy = backend.healthy.load(relaxed);
  view.accepting = backend.accepting.load(relaxed);
  view.ejected = backend.ejected_until_ns.load(relaxed) > now.time_since_epoch().count();
  view.resting = backend.resting.load(relaxed);
  view.stalled = backend.stalled(now);
  view.memory_blocked = backend.memory_blocked.load(relaxed);
  view.weight = backend.weight.load(relaxed);
  view.in_flight = backend.slots.taken();
  view.last_pick = backend.last_pick.load(relaxed);
  const std::uint32_t slots = cap_of(backend, now);
  view.slot_free = slots == 0 || view.in_flight < slots;
  view.connection_free = connections_of(backend, transport).taken() < connection_limit(transport);
  switch (rules.kind) {
    case PolicyKind::Score:
      view.score = score_of(backend, *options, now).total;
      break;
    case PolicyKind::Adaptive:
    case PolicyKind::PeakEwma:
      look_at_latency(backend, view, now);
      break;
    case PolicyKind::Prequal:
      view.latency_us = read_latency(backend.latency_us, backend.latency_at_ns, now);
      break;
    case PolicyKind::WeightedRoundRobin:
      view.turn = current_turn(backend.turn.load(relaxed), view.weight, newest_turn);
      break;
    case PolicyKind::First:
      view.order = order[backend.index];
      break;
    case PolicyKind::LeastConn:
    case PolicyKind::RoundRobin:
    case PolicyKind::RandomTwo:
      break;
  }
  return view;
}

void Router::Impl::look_at_latency(Backend& backend, BackendView& view, TimePoint now) const {
  constexpr auto relaxed = std::memory_order_relaxed;
  view.peak_us = read_peak(backend.peak_us, backend.peak_at_ns, now);
  if (rules.kind != PolicyKind::Adaptive) return;
  // On probation it starts slowly from the end of its ejection, then once more when it is sound.
  const std::int64_t until = backend.ejected_until_ns.load(relaxed);
  view.share = slow_start_share(until != 0 ? until : backend.back_since_ns.load(relaxed), now);
  view.vetoed = backend.veto.load(relaxed) != 0;
}

// Each kVetoInterval: statistics don't come more often, and the cost of a backend follows its load at once
// anyway.
void Router::Impl::refresh_vetoes(TimePoint now) {
  if (rules.kind != PolicyKind::Adaptive || now < next_vetoes_at) return;
  next_vetoes_at = now + kVetoInterval;
  const auto in_service = [](const Backend& backend) {
    return !backend.taken_out() && backend.healthy.load(std::memory_order_relaxed);
  };
  ScoreSum all;
  for (const auto& backend : *backends) {
    if (in_service(*backend)) all.add(score_of(*backend, *options, now));
  }
  for (const auto& backend : *backends) {
    const Score score = score_of(*backend, *options, now);
    const ScoreSum others = in_service(*backend) ? all.without(score) : all;
    const std::uint8_t before = backend->veto.load(std::memory_order_relaxed);
    // Alone there is nobody to stand out from.
    const std::uint8_t after =
        others.empty() ? std::uint8_t{0} : next_veto(before, score, others.mean(), rules.threshold);
    if (after != before) backend->veto.store(after, std::memory_order_relaxed);
  }
}

// False: another worker has given this backend a turn meanwhile, and turns are all that the policy goes by.
bool Router::Impl::take_turn(Backend& backend, const BackendView& view, std::uint64_t newest_pick) {
  if (rules.kind == PolicyKind::WeightedRoundRobin) {
    std::uint64_t turn = backend.turn.load(std::memory_order_relaxed);
    if (current_turn(turn, view.weight, newest_turn) != view.turn ||
        !backend.turn.compare_exchange_strong(turn, view.turn + stride_of(view.weight),
                                              std::memory_order_relaxed)) {
      return false;
    }
    newest_turn = std::max(newest_turn, view.turn);
  }
  std::uint64_t expected = view.last_pick;
  const bool first =
      backend.last_pick.compare_exchange_strong(expected, newest_pick + 1, std::memory_order_relaxed);
  return first || rules.kind != PolicyKind::RoundRobin;
}

bool Router::Impl::reserve(Backend& backend, TransportClass transport, TimePoint now) const {
  SlotCounter& connections = connections_of(backend, transport);
  if (!connections.try_reserve(connection_limit(transport))) return false;
  if (backend.slots.try_reserve(cap_of(backend, now))) return true;
  connections.release();
  return false;
}

// `score` is the one that the decision was made with: before this request was added.
Choice Router::Impl::picked(Backend& backend, double score, bool fallback, bool panic) {
  picks.add();
  if (fallback) fallbacks.add();
  if (panic) panics.add();
  return Choice{PickStatus::Picked, backend.index, fallback, panic, static_cast<float>(score)};
}

Choice Router::Impl::scan_pick(TransportClass transport, TimePoint now,
                               std::span<const std::uint32_t> excluded) {
  rules.draw = rng.next();
  rules.normal_us = normal_us.load(std::memory_order_relaxed);
  refresh_vetoes(now);
  for (int attempt = 0; attempt < kAttemptsMax; ++attempt) {
    std::uint64_t newest = 0;
    for (std::uint32_t i = 0; i < views.size(); ++i) {
      views[i] = view_of(backends->at(i), transport, now);
      newest = std::max(newest, views[i].last_pick);
    }
    for (const std::uint32_t index : excluded) {
      if (index < views.size()) views[index].excluded = true;
    }
    const Decision decision = choose(views, rules);
    switch (decision.reason) {
      case PickReason::NoHealthy:
        no_healthy.add();
        return Choice{.status = PickStatus::NoHealthy};
      case PickReason::NoMemory:
        no_memory.add();
        return Choice{.status = PickStatus::NoMemory};
      case PickReason::Full:
        full.add();
        return Choice{.status = PickStatus::Full};
      case PickReason::Picked:
      case PickReason::Fallback:
        break;
    }
    Backend& backend = backends->at(decision.index);
    if (!take_turn(backend, views[decision.index], newest)) continue;
    const double score = rules.kind == PolicyKind::Score ? views[decision.index].score
                                                         : score_of(backend, *options, now).total;
    if (!reserve(backend, transport, now)) continue;
    tick = std::max(tick, newest + 1);
    if (heap && heap->contains(decision.index)) put_in_heap(decision.index);
    return picked(backend, score, decision.reason == PickReason::Fallback, decision.panic);
  }
  full.add();
  return Choice{.status = PickStatus::Full};
}

// Backends by chance until as many different ones as the policy wants are eligible. All eligible ones are as
// likely to be among them, as in the sample of a scan, which comes when too few are found: no bias by either
// way. Last picks are compared with those drawn and our own: among several workers an exact tie may go to
// the later one.
std::optional<Choice> Router::Impl::drawn_pick(TransportClass transport, TimePoint now,
                                               std::span<const std::uint32_t> excluded) {
  const std::size_t wanted = drawn_by(rules.kind);
  std::uint64_t newest = tick;
  drawn.clear();
  for (std::size_t tries = wanted * kTriesEach; tries > 0 && drawn.size() < wanted; --tries) {
    const auto index = static_cast<std::uint32_t>(rng.below(backends->size()));
    if (std::ranges::find(drawn, index) != drawn.end()) continue;
    if (std::ranges::find(excluded, index) != excluded.end()) continue;
    BackendView& view = views[drawn.size()];
    view = view_of(backends->at(index), transport, now);
    if (eligible(view, kNoThreshold) != Eligibility::Eligible) continue;
    newest = std::max(newest, view.last_pick);
    drawn.push_back(index);
  }
  if (drawn.size() < wanted) return std::nullopt;
  const std::uint32_t best = choose_drawn({views.data(), wanted}, rules.kind);
  Backend& backend = backends->at(drawn[best]);
  std::ignore = take_turn(backend, views[best], newest);
  const double score = score_of(backend, *options, now).total;
  if (!reserve(backend, transport, now)) return std::nullopt;
  tick = newest + 1;
  return picked(backend, score, false, false);
}

void Router::Impl::put_in_heap(std::uint32_t index) {
  const Backend& backend = backends->at(index);
  heap->put(index, {backend.slots.taken(), std::max(1U, backend.weight.load(std::memory_order_relaxed)),
                    backend.last_pick.load(std::memory_order_relaxed)});
}

// Puts back whatever was aside, when an event or time says that it may be eligible again; heap_pick() judges.
void Router::Impl::refresh_heap(TimePoint now) {
  const std::uint64_t changes = backends->changes();
  if (changes == seen_changes && now < look_again_at) return;
  seen_changes = changes;
  look_again_at = now + kLookAgain;
  for (const std::uint32_t index : aside) put_in_heap(index);
  aside.clear();
}

// Nothing when no backend in the heap can be reserved: the scan then says what is missing.
std::optional<Choice> Router::Impl::heap_pick(TransportClass transport, TimePoint now) {
  refresh_heap(now);
  std::optional<Choice> out;
  while (!out && !heap->empty()) {
    const std::uint32_t index = heap->best();
    Backend& backend = backends->at(index);
    const BackendView view = view_of(backend, transport, now);
    const Eligibility verdict = eligible(view, kNoThreshold);
    if (verdict == Eligibility::Eligible) {
      if (view.in_flight > heap->key(index).in_flight) {  // another worker has added to it
        put_in_heap(index);
        if (heap->best() != index) continue;
      }
      const double score = score_of(backend, *options, now).total;
      if (!reserve(backend, transport, now)) continue;  // the next view says why
      backend.last_pick.store(++tick, std::memory_order_relaxed);
      put_in_heap(index);
      out = picked(backend, score, false, false);
    } else {
      heap->remove(index);
      // A lack of connections concerns this transport only: the other one must still find the backend.
      (verdict == Eligibility::NoConnection ? passed_over : aside).push_back(index);
    }
  }
  for (const std::uint32_t index : passed_over) put_in_heap(index);
  passed_over.clear();
  return out;
}

Router::Router(const Options& options, const BackendSet& backends, std::uint64_t seed)
    : impl_(std::make_unique<Impl>(options, backends, seed)) {}

Router::~Router() = default;

void Router::apply(const Options& options, const BackendSet& backends) { impl_->apply(options, backends); }

Choice Router::pick(TransportClass transport, TimePoint now, std::span<const std::uint32_t> excluded) {
  std::optional<Choice> choice;
  switch (impl_->way) {
    case Impl::Way::Scan:
      break;
    case Impl::Way::Heap:
      if (excluded.empty()) choice = impl_->heap_pick(transport, now);
      break;
    case Impl::Way::Draw:
      choice = impl_->drawn_pick(transport, now, excluded);
      break;
  }
  return choice ? *choice : impl_->scan_pick(transport, now, excluded);
}

bool Router::adopt_slot(std::uint32_t index, TransportClass transport, TimePoint now, Choice& out) {
  Backend& backend = impl_->backends->at(index);
  BackendView view = impl_->view_of(backend, transport, now);
  const std::uint32_t slots = impl_->cap_of(backend, now);
  view.slot_free = slots == 0 || view.in_flight <= slots;  // the one in our hands is counted
  const double threshold = impl_->rules.kind == PolicyKind::Score ? impl_->rules.threshold : kNoThreshold;
  const Eligibility verdict = eligible(view, threshold);
  if (verdict < Eligibility::OverThreshold) return false;
  if (!impl_->connections_of(backend, transport).try_reserve(impl_->connection_limit(transport)))
    return false;
  out = impl_->picked(backend, score_of(backend, *impl_->options, now).total,
                      verdict == Eligibility::OverThreshold, false);
  return true;
}

void Router::release_slot(std::uint32_t index) {
  impl_->backends->at(index).slots.release();
  if (!impl_->heap) return;
  if (!impl_->heap->contains(index)) {
    // Aside, perhaps only for want of this slot.
    std::erase(impl_->aside, index);
  }
  impl_->put_in_heap(index);
}

void Router::release_connection(std::uint32_t index, TransportClass transport) {
  impl_->connections_of(impl_->backends->at(index), transport).release();
}

void Router::record_latency(std::uint32_t index, Duration to_response_head, TimePoint now) {
  Backend& backend = impl_->backends->at(index);
  add_latency(backend.latency_us, backend.latency_at_ns, to_response_head, now);
  if (!impl_->goes_by_latency()) return;
  add_latency(impl_->normal_us, impl_->normal_at_ns, to_response_head, now);
  const Duration rise = impl_->rules.kind == PolicyKind::Adaptive ? kPeakRise : Duration::zero();
  add_peak(backend.peak_us, backend.peak_at_ns, static_cast<double>(to_response_head.count()) / 1000, now,
           rise);
}

void Router::record_failure(std::uint32_t index, TimePoint now) {
  if (!impl_->goes_by_latency()) return;
  Backend& backend = impl_->backends->at(index);
  const double normal = impl_->normal_us.load(std::memory_order_relaxed);
  add_peak(backend.peak_us, backend.peak_at_ns, kFailureLatencies * std::max(normal, 1.0), now,
           Duration::zero());
}

Router::Counters Router::counters() const {
  return {impl_->picks.get(), impl_->fallbacks.get(),  impl_->panics.get(),
          impl_->full.get(),  impl_->no_healthy.get(), impl_->no_memory.get()};
}

}  // namespace dlb::lb
