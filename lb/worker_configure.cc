// A worker takes over a configuration: at its start, and between two events when a reload has made another
// one. The inventory of what follows from the options stands in configuration.h.
#include <algorithm>
#include <utility>

#include "lb/worker.h"

namespace dlb::lb {
namespace {

Duration first_look(const Options& options) {
  return std::min(Worker::kFirstLook, options.client_write_timeout / Worker::kLooks);
}
Duration tick(const Options& options) { return options.client_write_timeout / Worker::kLooks; }
Duration rate_window(const Options& options) {
  return options.client_min_rate.bytes > 0 ? options.client_min_rate_window : Duration::zero();
}

}  // namespace

WorkerTimers::WorkerTimers(EventLoop& loop, const Options& options)
    : client_new(loop, options.client_idle_timeout),
      client_idle(loop, options.client_idle_timeout),
      client_header(loop, options.client_header_timeout),
      client_body(loop, options.client_body_timeout),
      client_write(loop, options.client_write_timeout),
      client_linger(loop, Worker::kLingerTimeout),
      client_look(loop, first_look(options)),
      client_tick(loop, tick(options)),
      client_rate(loop, rate_window(options)),
      queue(loop, options.backend_queue_timeout),
      connect(loop, options.connect_timeout),
      response_head(loop, options.backend_timeout),
      response_body(loop, options.backend_body_timeout),
      upstream_idle(loop, options.proxy_idle_timeout),
      tunnel(loop, options.tunnel_timeout) {}

void WorkerTimers::apply(const Options& options) {
  const std::pair<TimerClass&, Duration> durations[] = {
      {client_new, options.client_idle_timeout},
      {client_idle, options.client_idle_timeout},
      {client_header, options.client_header_timeout},
      {client_body, options.client_body_timeout},
      {client_write, options.client_write_timeout},
      {client_look, first_look(options)},
      {client_tick, tick(options)},
      {client_rate, rate_window(options)},
      {queue, options.backend_queue_timeout},
      {connect, options.connect_timeout},
      {response_head, options.backend_timeout},
      {response_body, options.backend_body_timeout},
      {upstream_idle, options.proxy_idle_timeout},
      {tunnel, options.tunnel_timeout},
  };
  for (const auto& [timers, duration] : durations) timers.set_duration(duration);
}

// What a worker may hold, and how large a head may be.
void Worker::set_capacities() {
  const std::size_t connections = connection_capacity(options());
  upstreams_.set_capacity(connections + static_cast<std::size_t>(options().proxy_max_idle));
  exchanges_.set_capacity(connections);
  downstreams_.set_capacity(connections);
  tunnels_.set_capacity(connections);
  const auto head = static_cast<std::size_t>(options().max_header_bytes.bytes);
  request_limits_ = {head, HeadLimits{}.max_target_bytes};
  response_limits_ = {head * 2, HeadLimits{}.max_target_bytes};
}

void Worker::apply(std::shared_ptr<const Configuration> next) {
  if (next->serial == configuration_->serial) return;
  // Whoever still holds something of the old one by reference moves on before it is let go of.
  const auto old = std::exchange(configuration_, std::move(next));
  timers_.apply(options());
  blocks_.apply(options());
  set_capacities();
  router_.apply(options(), backends());
  pool_.apply(backends().size(), static_cast<std::size_t>(options().proxy_max_idle),
              static_cast<std::size_t>(options().proxy_max_idle_per_host));
  line_.resize(backends().size());
  for (const auto& backend : backends()) {
    const std::uint32_t index = backend->index;
    if (index < old->backends.size() && old->backends.shared_at(index) != backend)
      line_.forget_failures(index);
    if (backend->gone()) pool_.close_idle(index);
  }
  if (!acceptors_.empty()) note_client_limit();
  downstreams_.for_each([](Downstream& one) { one.judge_trust(); });
  if (!options().public_status) event_stream_.close_all();
  queue_retry_ = true;  // caps may be higher, or its backends other ones
  configured_.store(configuration_->serial, std::memory_order_release);
}

}  // namespace dlb::lb
