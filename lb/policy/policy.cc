#include "lb/policy/policy.h"

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

Pass scan(std::span<const BackendView> views, const PolicyRules& rules, bool excluded, bool panic) {
  const double threshold = rules.kind == PolicyKind::Score ? rules.threshold : kNoThreshold;
  Pass best;
  for (std::uint32_t i = 0; i < views.size(); ++i) {
    const BackendView& view = views[i];
    if (view.excluded != excluded) continue;
    Eligibility verdict = eligible(view, threshold);
    if (panic && verdict == Eligibility::Down && view.accepting) {
      BackendView as_if_healthy = view;
      as_if_healthy.healthy = true;
      verdict = eligible(as_if_healthy, threshold);
    }
    const bool nearer = !best.any || verdict > best.verdict;
    const bool preferred = verdict == best.verdict && verdict >= Eligibility::OverThreshold &&
                           better(view, views[best.index], rules.kind);
    if (nearer || preferred) best = {verdict, i, true};
  }
  return best;
}

Decision decide(std::span<const BackendView> views, const PolicyRules& rules, bool panic) {
  Pass best = scan(views, rules, false, panic);
  if (!best.any || best.verdict <= Eligibility::Memory) {
    const Pass tried = scan(views, rules, true, panic);
    if (tried.any && (!best.any || tried.verdict > best.verdict)) best = tried;
  }
  Decision out{PickReason::NoHealthy, best.index, panic};
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
  const Decision usual = decide(views, rules, false);
  if (usual.reason != PickReason::NoHealthy || !rules.panic_fallback) return usual;
  // Ejection is not ill health: a pool that is merely ejected is no reason to send requests to those that are
  // down.
  for (const BackendView& view : views) {
    if (eligible(view, kNoThreshold) >= Eligibility::Ejected) return usual;
  }
  const Decision panicked = decide(views, rules, true);
  return panicked.reason == PickReason::NoHealthy ? usual : panicked;
}

}  // namespace dlb::lb
