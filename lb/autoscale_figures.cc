#include "lb/autoscale_figures.h"

#include "lb/metric_rows.h"

namespace dlb::lb {

void AutoscaleFigures::write(JsonWriter& json, std::int64_t min, std::int64_t max) const {
  json.key("autoscale");
  if (!on.load(std::memory_order_relaxed)) {
    json.null();
    return;
  }
  constexpr auto relaxed = std::memory_order_relaxed;
  const std::lock_guard lock(mutex_);
  json.begin_object().field("min", min).field("max", max);
  json.field("desired", desired.load(relaxed)).field("running", running.load(relaxed));
  json.field("pressed", pressed_);
  json.key("last").begin_object();
  json.field("action", last_.action).field("instance", last_.instance).field("reason", last_.reason);
  json.key("at");
  if (last_.wall_us == 0) {
    json.null();
  } else {
    json.value(iso8601_utc(last_.wall_us));
  }
  json.end_object();
  json.key("problem");
  if (problem_.empty()) {
    json.null();
  } else {
    json.value(problem_);
  }
  json.key("instances").begin_array();
  for (const AutoscaleInstance& one : instances_) {
    json.begin_object().field("id", one.id).field("pid", static_cast<std::int64_t>(one.pid));
    json.field("phase", one.phase).field("rests", one.rests).field("in_flight", one.in_flight).end_object();
  }
  json.end_array().end_object();
}

namespace {

template <auto Member>
constexpr auto kFigure = [](const LbTotals& t) -> std::uint64_t {
  return t.autoscale == nullptr ? 0 : (t.autoscale->*Member).load(std::memory_order_relaxed);
};
using F = AutoscaleFigures;
constexpr MetricKind kGauge = MetricKind::Gauge;

constexpr MetricRow kAutoscaleMetricRows[] = {
    metric<kFigure<&F::desired>>({.name = "dlb_autoscale_desired",
                                  .kind = kGauge,
                                  .json = "autoscale.desired",
                                  .help = "Instances that there are to be."}),
    metric<kFigure<&F::running>>({.name = "dlb_autoscale_processes",
                                  .kind = kGauge,
                                  .json = "autoscale.processes",
                                  .help = "Processes of instances, those that start or end included."}),
    metric<kFigure<&F::starting>>({.name = "dlb_autoscale_starting",
                                   .kind = kGauge,
                                   .json = "autoscale.starting",
                                   .help = "Of them: not healthy yet."}),
    metric<kFigure<&F::serving>>({.name = "dlb_autoscale_serving",
                                  .kind = kGauge,
                                  .json = "autoscale.serving",
                                  .help = "Of them: have been healthy, and are not to end."}),
    metric<kFigure<&F::starts>>({.name = "dlb_autoscale_starts_total",
                                 .json = "autoscale.starts",
                                 .help = "Processes that were started."}),
    metric<kFigure<&F::failed_starts>>(
        {.name = "dlb_autoscale_failed_starts_total",
         .json = "autoscale.failed_starts",
         .help = "Starts that came to nothing: no port, ended at once, not healthy in time."}),
    metric<kFigure<&F::stops>>({.name = "dlb_autoscale_stops_total",
                                .json = "autoscale.stops",
                                .help = "Processes that were drained and told to end."}),
    metric<kFigure<&F::replacements>>({.name = "dlb_autoscale_replacements_total",
                                       .json = "autoscale.replacements",
                                       .help = "Instances that had been healthy, and failed their checks for "
                                               "good or ended by themselves."}),
    metric<kFigure<&F::kills>>({.name = "dlb_autoscale_kills_total",
                                .json = "autoscale.kills",
                                .help = "Processes that had to be killed since they didn't end in time."}),
};

}  // namespace

std::span<const MetricRow> autoscale_metric_rows() { return kAutoscaleMetricRows; }

}  // namespace dlb::lb
