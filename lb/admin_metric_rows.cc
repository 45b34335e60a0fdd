// The rows of the admin listener, of the whole process.
#include "lb/metric_rows.h"

namespace dlb::lb {
namespace {

template <auto Member>
constexpr auto kCounter = [](const LbTotals& t) -> std::uint64_t {
  return t.admin == nullptr ? 0 : (t.admin->*Member).load(std::memory_order_relaxed);
};
using A = AdminCounters;

constexpr MetricRow kAdminRows[] = {
    metric<kCounter<&A::requests>>({.name = "dlb_admin_requests_total",
                                    .json = "admin.requests",
                                    .help = "Requests to the admin listener."}),
    metric<kCounter<&A::changes>>({.name = "dlb_admin_changes_total",
                                   .json = "admin.changes",
                                   .help = "Drain, ready and weight posts that were carried out."}),
    metric<kCounter<&A::foreign>>({.name = "dlb_admin_refused_total",
                                   .labels = "reason=\"foreign\"",
                                   .json = "admin.refused.foreign",
                                   .help = "Requests that were refused for their Host or Origin, or token."}),
    metric<kCounter<&A::unauthorized>>(
        {.name = "dlb_admin_refused_total",
         .labels = "reason=\"unauthorized\"",
         .json = "admin.refused.unauthorized",
         .help = "Requests that were refused for their Host or Origin, or token."}),
};

}  // namespace

std::span<const MetricRow> admin_metric_rows() { return kAdminRows; }

}  // namespace dlb::lb
