#include "lb/policy/policy.h"

#include <algorithm>

namespace dlb::lb {
namespace {

bool better(const BackendView& a, const BackendView& b, PolicyKind kind) {
  return kind == PolicyKind::RoundRobin ? a.last_pick < b.last_pick : less_loaded(a, b);
}

// One pass over the views that are (or are not) `excluded`: the nearest verdict, and the best of those that
// have it.
struct Pass {
  Eligibility verdict = Eligibility::Draining;
  std::uint32_t index = 0;
  bool any = false;
};

// What is overlooked when nothing better is left.
enum class Overlook : std::uint8_t {
  Nothing,
  Ejection,
  IllHealth,  // and ejection
};

BackendView overlooked(BackendView view, Overlook overlook) {
  view.healthy = view.healthy || (overlook == Overlook::IllHealth && view.accepting);
  view.ejected = view.ejected && overlook == Overlook::Nothing;
  return view;
}

Pass scan(std::span<const BackendView> views, const PolicyRules& rules, bool excluded, Overlook overlook) {
  const double threshold = rules.kind == PolicyKind::Score ? rules.threshold : kNoThreshold;
  Pass best;
  for (std::uint32_t i = 0; i < views.size(); ++i) {
    const BackendView& view = views[i];
    if (view.excluded != excluded) continue;
    const Eligibility verdict = overlook == Overlook::Nothing
                                    ? eligible(view, threshold)
                                    : eligible(overlooked(view, overlook), threshold);
    const bool nearer = !best.any || verdict > best.verdict;
    const bool preferred = verdict == best.verdict && verdict >= Eligibility::OverThreshold &&
                           better(view, views[best.index], rules.kind);
    if (nearer || preferred) best = {verdict, i, true};
  }
  return best;
}

Decision decide(std::span<const BackendView> views, const PolicyRules& rules, Overlook overlook) {
  Pass best = scan(views, rules, false, overlook);
  if (!best.any || best.verdict <= Eligibility::Memory) {
    const Pass tried = scan(views, rules, true, overlook);
    if (tried.any && (!best.any || tried.verdict > best.verdict)) best = tried;
  }
  Decision out{PickReason::NoHealthy, best.index, overlook != Overlook::Nothing};
  if (!best.any) return out;
  switch (best.verdict) {
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
    case PolicyKind::LeastConn:
      return "least_conn";
    case PolicyKind::RoundRobin:
      return "round_robin";
  }
  return "unknown";
}

std::optional<PolicyKind> policy_from_name(std::string_view name) {
  for (const PolicyKind kind : kPolicyKinds) {
    if (name == policy_name(kind)) return kind;
  }
  return std::nullopt;
}

Decision choose(std::span<const BackendView> views, const PolicyRules& rules) {
  const Decision usual = decide(views, rules, Overlook::Nothing);
  if (usual.reason != PickReason::NoHealthy && usual.reason != PickReason::NoMemory) return usual;
  // An ejection says that others do better: it does not hold when there are no others.
  const bool ejected = std::ranges::any_of(
      views, [](const BackendView& view) { return eligible(view, kNoThreshold) == Eligibility::Ejected; });
  if (ejected) {
    const Decision without_ejection = decide(views, rules, Overlook::Ejection);
    if (without_ejection.reason != PickReason::NoHealthy && without_ejection.reason != PickReason::NoMemory) {
      return without_ejection;
    }
  }
  // A pool that is short of memory is no reason to send requests to those that are down.
  const bool healthy = std::ranges::any_of(
      views, [](const BackendView& view) { return eligible(view, kNoThreshold) > Eligibility::Down; });
  if (healthy || !rules.panic_fallback) return usual;
  const Decision panicked = decide(views, rules, Overlook::IllHealth);
  return panicked.reason == PickReason::NoHealthy ? usual : panicked;
}

}  // namespace dlb::lb
