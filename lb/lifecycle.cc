#include "lb/lifecycle.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/service_manager.h"
#include "lb/worker.h"

namespace dlb::lb {

Lifecycle::Lifecycle(EventLoop& loop, TimerHeap& timers, Shared& shared, StatusPages& pages)
    : loop_(loop), shared_(shared), pages_(pages), timer_(timers, *this) {}

void Lifecycle::start() {
  // Instances that are being started take longer than a check.
  const AutoscaleOptions& scale = options()->autoscale;
  deadline_ = loop_.now() + (scale.on() ? std::max(scale.start_timeout, options()->monitor_timeout)
                                        : options()->monitor_timeout);
  timer_.arm_at(loop_.now());
}

void Lifecycle::tell_workers(WorkerMail::Kind kind) {
  for (Worker* worker : shared_.workers) std::ignore = worker->post({kind});
}

std::shared_ptr<const Options> Lifecycle::options() const { return shared_.configuration.current()->options; }

bool Lifecycle::all_checked() const {
  const auto configuration = shared_.configuration.current();
  for (const auto& pool : configuration->pools) {
    for (const auto& backend : pool->backends) {
      if (backend->http == nullptr && !backend->checked.load(std::memory_order_relaxed)) return false;
    }
  }
  const auto up = [](const auto& backend) {
    return !backend->gone() && backend->healthy.load(std::memory_order_relaxed);
  };
  if (configuration->options->autoscale.on()) return std::ranges::any_of(configuration->backends, up);
  return std::ranges::all_of(configuration->backends, [](const auto& backend) {
    return backend->gone() || backend->checked_at_ns.load(std::memory_order_relaxed) != 0;
  });
}

// By their places, which are exact: a sum over gauges would miss who is just going from one to another.
std::uint64_t Lifecycle::open_connections() const { return shared_.clients.taken(); }

std::uint64_t Lifecycle::open_tunnels() const {
  std::uint64_t open = 0;
  for (const Worker* worker : shared_.workers) open += worker->open_tunnels();
  return open;
}

std::uint64_t tunnels_to_keep(std::uint64_t open, Duration left, Duration total) {
  if (left <= Duration::zero()) return 0;
  if (left >= total) return open;
  const double share = static_cast<double>(left.count()) / static_cast<double>(total.count());
  return static_cast<std::uint64_t>(std::ceil(static_cast<double>(open) * share));
}

std::uint64_t Lifecycle::requests_refused() const {
  return shared_.refused_at_end.load(std::memory_order_relaxed);
}

std::uint64_t Lifecycle::connections_cut() const {
  return connections_ended_ - std::min(connections_ended_, requests_refused());
}

void Lifecycle::enter_tunnels_or_cut() {
  const bool spread = options()->tunnel_drain_timeout > Duration::zero() && open_tunnels() > 0;
  enter(spread ? State::Tunnels : State::Cutting);
}

void Lifecycle::close_tunnels_due() {
  for (std::size_t i = 0; i < shared_.workers.size(); ++i) {
    Worker& worker = *shared_.workers[i];
    const std::uint64_t keep = tunnels_to_keep(tunnels_[i], deadline_ - loop_.now(), tunnel_drain_timeout_);
    if (worker.open_tunnels() <= keep) continue;
    std::ignore = worker.post({WorkerMail::Kind::KeepTunnels, 0, static_cast<std::uint32_t>(keep)});
  }
}

void Lifecycle::enter(State state) {
  state_ = state;
  switch (state) {
    case State::Warming:
      return;
    case State::Serving:
      tell_workers(WorkerMail::Kind::StartAccepting);
      notify_service_manager("READY=1");
      if (when_serving_) when_serving_();
      return;
    case State::Notice:
      shared_.log.info("draining", {{"notice_ms", options()->drain_notice.count() / 1'000'000},
                                    {"connections", open_connections()}});
      notify_service_manager("STOPPING=1");
      shared_.draining.store(true, std::memory_order_relaxed);
      pages_.set_draining();
      tell_workers(WorkerMail::Kind::BeginDrain);
      deadline_ = loop_.now() + options()->drain_notice;
      close_idle_at_ = loop_.now() + kIdleGrace;
      break;
    case State::Draining:
      tell_workers(WorkerMail::Kind::StopAccepting);
      deadline_ = loop_.now() + options()->drain_timeout;
      break;
    case State::Refusing:
      connections_ended_ = open_connections() - open_tunnels();
      tell_workers(WorkerMail::Kind::CutRequests);
      deadline_ = loop_.now() + kRefusing;
      break;
    case State::Tunnels:
      tell_workers(WorkerMail::Kind::CutRequests);  // who was refused and has not taken it in time
      tunnels_.clear();
      for (const Worker* worker : shared_.workers) tunnels_.push_back(worker->open_tunnels());
      shared_.log.info("closing tunnels", {{"tunnels", open_tunnels()}});
      tunnel_drain_timeout_ = options()->tunnel_drain_timeout;
      deadline_ = loop_.now() + tunnel_drain_timeout_;
      break;
    case State::Cutting:
      connections_ended_ += connections_ended_ == 0 ? open_connections() : open_tunnels();
      tell_workers(WorkerMail::Kind::CutAll);
      break;
    case State::Stopped:
      loop_.stop();
      return;
  }
  timer_.arm_at(loop_.now() + kPoll);
}

void Lifecycle::hand_over() {
  if (state_ != State::Serving) return;
  shared_.draining.store(true, std::memory_order_relaxed);
  close_idle_at_ = kNever;
  handed_over_ = true;
  enter(State::Draining);
}

void Lifecycle::on_signal(int) {
  switch (state_) {
    case State::Warming:
    case State::Serving:
      return enter(State::Notice);
    case State::Notice:
    case State::Draining:
    case State::Refusing:
    case State::Tunnels:
      return enter(State::Cutting);
    case State::Cutting:
    case State::Stopped:
      return;
  }
}

void Lifecycle::on_heap_timer(HeapTimer&) {
  const TimePoint now = loop_.now();
  switch (state_) {
    case State::Warming:
      if (all_checked() || now >= deadline_) return enter(State::Serving);
      break;
    case State::Serving:
    case State::Stopped:
      return;
    case State::Notice:
      if (now >= deadline_) return enter(State::Draining);
      break;
    case State::Draining:
      if (open_connections() == 0) return enter(State::Stopped);
      if (now >= close_idle_at_) {
        close_idle_at_ = kNever;
        tell_workers(WorkerMail::Kind::CloseIdle);
      }
      if (open_connections() <= open_tunnels()) return enter_tunnels_or_cut();
      if (now >= deadline_) return enter(State::Refusing);
      break;
    case State::Refusing:
      if (open_connections() == 0) return enter(State::Stopped);
      if (now >= deadline_ || open_connections() <= open_tunnels()) return enter_tunnels_or_cut();
      break;
    case State::Tunnels:
      if (open_connections() == 0) return enter(State::Stopped);
      if (now >= deadline_) return enter(State::Cutting);
      close_tunnels_due();
      break;
    case State::Cutting:
      if (open_connections() == 0) return enter(State::Stopped);
  }
  timer_.arm_at(now + kPoll);
}

}  // namespace dlb::lb
