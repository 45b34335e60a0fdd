// The rows of /lb/events, of the whole process.
#include "lb/metric_rows.h"

namespace dlb::lb {
namespace {

template <auto Member>
constexpr auto kCounter = [](const LbTotals& t) -> std::uint64_t {
  return t.events == nullptr ? 0 : (t.events->*Member).load(std::memory_order_relaxed);
};
using E = EventFigures;

constexpr MetricRow kEventRows[] = {
    metric<[](const LbTotals& t) -> std::uint64_t {
      return t.events == nullptr ? 0 : t.events->readers.taken();
    }>({.name = "dlb_event_readers",
        .kind = MetricKind::Gauge,
        .json = "events.readers",
        .help = "Readers of /lb/events, of all listeners; 32 at most."}),
    metric<kCounter<&E::refused>>(
        {.name = "dlb_event_readers_refused_total",
         .json = "events.refused",
         .help = "Readers of /lb/events answered 503: as many were there as may be, or a "
                 "drain."}),
    metric<kCounter<&E::sent>>(
        {.name = "dlb_event_snapshots_total",
         .labels = "result=\"sent\"",
         .json = "events.sent",
         .help = "Snapshots of /lb/events, one a second to each reader that takes them."}),
    metric<kCounter<&E::skipped>>(
        {.name = "dlb_event_snapshots_total",
         .labels = "result=\"skipped\"",
         .json = "events.skipped",
         .help = "Snapshots of /lb/events, one a second to each reader that takes them."}),
    metric<kCounter<&E::cut>>({.name = "dlb_event_readers_cut_total",
                               .json = "events.cut",
                               .help = "Readers of /lb/events that took nothing for client-write-timeout."}),
};

}  // namespace

std::span<const MetricRow> event_metric_rows() { return kEventRows; }

}  // namespace dlb::lb
