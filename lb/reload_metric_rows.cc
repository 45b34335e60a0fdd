// The rows of reloads, of the whole process.
#include "lb/metric_rows.h"

namespace dlb::lb {
namespace {

template <auto Member>
constexpr auto kFigure = [](const LbTotals& t) {
  return t.reloads == nullptr ? std::uint64_t{0} : (t.reloads->*Member).load(std::memory_order_relaxed);
};
using F = ReloadFigures;

constexpr MetricRow kReloadRows[] = {
    metric<kFigure<&F::succeeded>>({.name = "dlb_config_reloads_total",
                                    .labels = "result=\"ok\"",
                                    .json = "config.reloads.ok",
                                    .help = "Times SIGHUP had the configuration read again."}),
    metric<kFigure<&F::failed>>({.name = "dlb_config_reloads_total",
                                 .labels = "result=\"failed\"",
                                 .json = "config.reloads.failed",
                                 .help = "Times SIGHUP had the configuration read again."}),
    metric<kFigure<&F::failed_upgrades>>(
        {.name = "dlb_upgrades_failed_total",
         .json = "config.upgrades_failed",
         .help = "Times SIGUSR2 started a process that did not become ready."}),
    metric<&LbTotals::generation>({.name = "dlb_config_generation",
                                   .kind = MetricKind::Gauge,
                                   .json = "config.generation",
                                   .help = "1 as started, one more with each reload."}),
    metric<[](const LbTotals& t) { return static_cast<double>(t.configured_at_us) / 1e6; }>(
        {.name = "dlb_config_loaded_timestamp_seconds",
         .kind = MetricKind::Gauge,
         .unit = "seconds",
         .json = "config.loaded_at",
         .help = "When the configuration in force was read, since 1970."}),
};

}  // namespace

std::span<const MetricRow> reload_metric_rows() { return kReloadRows; }

}  // namespace dlb::lb
