// The rows of outlier ejection, of the whole process. What an operator is called for: backends that should be
// ejected but are not, since too many are (`refused`), and a pool in panic.
#include "lb/metric_rows.h"

namespace dlb::lb {
namespace {

template <auto Member>
constexpr auto kCounter = [](const LbTotals& t) -> std::uint64_t {
  return t.ejections == nullptr ? 0 : (t.ejections->*Member).load(std::memory_order_relaxed);
};
using E = OutlierCounters;
constexpr MetricKind kGauge = MetricKind::Gauge;

// Backends whose ejection is still in force (or, `over`, those on probation).
std::uint64_t ejected_backends(const LbTotals& t, bool over) {
  std::uint64_t found = 0;
  for (const auto& backend : t.backends) {
    const std::int64_t until = backend->ejected_until_ns.load(std::memory_order_relaxed);
    if (until != 0 && (until <= t.now.time_since_epoch().count()) == over) ++found;
  }
  return found;
}

constexpr MetricRow kOutlierRows[] = {
    metric<[](const LbTotals& t) { return ejected_backends(t, false); }>(
        {.name = "dlb_backends_ejected",
         .kind = kGauge,
         .json = "ejections.now",
         .help = "Backends that are ejected for failing beside their peers."}),
    metric<[](const LbTotals& t) { return ejected_backends(t, true); }>(
        {.name = "dlb_backends_on_probation",
         .kind = kGauge,
         .json = "ejections.on_probation",
         .help = "Backends that are back from an ejection, with few requests at a time."}),
    metric<[](const LbTotals& t) {
      return t.ejections == nullptr ? 0
                                    : t.ejections->in_row.load(std::memory_order_relaxed) +
                                          t.ejections->share.load(std::memory_order_relaxed) +
                                          t.ejections->probation.load(std::memory_order_relaxed);
    }>({.json = "ejections.total", .help = "Ejections."}),
    metric<kCounter<&E::in_row>>({.name = "dlb_ejections_total",
                                  .labels = "reason=\"in_row\"",
                                  .json = "ejections.reasons.in_row",
                                  .help = "Ejections."}),
    metric<kCounter<&E::share>>({.name = "dlb_ejections_total",
                                 .labels = "reason=\"share\"",
                                 .json = "ejections.reasons.share",
                                 .help = "Ejections."}),
    metric<kCounter<&E::probation>>({.name = "dlb_ejections_total",
                                     .labels = "reason=\"probation\"",
                                     .json = "ejections.reasons.probation",
                                     .help = "Ejections."}),
    metric<kCounter<&E::refused>>(
        {.name = "dlb_ejections_refused_total",
         .json = "ejections.refused",
         .help = "Ejections that max-ejected-percent did not allow, once in a row of failures."}),
    metric<kCounter<&E::ended_early>>(
        {.name = "dlb_ejections_ended_early_total",
         .json = "ejections.ended_early",
         .help = "Ejections that ended when the backend came up again, or by check-ends-ejection."}),
    metric<kCounter<&E::lifted>>(
        {.name = "dlb_ejections_lifted_total",
         .json = "ejections.lifted",
         .help = "Times that all ejections ended since the other backends failed too."}),
    metric<[](const LbTotals& t) { return t.panic; }>(
        {.name = "dlb_panic",
         .kind = kGauge,
         .json = "panic",
         .help = "1 while every backend fails its checks and those that take connections are used."}),
};

}  // namespace

std::span<const MetricRow> outlier_metric_rows() { return kOutlierRows; }

}  // namespace dlb::lb
