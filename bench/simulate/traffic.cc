// Requests in virtual time: the client's side, the balancer's decisions as worker.cc and exchange_failure.cc
// make them, and the server's side.
#include <algorithm>
#include <cmath>

#include "bench/simulate/simulation.h"

namespace dlb::bench {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr Duration kErrorTime = std::chrono::microseconds(500);  // of an answer that costs the server nothing
constexpr auto kMessage = lb::TransportClass::Message;

// Arrivals a second at `since` the scenario's zero.
double rate_at(const ArrivalSpec& spec, Duration since) {
  double rate = spec.rate;
  if (spec.low_rate >= 0 && spec.period.count() > 0) {
    const double turn = seconds(since - spec.from) / seconds(spec.period);
    rate = spec.low_rate + (spec.rate - spec.low_rate) * (1 - std::cos(2 * kPi * turn)) / 2;
  }
  if (spec.burst_every.count() > 0 && (since - spec.from) % spec.burst_every < spec.burst_for) {
    rate *= spec.burst_factor;
  }
  return rate;
}

double rate_max(const ArrivalSpec& spec) {
  return std::max(spec.rate, spec.low_rate) * std::max(1.0, spec.burst_factor);
}

}  // namespace

// Poisson by thinning: candidates come at the highest rate, and each is taken with the chance of its moment.
void Simulation::next_arrival(std::uint32_t index) {
  Stream& stream = streams_[index];
  const ArrivalSpec& spec = *stream.spec;
  const Duration since = now_ - zero_;
  if (since >= std::min(spec.until, scenario_.duration)) return;
  if (spec.requests != 0 && stream.come >= spec.requests) return;
  const double rate = rate_at(spec, since);
  const double highest = rate_max(spec);
  Duration gap;
  bool taken = true;
  if (spec.even) {
    gap = Duration(static_cast<Duration::rep>(1e9 / std::max(rate, 1e-9)));
  } else {
    taken = stream.rng.unit() * highest < rate;
    gap = draw_exponential(1e9 / highest, stream.rng);
  }
  schedule(now_ + std::max(gap, Duration(1)), EventKind::Arrival, index);
  if (!taken) return;
  ++stream.come;
  arrive(0);
}

void Simulation::arrive(std::uint32_t user) {
  if (free_.empty()) {
    requests_.emplace_back(*this);
    requests_.back().index = static_cast<std::uint32_t>(requests_.size() - 1);
    free_.push_back(requests_.back().index);
  }
  Request& request = requests_[free_.back()];
  free_.pop_back();
  request.number = numbers_++;
  request.arrived = now_;
  request.user = user;
  request.was_tried = request.retried = request.retry_held = false;
  ++request.life;
  ++in_progress_;
  route(request);
}

void Simulation::route(Request& request) {
  const lb::Choice choice = router_.pick(kMessage, now_, request.tried());
  switch (choice.status) {
    case lb::PickStatus::Picked:
      return send(request, choice);
    case lb::PickStatus::Full:
      break;
    case lb::PickStatus::NoHealthy:
    case lb::PickStatus::NoMemory:
      return finish(request, Failure::NoBackend);
  }
  if (!line_.join_for_slot(request, static_cast<std::uint32_t>(options_.backend_queue_max), now_)) {
    return finish(request, Failure::QueueFull);
  }
  request.state = State::Queued;
  ++outcome_.queued;
  schedule(now_ + options_.backend_queue_timeout, EventKind::QueueTimeout, request.index, request.life);
}

void Simulation::send(Request& request, const lb::Choice& choice) {
  request.state = State::Sent;
  request.backend = choice.backend;
  request.picked = now_;
  ++request.life;
  ++backend(choice.backend).counters.requests;
  backend(choice.backend).heads.asked(now_);
  ++outcome_.servers[choice.backend].requests;
  if (scaler_) last_busy_[choice.backend] = now_;
  ++bucket_at(now_).picks[choice.backend];
  schedule(now_ + scenario_.network / 2, EventKind::Reached, request.index, request.life);
}

