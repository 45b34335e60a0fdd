#include "lb/policy/policy.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "common/rng.h"
#include "lb/policy/weighted_turn.h"

namespace dlb::lb {
namespace {

constexpr std::size_t kMostDrawn = drawn_by(PolicyKind::Prequal);
constexpr std::size_t kPrequalPercentile = 84;

// What one more request is likely to wait for there. Without a sample: as the pool. `adaptive` takes nobody
// for quicker than the pool: an average that has decayed while nothing came says nothing, and between those
// that are no slower than usual load decides.
double latency_cost(const BackendView& view, const PolicyRules& rules) {
  const bool adaptive = rules.kind == PolicyKind::Adaptive;
  const double usual = std::max(rules.normal_us, 1.0);
  const double latency = view.peak_us <= 0 ? usual : adaptive ? std::max(view.peak_us, usual) : view.peak_us;
  return latency * (view.in_flight + 1.0) / (view.weight * (adaptive ? view.share : 1.0));
}

bool better(const BackendView& a, const BackendView& b, const PolicyRules& rules) {
  switch (rules.kind) {
    case PolicyKind::RoundRobin:
      return a.last_pick < b.last_pick;
    case PolicyKind::WeightedRoundRobin: {
      const std::uint64_t left = turn_key(a.turn, a.weight), right = turn_key(b.turn, b.weight);
      return left != right ? left < right : a.last_pick < b.last_pick;
    }
    case PolicyKind::First:
      return a.order < b.order;
    case PolicyKind::Adaptive:
    case PolicyKind::PeakEwma: {
      const double left = latency_cost(a, rules), right = latency_cost(b, rules);
      return left != right ? left < right : a.last_pick < b.last_pick;
    }
    case PolicyKind::Score:
    case PolicyKind::LeastConn:
    case PolicyKind::RandomTwo:
    case PolicyKind::Prequal:
      break;
  }
  return less_loaded(a, b);
}

// One pass over the views that are (or are not) `excluded`: the nearest verdict, and the best of those that
// have it.
struct Pass {
  Eligibility verdict = Eligibility::Draining;
  std::uint32_t index = 0;
  bool any = false;
};

// A fair sample of what is offered, of at most `size`.
class Sample {
 public:
  Sample(std::size_t size, std::uint64_t draw) : size_(size), rng_(draw) {}

  void restart() { seen_ = 0; }
  void offer(std::uint32_t index) {
    if (seen_ < size_) {
      drawn_[seen_] = index;
    } else if (const std::uint64_t place = rng_.below(seen_ + 1); place < size_) {
      drawn_[place] = index;
    }
    ++seen_;
  }
  std::span<std::uint32_t> drawn() { return {drawn_.data(), std::min(seen_, size_)}; }

