#include "bench/simulate/simulation.h"

#include <algorithm>

namespace dlb::bench {
namespace {

// Far from the beginning of the clock's line, where times mean "never".
constexpr TimePoint kZero{std::chrono::seconds(1'000'000)};
// The first checks and polls come before the first request, as in the balancer.
Duration lead_of(const Scenario& scenario) {
  Duration longest = std::chrono::seconds(3);
  if (scenario.options.autoscale.on()) {  // and the first instance is up
    for (const ServerSpec& server : scenario.servers)
      longest = std::max(longest, server.start_up + 2 * scenario.options.health_interval);
  }
  return longest;
}

lb::Options with_policy(const lb::Options& options, const std::string& policy) {
  lb::Options out = options;
  set_policy(out, policy);
  return out;
}

std::uint64_t mix(std::uint64_t seed, std::uint64_t what) { return Rng(seed * 1'000'003 + what).next(); }

}  // namespace

Simulation::Simulation(const Scenario& scenario, const std::string& policy)
    : scenario_(scenario),
      options_(with_policy(scenario.options, policy)),
      zero_(kZero),
      end_(kZero + scenario.duration),
      now_(kZero - lead_of(scenario)),
      backends_(lb::make_backend_set(options_)),
      router_(options_, *backends_, mix(scenario.seed, 1)),
      ejections_(options_, *backends_, mix(scenario.seed, 2)),
      line_(router_, waiting_, *this, scenario.servers.size()) {
  outcome_.scenario = scenario.name;
  outcome_.about = scenario.about;
  outcome_.policy = policy;
  outcome_.duration = scenario.duration;
  outcome_.buckets.resize(Outcome::kBuckets);
  const std::size_t count = scenario.servers.size();
  for (OutcomeBucket& one : outcome_.buckets) one.picks.resize(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    servers_.emplace_back(scenario.servers[i], zero_);
    outcome_.servers.push_back({.id = scenario.servers[i].id});
    monitors_.push_back({.checks = {now_, options_.health_interval, i, count},
                         .polls = {now_, options_.stats_interval, i, count},
                         .streak = lb::HealthStreak(static_cast<std::uint32_t>(options_.failure_limit))});
    schedule(now_, EventKind::Check, i);
    if (!options_.stats_path.empty()) schedule(now_, EventKind::Poll, i);
    for (const TimePoint death : servers_[i].deaths()) schedule(death, EventKind::Death, i);
  }
  begin_scaling();
  schedule(now_, EventKind::Sample, 0);
  for (const ArrivalSpec& spec : scenario.arrivals) {
    streams_.push_back({&spec, Rng(mix(scenario.seed, 100 + streams_.size()))});
    schedule(zero_ + spec.from, EventKind::Arrival, static_cast<std::uint32_t>(streams_.size() - 1));
  }
  for (const UserSpec& spec : scenario.users) {
    for (std::int64_t i = 0; i < spec.count; ++i) {
      users_.push_back({&spec, Rng(mix(scenario.seed, 10'000 + users_.size()))});
      const Duration first = spec.think.draw(users_.back().rng);
      schedule(zero_ + spec.from + first, EventKind::UserAsks, static_cast<std::uint32_t>(users_.size() - 1));
    }
  }
}

Simulation::~Simulation() {
  for (Request& one : requests_) line_.leave(one);
}

void Simulation::schedule(TimePoint at, EventKind kind, std::uint32_t a, std::uint32_t life) {
  events_.push({at, orders_++, kind, a, life});
}

Outcome Simulation::run() {
  while (!events_.empty()) {
    const Event event = events_.top();
    if (event.at >= end_ && in_progress_ == 0) break;
    events_.pop();
    now_ = event.at;
    handle(event);
    if (serve_again_) {
      serve_again_ = false;
      line_.serve(now_);
    }
    line_.serve_retries(in_progress_);
  }
  const lb::Router::Counters counters = router_.counters();
  outcome_.fallbacks = counters.fallbacks;
  outcome_.panics = counters.panics;
  outcome_.sum_up();
  return std::move(outcome_);
}

void Simulation::handle(const Event& event) {
  switch (event.kind) {
    case EventKind::Arrival:
      return next_arrival(event.a);
    case EventKind::UserAsks:
      if (now_ < end_ && now_ < zero_ + std::min(users_[event.a].spec->until, scenario_.duration)) {
        arrive(event.a + 1);
      }
      return;
    case EventKind::Check:
      return start_check(event.a);
    case EventKind::CheckDone:
      return finish_check(event.a, event.life);
    case EventKind::FirstCheck:
      if (event.life == monitors_[event.a].process) check(event.a);
      return;
    case EventKind::Scale:
      return scale();
    case EventKind::Poll:
      return poll(event.a);
    case EventKind::Sample:
      ejections_.sample(now_, [this](std::uint32_t index, const lb::OutlierDecision& decision) {
        carry_out(index, decision);
      });
      return schedule(now_ + std::chrono::seconds(1), EventKind::Sample, 0);
    case EventKind::LookAgain:
      backends_->note_change();
      serve_again_ = true;
      return;
    case EventKind::Death:
      return die(event.a);
    default:
      break;
  }
  Request& request = requests_[event.a];
  if (request.state == State::Free || request.life != event.life) return;
  on_request_event(event, request);
}

void Simulation::on_request_event(const Event& event, Request& request) {
  lb::BackendCounters& counters = backend(request.backend).counters;
  switch (event.kind) {
    case EventKind::Reached:
      return reach(request);
    case EventKind::Served: {
      leave_server(request);
      request.state = State::Sent;
      return schedule(now_ + scenario_.network / 2, EventKind::Answered, request.index, request.life);
    }
    case EventKind::Answered:
      return answer(request);
    case EventKind::Refused:
    case EventKind::ConnectTimeout:
      ++counters.connect_failures;
      router_.record_failure(request.backend, now_);
      if (lb::note_connect_failed(backend(request.backend),
                                  static_cast<std::uint32_t>(options_.failure_limit), now_)) {
        backends_->note_change();
        serve_again_ = true;
      }
      return fail(request, event.kind == EventKind::Refused ? Failure::Refused : Failure::TimedOut);
    case EventKind::HeadTimeout:
      ++counters.timeouts;
      note_failed(request);
      leave_server(request);
      request.retried = true;  // a time-out is never tried again
      return fail(request, Failure::TimedOut);
    case EventKind::QueueTimeout:
      line_.leave(request);
      return finish(request, Failure::QueueTimeout);
    default:
      return;
  }
}

OutcomeBucket& Simulation::bucket_at(TimePoint when) {
  const auto part = static_cast<std::size_t>(static_cast<double>((when - zero_).count()) /
                                             static_cast<double>(scenario_.duration.count()) *
                                             static_cast<double>(Outcome::kBuckets));
  return outcome_.buckets[std::min(part, Outcome::kBuckets - 1)];
}

}  // namespace dlb::bench
