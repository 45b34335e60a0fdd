#include "lb/policy/tunnel_choice.h"

namespace dlb::lb {

std::optional<std::uint32_t> choose_tunnel_backend(std::span<const TunnelView> views, TunnelPolicy policy,
                                                   std::uint64_t turn) {
  std::uint32_t fewest = UINT32_MAX;
  for (const TunnelView& view : views) {
    if (view.usable && view.active < fewest) fewest = view.active;
  }
  const auto candidate = [&](const TunnelView& view) {
    return view.usable && (policy == TunnelPolicy::RoundRobin || view.active == fewest);
  };
  std::uint64_t candidates = 0;
  for (const TunnelView& view : views) candidates += candidate(view) ? 1 : 0;
  if (candidates == 0) return {};
  std::uint64_t skip = turn % candidates;
  for (std::uint32_t i = 0; i < views.size(); ++i) {
    if (candidate(views[i]) && skip-- == 0) return i;
  }
  return {};
}

}  // namespace dlb::lb