 private:
  std::size_t size_;
  std::size_t seen_ = 0;
  Rng rng_;
  std::array<std::uint32_t, kMostDrawn> drawn_{};
};

// Hot are those as full as the 84th percentile of the drawn, and not idle. The quickest of the cold, else the
// least loaded: latency decides until load stands out.
std::uint32_t prequal_choice(std::span<const BackendView> views, std::span<std::uint32_t> drawn) {
  const auto lighter = [&](std::uint32_t a, std::uint32_t b) { return less_loaded(views[a], views[b]); };
  std::ranges::sort(drawn, lighter);
  const std::size_t rank = (drawn.size() * kPrequalPercentile + 99) / 100;
  const BackendView& limit = views[drawn[rank - 1]];
  std::uint32_t best = drawn.front();
  for (const std::uint32_t one : drawn) {
    const BackendView& view = views[one];
    const bool cold = view.in_flight == 0 || static_cast<std::uint64_t>(view.in_flight) * limit.weight <
                                                 static_cast<std::uint64_t>(limit.in_flight) * view.weight;
    if (cold && view.latency_us < views[best].latency_us) best = one;
  }
  return best;
}

std::uint32_t best_of(std::span<const BackendView> views, std::span<std::uint32_t> drawn, PolicyKind kind) {
  if (kind == PolicyKind::Prequal) return prequal_choice(views, drawn);
  return drawn.size() > 1 && less_loaded(views[drawn[1]], views[drawn[0]]) ? drawn[1] : drawn[0];
}

// What is overlooked when nothing better is left.
enum class Overlook : std::uint8_t {
  Nothing,
  Stalling,
  Ejection,   // and stalling
  IllHealth,  // and both
};

BackendView overlooked(BackendView view, Overlook overlook) {
  view.healthy = view.healthy || (overlook == Overlook::IllHealth && view.accepting);
  view.ejected = view.ejected && overlook < Overlook::Ejection;
  view.stalled = view.stalled && overlook == Overlook::Nothing;
  return view;
}

Pass scan(std::span<const BackendView> views, const PolicyRules& rules, bool excluded, Overlook overlook) {
  const double threshold = rules.kind == PolicyKind::Score ? rules.threshold : kNoThreshold;
  const std::size_t draw = drawn_by(rules.kind);
  Sample sample(draw, rules.draw);
  Pass best;
  for (std::uint32_t i = 0; i < views.size(); ++i) {
    const BackendView& view = views[i];
    if (view.excluded != excluded) continue;
    const Eligibility verdict = overlook == Overlook::Nothing
                                    ? eligible(view, threshold)
                                    : eligible(overlooked(view, overlook), threshold);
    if (best.any && verdict < best.verdict) continue;
    const bool nearer = !best.any || verdict > best.verdict;
    if (draw != 0) {
      if (nearer) sample.restart();
      sample.offer(i);
    }
    if (nearer || (verdict >= Eligibility::OverThreshold && better(view, views[best.index], rules))) {
      best = {verdict, i, true};
    }
  }
  if (draw == 0 || best.verdict < Eligibility::OverThreshold) return best;
  best.index = best_of(views, sample.drawn(), rules.kind);
  return best;
}

Decision decide(std::span<const BackendView> views, const PolicyRules& rules, Overlook overlook) {
  Pass best = scan(views, rules, false, overlook);
  if (!best.any || best.verdict <= Eligibility::Memory) {
    const Pass tried = scan(views, rules, true, overlook);
    if (tried.any && (!best.any || tried.verdict > best.verdict)) best = tried;
  }
  Decision out{PickReason::NoHealthy, best.index, overlook >= Overlook::Ejection};
  if (!best.any) return out;
  switch (best.verdict) {
    case Eligibility::Resting:
    case Eligibility::Eligible:
      out.reason = PickReason::Picked;
      break;
    case Eligibility::OverThreshold:
      out.reason = PickReason::Fallback;
      break;
    case Eligibility::NoConnection:
    case Eligibility::NoSlot:
      out.reason = PickReason::Full;
      break;
    case Eligibility::Memory:
      out.reason = PickReason::NoMemory;
      break;
    case Eligibility::Ejected:
    case Eligibility::Down:
    case Eligibility::NoWeight:
    case Eligibility::Draining:
      out.reason = PickReason::NoHealthy;
      break;
  }
  return out;
}

}  // namespace

std::string_view policy_name(PolicyKind kind) {
  switch (kind) {
    case PolicyKind::Score:
      return "score";
    case PolicyKind::Adaptive:
      return "adaptive";
    case PolicyKind::LeastConn:
      return "least_conn";
    case PolicyKind::RoundRobin:
      return "round_robin";
    case PolicyKind::WeightedRoundRobin:
      return "weighted_round_robin";
    case PolicyKind::First:
      return "first";
    case PolicyKind::RandomTwo:
      return "random_two";
    case PolicyKind::PeakEwma:
      return "peak_ewma";
    case PolicyKind::Prequal:
      return "prequal";
  }
  return "unknown";
}

std::optional<PolicyKind> policy_from_name(std::string_view name) {
  for (const PolicyKind kind : kPolicyKinds) {
    if (name == policy_name(kind)) return kind;
  }
  return std::nullopt;
}

std::uint32_t choose_drawn(std::span<const BackendView> drawn, PolicyKind kind) {
  std::array<std::uint32_t, kMostDrawn> indexes{};
  std::iota(indexes.begin(), indexes.end(), 0U);
  return best_of(drawn, {indexes.data(), drawn.size()}, kind);
}

Decision choose(std::span<const BackendView> views, const PolicyRules& rules) {
  const Decision usual = decide(views, rules, Overlook::Nothing);
  if (usual.reason != PickReason::NoHealthy && usual.reason != PickReason::NoMemory) return usual;
  // Both say that others do better, and don't hold when there are no others: first who is slow, then who
  // fails.
  const bool ejected = std::ranges::any_of(
      views, [](const BackendView& view) { return eligible(view, kNoThreshold) == Eligibility::Ejected; });
  for (const Overlook overlook : {Overlook::Stalling, Overlook::Ejection}) {
    if (!ejected) break;
    const Decision next = decide(views, rules, overlook);
    if (next.reason != PickReason::NoHealthy && next.reason != PickReason::NoMemory) return next;
  }
  // A pool that is short of memory is no reason to send requests to those that are down.
  const bool healthy = std::ranges::any_of(
      views, [](const BackendView& view) { return eligible(view, kNoThreshold) > Eligibility::Down; });
  if (healthy || !rules.panic_fallback) return usual;
  const Decision panicked = decide(views, rules, Overlook::IllHealth);
  return panicked.reason == PickReason::NoHealthy ? usual : panicked;
}

}  // namespace dlb::lb
