// The rows of the whole process. One array, long because it is a list.
#include "lb/metric_rows.h"

#include <algorithm>
#include <vector>

namespace dlb::lb {

std::uint64_t LbTotals::sum(WorkerCount WorkerMetrics::*member) const {
  std::uint64_t total = 0;
  for (const WorkerMetrics* worker : workers) total += (worker->*member).get();
  return total;
}

std::uint64_t LbTotals::max(WorkerCount WorkerMetrics::*member) const {
  std::uint64_t most = 0;
  for (const WorkerMetrics* worker : workers) most = std::max(most, (worker->*member).get());
  return most;
}

std::uint64_t LbTotals::picks(std::uint64_t Router::Counters::*member) const {
  std::uint64_t total = 0;
  for (const Router* router : routers) total += router->counters().*member;
  return total;
}

std::uint64_t LbTotals::sum_backends(std::atomic<std::uint64_t> BackendCounters::*member) const {
  std::uint64_t total = 0;
  for (const auto& backend : backends) {
    if (backend->counted.load(std::memory_order_relaxed))
      total += (backend->counters.*member).load(std::memory_order_relaxed);
  }
  return total + (backends.departed().*member).load(std::memory_order_relaxed);
}

Quantiles LbTotals::quantiles(SampleWindow WorkerMetrics::*member) const {
  std::vector<const SampleWindow*> windows;
  for (const WorkerMetrics* worker : workers) windows.push_back(&(worker->*member));
  Quantiles q = SampleWindow::quantiles(windows);
  for (double* value : {&q.p50, &q.p95, &q.p99, &q.max, &q.total_sum}) *value /= 1e6;
  return q;
}

double LbTotals::requests_per_second() const {
  double rate = 0;
  for (const WorkerMetrics* worker : workers) rate += worker->throughput.per_second(now);
  return rate;
}

std::uint64_t LbTotals::healthy_backends() const {
  constexpr auto relaxed = std::memory_order_relaxed;
  std::uint64_t healthy = 0;
  for (const auto& backend : backends) {
    if (!backend->taken_out() && backend->healthy.load(relaxed)) ++healthy;
  }
  return healthy;
}

namespace {

// Getters: one per kind of place that a figure comes from.
template <auto Member>
constexpr auto kSum = [](const LbTotals& t) { return t.sum(Member); };
template <auto Member>
constexpr auto kMax = [](const LbTotals& t) { return t.max(Member); };
template <auto Member>
constexpr auto kPicks = [](const LbTotals& t) { return t.picks(Member); };
template <auto Member>
constexpr auto kBackends = [](const LbTotals& t) { return t.sum_backends(Member); };
template <auto Member>
constexpr auto kWindow = [](const LbTotals& t) { return t.quantiles(Member); };
template <auto Member>
constexpr auto kSystem = [](const LbTotals& t) { return (t.system.*Member).load(std::memory_order_relaxed); };
template <auto Member>
constexpr auto kMemory = [](const LbTotals& t) { return (t.memory.*Member).load(std::memory_order_relaxed); };
using W = WorkerMetrics;
using C = BackendCounters;
using S = SystemSample;
constexpr MetricKind kGauge = MetricKind::Gauge;
constexpr MetricKind kSummary = MetricKind::Summary;

constexpr MetricRow kLbRows[] = {
    // Requests
    metric<kSum<&W::requests_total>>(
        {.name = "dlb_requests_total", .json = "requests.total", .help = "Requests taken for forwarding."}),
    metric<kSum<&W::requests_success>>(
        {.name = "dlb_requests_success_total",
         .json = "requests.success",
         .help = "Requests answered completely by a backend with a status under 500."}),
    metric<kSum<&W::requests_failed>>(
        {.name = "dlb_requests_failed_total",
         .json = "requests.failed",
         .help = "Requests that ended in a 5xx or in a response that broke off."}),
    metric<kSum<&W::requests_client_gone>>({.name = "dlb_requests_client_gone_total",
                                            .json = "requests.client_gone",
                                            .help = "Requests whose client left first."}),
    metric<kSum<&W::requests_local>>({.name = "dlb_requests_local_total",
                                      .json = "requests.local",
                                      .help = "Requests for the balancer's own pages."}),
    metric<kSum<&W::requests_in_progress>>({.name = "dlb_requests_in_progress",
                                            .kind = kGauge,
                                            .json = "requests.in_progress",
                                            .help = "Requests being forwarded now."}),
    metric<[](const LbTotals& t) { return t.requests_per_second(); }>(
        {.name = "dlb_requests_per_second",
         .kind = kGauge,
         .json = "throughput_rps",
         .json_decimals = 1,
         .help = "Finished requests a second, over the last 10 complete seconds."}),
    metric<kWindow<&W::latency_us>>(
        {.name = "dlb_request_duration_seconds",
         .kind = kSummary,
         .unit = "seconds",
         .json = "latency_ms",
         .json_scale = 1000,
         .json_decimals = 3,
         .help = "From a complete request head to the last byte of the response, last 20,000 requests."}),

    // Our own answers
    metric<kSum<&W::answered_400>>({.name = "dlb_own_responses_total",
                                    .labels = "code=\"400\"",
                                    .json = "own_responses.400",
                                    .help = "Answers made by the balancer itself."}),
    metric<kSum<&W::answered_404>>({.name = "dlb_own_responses_total",
                                    .labels = "code=\"404\"",
                                    .json = "own_responses.404",
                                    .help = "Answers made by the balancer itself."}),
    metric<kSum<&W::answered_405>>({.name = "dlb_own_responses_total",
                                    .labels = "code=\"405\"",
                                    .json = "own_responses.405",
                                    .help = "Answers made by the balancer itself."}),
    metric<kSum<&W::answered_408>>({.name = "dlb_own_responses_total",
                                    .labels = "code=\"408\"",
                                    .json = "own_responses.408",
                                    .help = "Answers made by the balancer itself."}),
    metric<kSum<&W::answered_413>>({.name = "dlb_own_responses_total",
                                    .labels = "code=\"413\"",
                                    .json = "own_responses.413",
                                    .help = "Answers made by the balancer itself."}),
    metric<kSum<&W::answered_414>>({.name = "dlb_own_responses_total",
                                    .labels = "code=\"414\"",
                                    .json = "own_responses.414",
                                    .help = "Answers made by the balancer itself."}),
    metric<kSum<&W::answered_417>>({.name = "dlb_own_responses_total",
                                    .labels = "code=\"417\"",
                                    .json = "own_responses.417",
                                    .help = "Answers made by the balancer itself."}),
    metric<kSum<&W::answered_431>>({.name = "dlb_own_responses_total",
                                    .labels = "code=\"431\"",
                                    .json = "own_responses.431",
                                    .help = "Answers made by the balancer itself."}),
    metric<kSum<&W::answered_501>>({.name = "dlb_own_responses_total",
                                    .labels = "code=\"501\"",
                                    .json = "own_responses.501",
                                    .help = "Answers made by the balancer itself."}),
    metric<kSum<&W::answered_502>>({.name = "dlb_own_responses_total",
                                    .labels = "code=\"502\"",
                                    .json = "own_responses.502",
                                    .help = "Answers made by the balancer itself."}),
    metric<kSum<&W::answered_503>>({.name = "dlb_own_responses_total",
                                    .labels = "code=\"503\"",
                                    .json = "own_responses.503",
                                    .help = "Answers made by the balancer itself."}),
    metric<kSum<&W::answered_504>>({.name = "dlb_own_responses_total",
                                    .labels = "code=\"504\"",
                                    .json = "own_responses.504",
                                    .help = "Answers made by the balancer itself."}),
    metric<kSum<&W::answered_505>>({.name = "dlb_own_responses_total",
                                    .labels = "code=\"505\"",
                                    .json = "own_responses.505",
                                    .help = "Answers made by the balancer itself."}),

    // Routing
    metric<kPicks<&Router::Counters::picks>>({.name = "dlb_picks_total",
                                              .json = "routing.picks",
                                              .help = "Times a backend was chosen, retries included."}),
    metric<kPicks<&Router::Counters::fallbacks>>(
        {.name = "dlb_fallbacks_total",
         .json = "routing.fallbacks",
         .help = "Picks made although no backend was under the threshold."}),
    metric<kPicks<&Router::Counters::panics>>(
        {.name = "dlb_panic_picks_total",
         .json = "routing.panic_picks",
         .help = "Picks made although every backend failed its checks."}),
    metric<kSum<&W::retries>>(
        {.name = "dlb_retries_total", .json = "routing.retries", .help = "Second attempts made."}),
    metric<kSum<&W::retries_refused>>({.name = "dlb_retries_refused_total",
                                       .json = "routing.retries_refused",
                                       .help = "Second attempts refused by the retry budget."}),
    metric<kSum<&W::no_backend>>({.name = "dlb_no_backend_total",
                                  .json = "routing.no_backend",
                                  .help = "Requests answered 503 for want of a healthy backend."}),
    metric<kSum<&W::no_memory>>(
        {.name = "dlb_no_memory_total",
         .json = "routing.no_memory",
         .help = "Requests answered 503 because every healthy backend was over a memory guard."}),

    // Backend errors
    metric<kSum<&W::backend_connect_errors>>({.name = "dlb_backend_errors_total",
                                              .labels = "kind=\"connect\"",
                                              .json = "backend_errors.connect",
                                              .help = "Failures of backends, mended by a retry or not."}),
    metric<kSum<&W::backend_connect_timeouts>>({.name = "dlb_backend_errors_total",
                                                .labels = "kind=\"connect_timeout\"",
                                                .json = "backend_errors.connect_timeout",
                                                .help = "Failures of backends, mended by a retry or not."}),
    metric<kSum<&W::backend_timeouts>>({.name = "dlb_backend_errors_total",
                                        .labels = "kind=\"timeout\"",
                                        .json = "backend_errors.timeout",
                                        .help = "Failures of backends, mended by a retry or not."}),
    metric<kSum<&W::backend_resets>>({.name = "dlb_backend_errors_total",
                                      .labels = "kind=\"reset\"",
                                      .json = "backend_errors.reset",
                                      .help = "Failures of backends, mended by a retry or not."}),
    metric<kSum<&W::backend_bad_responses>>({.name = "dlb_backend_errors_total",
                                             .labels = "kind=\"bad_response\"",
                                             .json = "backend_errors.bad_response",
                                             .help = "Failures of backends, mended by a retry or not."}),
    metric<[](const LbTotals& t) {
      return t.sum(&W::backend_connect_errors) + t.sum(&W::backend_connect_timeouts) +
             t.sum(&W::backend_timeouts) + t.sum(&W::backend_resets) + t.sum(&W::backend_bad_responses);
    }>({.json = "backend_errors.total", .help = "All failures of backends."}),

    // Queue, admission, refusals
    metric<kSum<&W::queue_waiting>>({.name = "dlb_queue_waiting",
                                     .kind = kGauge,
                                     .json = "queue.waiting",
                                     .help = "Requests that wait for a slot or a connection now."}),
    metric<kSum<&W::queued>>(
        {.name = "dlb_queued_total", .json = "queue.queued", .help = "Requests that had to wait."}),
    metric<kSum<&W::queue_left>>({.name = "dlb_queue_left_total",
                                  .json = "queue.left",
                                  .help = "Requests whose client left while they waited."}),
    metric<kSum<&W::queue_timeouts>>({.name = "dlb_rejections_total",
                                      .labels = "reason=\"queue_timeout\"",
                                      .json = "rejections.queue_timeout",
                                      .help = "Requests and connections turned away."}),
    metric<kSum<&W::queue_full>>({.name = "dlb_rejections_total",
                                  .labels = "reason=\"queue_full\"",
                                  .json = "rejections.queue_full",
                                  .help = "Requests and connections turned away."}),
    metric<kSum<&W::admission_rejected>>({.name = "dlb_rejections_total",
                                          .labels = "reason=\"admission\"",
                                          .json = "rejections.admission",
                                          .help = "Requests and connections turned away."}),
    metric<kSum<&W::shed>>({.name = "dlb_rejections_total",
                            .labels = "reason=\"memory_guard\"",
                            .json = "rejections.memory_guard",
                            .help = "Requests and connections turned away."}),
    metric<kSum<&W::client_refused>>({.name = "dlb_rejections_total",
                                      .labels = "reason=\"connections\"",
                                      .json = "rejections.connections",
                                      .help = "Requests and connections turned away."}),
    metric<kSum<&W::admission_in_flight>>(
        {.name = "dlb_admission_in_flight",
         .kind = kGauge,
         .json = "admission.in_flight",
         .help = "POST /message requests in progress, with admission-limit set."}),

    // Client connections
    metric<kSum<&W::client_new>>({.name = "dlb_client_connections",
                                  .kind = kGauge,
                                  .labels = "state=\"new\"",
                                  .json = "connections.client.new",
                                  .help = "Client connections by state."}),
    metric<kSum<&W::client_reading>>({.name = "dlb_client_connections",
                                      .kind = kGauge,
                                      .labels = "state=\"reading\"",
                                      .json = "connections.client.reading",
                                      .help = "Client connections by state."}),
    metric<kSum<&W::client_active>>({.name = "dlb_client_connections",
                                     .kind = kGauge,
                                     .labels = "state=\"active\"",
                                     .json = "connections.client.active",
                                     .help = "Client connections by state."}),
    metric<kSum<&W::client_idle>>({.name = "dlb_client_connections",
                                   .kind = kGauge,
                                   .labels = "state=\"idle\"",
                                   .json = "connections.client.idle",
                                   .help = "Client connections by state."}),
    metric<kSum<&W::client_tunnels>>({.name = "dlb_client_connections",
                                      .kind = kGauge,
                                      .labels = "state=\"tunnel\"",
                                      .json = "connections.client.tunnel",
                                      .help = "Client connections by state."}),
    metric<kSum<&W::client_accepted>>({.name = "dlb_client_connections_accepted_total",
                                       .json = "connections.client.accepted",
                                       .help = "Client connections accepted."}),
    metric<kMax<&W::client_limit>>(
        {.name = "dlb_client_connections_limit",
         .kind = MetricKind::Gauge,
         .json = "connections.client.limit",
         .help = "Client connections that may be open: the cap, or what descriptors allow."}),
    metric<kSum<&W::client_reclaimed>>({.name = "dlb_client_connections_reclaimed_total",
                                        .json = "connections.client.reclaimed",
                                        .help = "Idle client connections closed to make room."}),
    metric<kSum<&W::client_accept_errors>>({.name = "dlb_client_accept_errors_total",
                                            .json = "connections.client.accept_errors",
                                            .help = "Failed accepts, such as for want of descriptors."}),
    metric<kSum<&W::client_idle_timeouts>>({.name = "dlb_client_timeouts_total",
                                            .labels = "kind=\"idle\"",
                                            .json = "connections.client.timeouts.idle",
                                            .help = "Client connections ended by a time-out."}),
    metric<kSum<&W::client_header_timeouts>>({.name = "dlb_client_timeouts_total",
                                              .labels = "kind=\"header\"",
                                              .json = "connections.client.timeouts.header",
                                              .help = "Client connections ended by a time-out."}),
    metric<kSum<&W::client_body_timeouts>>({.name = "dlb_client_timeouts_total",
                                            .labels = "kind=\"body\"",
                                            .json = "connections.client.timeouts.body",
                                            .help = "Client connections ended by a time-out."}),
    metric<kSum<&W::client_write_timeouts>>({.name = "dlb_client_timeouts_total",
                                             .labels = "kind=\"write\"",
                                             .json = "connections.client.timeouts.write",
                                             .help = "Client connections ended by a time-out."}),
    metric<kSum<&W::client_too_slow>>({.name = "dlb_client_timeouts_total",
                                       .labels = "kind=\"min_rate\"",
                                       .json = "connections.client.timeouts.min_rate",
                                       .help = "Client connections ended by a time-out."}),

    // Upstream connections
    metric<kSum<&W::upstream_connecting>>({.name = "dlb_upstream_connections",
                                           .kind = kGauge,
                                           .labels = "state=\"connecting\"",
                                           .json = "connections.upstream.connecting",
                                           .help = "Connections to backends by state, the feed's included."}),
    metric<kSum<&W::upstream_busy>>({.name = "dlb_upstream_connections",
                                     .kind = kGauge,
                                     .labels = "state=\"busy\"",
                                     .json = "connections.upstream.busy",
                                     .help = "Connections to backends by state, the feed's included."}),
    metric<kSum<&W::upstream_idle>>({.name = "dlb_upstream_connections",
                                     .kind = kGauge,
                                     .labels = "state=\"idle\"",
                                     .json = "connections.upstream.idle",
                                     .help = "Connections to backends by state, the feed's included."}),
    metric<kSum<&W::upstream_feed_busy>>({.name = "dlb_upstream_feed_connections",
                                          .kind = kGauge,
                                          .labels = "state=\"busy\"",
                                          .json = "connections.upstream.feed_busy",
                                          .help = "Connections of the feed transport by state."}),
    metric<kSum<&W::upstream_feed_idle>>({.name = "dlb_upstream_feed_connections",
                                          .kind = kGauge,
                                          .labels = "state=\"idle\"",
                                          .json = "connections.upstream.feed_idle",
                                          .help = "Connections of the feed transport by state."}),
    metric<kSum<&W::upstream_opened>>({.name = "dlb_upstream_connections_opened_total",
                                       .json = "connections.upstream.opened",
                                       .help = "Connections made to backends."}),
    metric<kSum<&W::upstream_reused>>({.name = "dlb_upstream_connections_reused_total",
                                       .json = "connections.upstream.reused",
                                       .help = "Exchanges that took an idle connection."}),
    metric<kSum<&W::upstream_evicted>>({.name = "dlb_upstream_connections_evicted_total",
                                        .json = "connections.upstream.evicted",
                                        .help = "Connections closed to keep the idle limits."}),
    metric<kSum<&W::upstream_idle_timeouts>>({.name = "dlb_upstream_idle_timeouts_total",
                                              .json = "connections.upstream.idle_timeouts",
                                              .help = "Idle connections closed by proxy-idle-timeout."}),
    metric<kSum<&W::upstream_closed_by_peer>>({.name = "dlb_upstream_closed_by_peer_total",
                                               .json = "connections.upstream.closed_by_peer",
                                               .help = "Idle connections that the backend had closed."}),

    metric<kSum<&W::client_bytes_in>>({.name = "dlb_client_received_bytes_total",
                                       .unit = "bytes",
                                       .json = "bytes.client_in",
                                       .help = "Bytes read from clients."}),
    metric<kSum<&W::client_bytes_out>>({.name = "dlb_client_sent_bytes_total",
                                        .unit = "bytes",
                                        .json = "bytes.client_out",
                                        .help = "Bytes written to clients."}),

    // Feeds
    metric<kSum<&W::feed_requests>>(
        {.name = "dlb_feed_requests_total", .json = "feed.requests", .help = "Requests on feed-paths."}),
    metric<kSum<&W::feed_success>>(
        {.name = "dlb_feed_success_total", .json = "feed.success", .help = "Feeds delivered completely."}),
    metric<kSum<&W::feed_header_failures>>({.name = "dlb_feed_header_failures_total",
                                            .json = "feed.header_failures",
                                            .help = "Feeds that got no response head."}),
    metric<kSum<&W::feed_interrupted_bodies>>({.name = "dlb_feed_interrupted_bodies_total",
                                               .json = "feed.interrupted_bodies",
                                               .help = "Feeds that broke off after their head."}),
    metric<kWindow<&W::feed_selection_us>>(
        {.name = "dlb_feed_selection_seconds",
         .kind = kSummary,
         .unit = "seconds",
         .json = "feed.selection_ms",
         .json_scale = 1000,
         .json_decimals = 3,
         .help = "From a feed's request head to its backend, waiting included."}),
    metric<kWindow<&W::feed_header_wait_us>>({.name = "dlb_feed_header_wait_seconds",
                                              .kind = kSummary,
                                              .unit = "seconds",
                                              .json = "feed.header_wait_ms",
                                              .json_scale = 1000,
                                              .json_decimals = 3,
                                              .help = "From the pick to the feed's response head."}),
    metric<kWindow<&W::feed_body_us>>(
        {.name = "dlb_feed_body_seconds",
         .kind = kSummary,
         .unit = "seconds",
         .json = "feed.body_ms",
         .json_scale = 1000,
         .json_decimals = 3,
         .help = "From a feed's response head to its last byte at the client."}),

    // Health checks
    metric<&LbTotals::healthy_backends>({.name = "dlb_backends_healthy",
                                         .kind = kGauge,
                                         .json = "health.healthy_backends",
                                         .help = "Backends that pass their checks and are not draining."}),
    metric<kBackends<&C::probes>>({.name = "dlb_probes_total",
                                   .json = "health.probes",
                                   .help = "Health checks and statistics polls made."}),
    metric<kBackends<&C::probe_failures>>({.name = "dlb_probe_failures_total",
                                           .json = "health.probe_failures",
                                           .help = "Health checks and statistics polls that failed."}),
    metric<kBackends<&C::probes_skipped>>({.name = "dlb_probes_skipped_total",
                                           .json = "health.probes_skipped",
                                           .help = "Ticks at which the last one still ran."}),

    // This system
    metric<kMemory<&MemoryState::shedding>>({.name = "dlb_memory_guard_on",
                                             .kind = kGauge,
                                             .json = "memory_guard.on",
                                             .help = "1 while the balancer sheds load to save memory."}),
    metric<kMemory<&MemoryState::times_shed>>({.name = "dlb_memory_guard_events_total",
                                               .json = "memory_guard.events",
                                               .help = "How often the memory guard went on."}),
    metric<kMemory<&MemoryState::unreclaimable_percent>>(
        {.name = "dlb_memory_guard_unreclaimable_percent",
         .kind = kGauge,
         .unit = "percent",
         .json = "memory_guard.unreclaimable_percent",
         .json_decimals = 1,
         .help = "What lb-max-memory is held against, each 100 ms; -1: not known."}),
    metric<kMemory<&MemoryState::socket_bytes>>(
        {.name = "dlb_memory_guard_socket_bytes",
         .kind = kGauge,
         .unit = "bytes",
         .json = "memory_guard.socket_bytes",
         .help = "What lb-max-socket-bytes is held against: the cgroup's figure, else the kernel's; -1: not "
                 "known."}),
    metric<kMemory<&MemoryState::small_buffers>>({.name = "dlb_memory_guard_small_buffers",
                                                  .kind = kGauge,
                                                  .json = "memory_guard.small_buffers",
                                                  .help = "1 while new sockets get buffers of 16 KiB."}),
    metric<kSystem<&S::cpu_percent>>({.name = "dlb_system_cpu_percent",
                                      .kind = kGauge,
                                      .unit = "percent",
                                      .json = "sys1.cpu_percent",
                                      .json_decimals = 1,
                                      .help = "CPU of this cgroup, percent of its quota."}),
    metric<kSystem<&S::process_cpu_seconds>>({.name = "dlb_process_cpu_seconds_total",
                                              .unit = "seconds",
                                              .json = "sys1.process_cpu_seconds",
                                              .json_decimals = 2,
                                              .help = "CPU time of this process."}),
    metric<kSystem<&S::rss_bytes>>({.name = "dlb_process_resident_memory_bytes",
                                    .kind = kGauge,
                                    .unit = "bytes",
                                    .json = "sys1.rss_bytes",
                                    .help = "Resident memory of this process."}),
    metric<kSystem<&S::memory_total_bytes>>({.name = "dlb_system_memory_total_bytes",
                                             .kind = kGauge,
                                             .unit = "bytes",
                                             .json = "sys1.memory.total_bytes",
                                             .help = "Memory of this cgroup, page cache included."}),
    metric<kSystem<&S::memory_working_set_bytes>>({.name = "dlb_system_memory_working_set_bytes",
                                                   .kind = kGauge,
                                                   .unit = "bytes",
                                                   .json = "sys1.memory.working_set_bytes",
                                                   .help = "Total less inactive page cache."}),
    metric<kSystem<&S::memory_unreclaimable_bytes>>({.name = "dlb_system_memory_unreclaimable_bytes",
                                                     .kind = kGauge,
                                                     .unit = "bytes",
                                                     .json = "sys1.memory.unreclaimable_bytes",
                                                     .help = "Anonymous, shared, kernel and socket memory."}),
    metric<kSystem<&S::memory_socket_bytes>>({.name = "dlb_system_memory_socket_bytes",
                                              .kind = kGauge,
                                              .unit = "bytes",
                                              .json = "sys1.memory.sock_bytes",
                                              .help = "Socket memory of this cgroup; -1: not counted."}),
    metric<kSystem<&S::memory_limit_bytes>>({.name = "dlb_system_memory_limit_bytes",
                                             .kind = kGauge,
                                             .unit = "bytes",
                                             .json = "sys1.memory.limit_bytes",
                                             .help = "The tightest memory limit above us."}),
    metric<kSystem<&S::memory_total_percent>>({.name = "dlb_system_memory_total_percent",
                                               .kind = kGauge,
                                               .unit = "percent",
                                               .json = "sys1.memory.total_percent",
                                               .json_decimals = 1,
                                               .help = "Total memory, percent of the limit."}),
    metric<kSystem<&S::memory_working_set_percent>>({.name = "dlb_system_memory_working_set_percent",
                                                     .kind = kGauge,
                                                     .unit = "percent",
                                                     .json = "sys1.memory.working_set_percent",
                                                     .json_decimals = 1,
                                                     .help = "Working set, percent of the limit."}),
    metric<kSystem<&S::memory_unreclaimable_percent>>(
        {.name = "dlb_system_memory_unreclaimable_percent",
         .kind = kGauge,
         .unit = "percent",
         .json = "sys1.memory.unreclaimable_percent",
         .json_decimals = 1,
         .help = "Unreclaimable memory, percent of the limit."}),
    metric<kSystem<&S::tcp_memory_bytes>>({.name = "dlb_system_tcp_memory_bytes",
                                           .kind = kGauge,
                                           .unit = "bytes",
                                           .json = "sys1.tcp_memory_bytes",
                                           .help = "Memory of all TCP sockets of the kernel."}),
    metric<kSystem<&S::load_1m>>({.name = "dlb_system_load_1m",
                                  .kind = kGauge,
                                  .json = "sys1.load_1m",
                                  .json_decimals = 2,
                                  .help = "Load average over a minute."}),
    metric<kSystem<&S::load_5m>>({.name = "dlb_system_load_5m",
                                  .kind = kGauge,
                                  .json = "sys1.load_5m",
                                  .json_decimals = 2,
                                  .help = "Load average over five minutes."}),
    metric<kSystem<&S::load_15m>>({.name = "dlb_system_load_15m",
                                   .kind = kGauge,
                                   .json = "sys1.load_15m",
                                   .json_decimals = 2,
                                   .help = "Load average over fifteen minutes."}),
    metric<kSystem<&S::open_fds>>({.name = "dlb_process_open_fds",
                                   .kind = kGauge,
                                   .json = "sys1.open_fds",
                                   .help = "Open descriptors of this process."}),
    metric<kSystem<&S::threads>>({.name = "dlb_process_threads",
                                  .kind = kGauge,
                                  .json = "sys1.threads",
                                  .help = "Threads of this process."}),

    // The process
    metric<[](const LbTotals& t) { return seconds(t.now - t.started); }>(
        {.name = "dlb_uptime_seconds",
         .kind = kGauge,
         .unit = "seconds",
         .json = "uptime_seconds",
         .json_decimals = 1,
         .help = "Since the start of this process."}),
    metric<[](const LbTotals& t) { return t.draining; }>({.name = "dlb_draining",
                                                          .kind = kGauge,
                                                          .json = "draining",
                                                          .help = "1 while this process is stopping."}),
    metric<[](const LbTotals& t) { return t.log_suppressed; }>(
        {.name = "dlb_log_suppressed_total",
         .json = "proxy_errors_suppressed",
         .help = "Repeated warnings and errors that were not logged."}),
    metric<[](const LbTotals& t) { return t.log_dropped; }>(
        {.name = "dlb_log_dropped_total",
         .json = "log_lines_dropped",
         .help = "Log lines dropped because their reader was too slow."}),
    metric<[](const LbTotals& t) { return t.access_log != nullptr ? t.access_log->lines() : 0; }>(
        {.name = "dlb_access_log_lines_total",
         .json = "access_log.lines",
         .help = "Lines given to the access log."}),
    metric<[](const LbTotals& t) { return t.access_log != nullptr ? t.access_log->dropped() : 0; }>(
        {.name = "dlb_access_log_dropped_total",
         .json = "access_log.dropped",
         .help = "Lines dropped because the disk or reader was too slow."}),
    metric<[](const LbTotals& t) { return t.access_log != nullptr ? t.access_log->failed() : 0; }>(
        {.name = "dlb_access_log_failed_total",
         .json = "access_log.failed",
         .help = "Lines that could not be written."}),
    metric<[](const LbTotals& t) { return t.workers.size(); }>(
        {.name = "dlb_workers", .kind = kGauge, .json = "loop.workers", .help = "Data threads."}),
    metric<kSum<&W::loop_turns>>(
        {.name = "dlb_loop_turns_total", .json = "loop.turns", .help = "Turns of the event loops."}),
    metric<kSum<&W::loop_events>>(
        {.name = "dlb_loop_events_total", .json = "loop.events", .help = "Events handled by the loops."}),
    metric<kSum<&W::loop_stale_events>>({.name = "dlb_loop_stale_events_total",
                                         .json = "loop.stale_events",
                                         .help = "Events of descriptors closed earlier in the same turn."}),
    metric<kSum<&W::loop_turns_over_5ms>>({.name = "dlb_loop_turns_over_5ms_total",
                                           .json = "loop.turns_over_5ms",
                                           .help = "Turns that took longer than 5 ms."}),
    metric<[](const LbTotals& t) { return static_cast<double>(t.max(&W::loop_turn_ns_max)) / 1e9; }>(
        {.name = "dlb_loop_turn_seconds_max",
         .kind = kGauge,
         .unit = "seconds",
         .json = "loop.turn_ms_max",
         .json_scale = 1000,
         .json_decimals = 3,
         .help = "The longest turn since start."}),
};

}  // namespace

std::span<const MetricRow> lb_metric_rows() { return kLbRows; }

}  // namespace dlb::lb