void Simulation::reach(Request& request) {
  SimServer& server = servers_[request.backend];
  if (server.drops(now_)) {
    return schedule(request.picked + options_.connect_timeout, EventKind::ConnectTimeout, request.index,
                    request.life);
  }
  if (!server.running(now_)) {
    return schedule(now_ + scenario_.network / 2, EventKind::Refused, request.index, request.life);
  }
  lb::note_connect_succeeded(backend(request.backend));
  schedule(now_ + options_.backend_timeout, EventKind::HeadTimeout, request.index, request.life);
  if (server.hangs(now_)) return;
  // Its luck is its own, whichever attempt or server this is.
  Rng luck(scenario_.seed * 7'919 + request.number * 2 + (request.retried ? 1 : 0));
  if (luck.unit() < server.share(EpisodeKind::Reset, now_)) {
    ++backend(request.backend).counters.resets;
    note_failed(request);
    return fail(request, Failure::Broken);
  }
  const bool error = luck.unit() < server.share(EpisodeKind::Errors, now_);
  if (error || (!server.has_room() && server.line_full())) {
    request.status = error ? 500 : 503;
    return schedule(now_ + kErrorTime + scenario_.network / 2, EventKind::Answered, request.index,
                    request.life);
  }
  request.status = 200;
  if (server.has_room()) return serve(request);
  request.state = State::InLine;
  server.waiting().push_back(request.index);
}

void Simulation::serve(Request& request) {
  SimServer& server = servers_[request.backend];
  server.begin(now_);
  request.state = State::InService;
  Rng luck(scenario_.seed * 104'729 + request.number * 2 + (request.retried ? 1 : 0));
  const double takes = static_cast<double>(server.spec().service.draw(luck).count()) * server.slowness(now_);
  schedule(now_ + Duration(static_cast<Duration::rep>(takes)), EventKind::Served, request.index,
           request.life);
}

// Its place at the server, at work or in line, goes to the next.
void Simulation::leave_server(Request& request) {
  SimServer& server = servers_[request.backend];
  if (request.state == State::InLine) std::erase(server.waiting(), request.index);
  if (request.state != State::InService) return;
  server.end(now_);
  if (!server.waiting().empty() && server.has_room()) {
    Request& next = requests_[server.waiting().front()];
    server.waiting().pop_front();
    serve(next);
  }
}

void Simulation::answer(Request& request) {
  lb::Backend& one = backend(request.backend);
  one.heads.answered(now_);
  router_.record_latency(request.backend, now_ - request.picked, now_);
  if (request.status >= 500) {
    ++one.counters.responses_5xx;
    note_failed(request);
    return finish(request, Failure::Status5xx);
  }
  ++one.counters.responses_2xx;
  if (lb::Ejections::note_success(one, request.picked)) {
    carry_out(request.backend, ejections_.succeeded(one, now_));
  }
  finish(request, Failure::None);
}

void Simulation::note_failed(Request& request) {
  lb::Backend& one = backend(request.backend);
  ++outcome_.servers[request.backend].failed;
  router_.record_failure(request.backend, now_);
  if (ejections_.note_failure(one, request.picked)) carry_out(request.backend, ejections_.failed(one, now_));
}

// A connect that failed, or an exchange that broke before its answer: once more, as the retry rules have it.
void Simulation::fail(Request& request, Failure failure) {
  line_.note_failure(request.backend, now_);
  ++request.life;
  const bool again = !request.retried;
  give_back(request);
  if (!again) return finish(request, failure);
  request.was_tried = true;
  request.tried_backend = request.backend;
  if (line_.retry_budget().try_take(in_progress_)) return retry(request);
  if (!line_.join_for_retry(request, request.backend, *backends_,
                            static_cast<std::uint32_t>(options_.backend_queue_max), now_)) {
    return finish(request, failure);
  }
  request.state = State::AwaitsRetry;
  schedule(now_ + options_.backend_queue_timeout, EventKind::QueueTimeout, request.index, request.life);
}

// A place in the retry budget is its own.
void Simulation::retry(Request& request) {
  request.retry_held = request.retried = true;
  ++outcome_.retries;
  route(request);
}

// The slot and the connection of the last attempt; the slot goes to whoever waits.
void Simulation::give_back(Request& request) {
  if (scaler_) last_busy_[request.backend] = now_;
  backend(request.backend).heads.over();
  router_.release_connection(request.backend, kMessage);
  if (line_.waiting_for_slot() != 0 && line_.serve_with(request.backend, now_)) return;
  router_.release_slot(request.backend);
  if (line_.waiting_for_slot() != 0) serve_again_ = true;
}

void Simulation::finish(Request& request, Failure failure) {
  const bool had_backend = failure == Failure::None || failure == Failure::Status5xx;
  if (had_backend) give_back(request);
  if (request.retry_held) line_.retry_budget().give_back();
  request.state = State::Free;
  ++request.life;
  --in_progress_;
  free_.push_back(request.index);
  OutcomeBucket& bucket = bucket_at(request.arrived);
  ++bucket.requests;
  const auto took =
      static_cast<std::uint32_t>(std::min<std::int64_t>((now_ - request.arrived).count() / 1000, 0xffffffff));
  if (failure == Failure::None) {
    bucket.latency_us.push_back(took);
  } else {
    ++bucket.failed;
  }
  if (request.arrived >= zero_ + scenario_.judged_from) {
    ++outcome_.requests;
    ++outcome_.failures[static_cast<std::size_t>(failure)];
    if (failure == Failure::None) {
      ++outcome_.succeeded;
      outcome_.latency_us.push_back(took);
    }
  }
  if (request.user != 0) {
    User& user = users_[request.user - 1];
    schedule(now_ + user.spec->think.draw(user.rng), EventKind::UserAsks, request.user - 1);
  }
}

}  // namespace dlb::bench
