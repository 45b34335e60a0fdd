#include "loadgen/sampler.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace dlb::loadgen {
namespace {

constexpr Duration kTurn = std::chrono::milliseconds(50);
constexpr std::string_view kStatusPath = "/lb/status";
constexpr std::string_view kBalancerPath = "/lb/metrics";
constexpr std::string_view kStatsPath = "/internal/stats";
constexpr std::string_view kMetricsPath = "/metrics?format=json";

// In a round a query may give up one connection and open another; those given up go at the turn's end.
constexpr std::size_t kConnections = Sampler::kMaxSystems * 3 + 16;

struct Nobody final : SystemQueryOwner {
  void on_answers(SystemQuery&) override {}
};

using Queries = std::vector<std::unique_ptr<SystemQuery>>;

// A balancer that is not here speaks of its own host when it says 127.0.0.1.
bool leads_elsewhere(const std::optional<Target>& balancer, const Target& backend) {
  return balancer && !balancer->address.is_loopback() && backend.address.is_loopback();
}

}  // namespace

bool any_tls(const SamplerPlan& plan) {
  return (plan.balancer && plan.balancer->tls) ||
         std::ranges::any_of(plan.backends, [](const NamedTarget& one) { return one.target.tls; }) ||
         std::ranges::any_of(plan.maybe_backends, &Target::tls);
}

Sampler::Sampler(EventLoop& loop, SamplerPlan plan)
    : loop_(loop),
      plan_(std::move(plan)),
      context_(loop, kAnswerLimit, Duration::zero()),
      pool_(context_, kConnections, 0),
      timers_(loop),
      tick_(timers_, *this) {
  context_.tls = plan_.tls;
}

Sampler::~Sampler() = default;

template <class Running>
void Sampler::drive(Duration limit, const bool& stop, Running running) {
  const TimePoint until = monotonic_now() + limit;
  while (!stop && running()) {
    const Duration left = until - monotonic_now();
    if (left <= Duration::zero()) return;
    loop_.run_once(std::min(kTurn, left));
  }
}

void Sampler::discover(const bool& stop) {
  Nobody nobody;
  const auto running = [](const Queries& queries) {
    return std::any_of(queries.begin(), queries.end(), [](const auto& query) { return query->running(); });
  };
  std::vector<BackendPlace> places;
  if (plan_.balancer) {
    SystemQuery status(pool_, nobody, *plan_.balancer, {std::string(kStatusPath)});
    SystemQuery metrics(pool_, nobody, *plan_.balancer, {std::string(kBalancerPath)});
    status.start();
    drive(plan_.patience, stop, [&] { return status.running(); });
    if (status.complete() && reader_.status(status.answers().front(), places)) {
      metrics.start();
      drive(plan_.patience, stop, [&] { return metrics.running(); });
    }
    Figures unused = unknown_figures();
    balancer_answers_ = metrics.complete() && reader_.balancer(metrics.answers().front(), unused, views_);
    if (balancer_answers_) {
      records_.emplace_back("Sys1", "lb", plan_.balancer->url);
      systems_.emplace_back().query = std::make_unique<SystemQuery>(
          pool_, *this, *plan_.balancer, std::vector<std::string>{std::string(kBalancerPath)});
    }
  }
  std::vector<Candidate> candidates = candidates_of(places);
  for (const Target& target : plan_.maybe_backends) candidates.push_back({{}, target, true});
  Queries queries;
  for (const Candidate& candidate : candidates) {
    if (!candidate.target) continue;
    queries.push_back(std::make_unique<SystemQuery>(pool_, nobody, *candidate.target,
                                                    std::vector<std::string>{std::string(kStatsPath)}));
    queries.back()->start();
  }
  drive(plan_.patience, stop, [&] { return running(queries); });
  std::size_t next = 0;
  for (Candidate& candidate : candidates) {
    if (!candidate.target) continue;
    const SystemQuery& query = *queries[next++];
    Figures unused = unknown_figures();
    candidate.answers = query.complete() && reader_.stats(query.answers().front(), unused, candidate.own_id);
  }
  take_in(std::move(candidates));
}

std::vector<Sampler::Candidate> Sampler::candidates_of(const std::vector<BackendPlace>& places) const {
  std::vector<Candidate> candidates;
  for (const NamedTarget& given : plan_.backends) {
    candidates.push_back({{given.name, given.target.url}, given.target});
  }
  if (!candidates.empty()) return candidates;
  for (const BackendPlace& place : places) {
    if (candidates.size() + 1 >= kMaxSystems) break;
    Candidate candidate{place, {}};
    if (auto target = parse_target(place.url); target && !leads_elsewhere(plan_.balancer, *target)) {
      candidate.target = std::move(*target);
    }
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

// Numbers those that are there. One of the maybe-backends stands in for a backend of its id that does not
// answer where the balancer says it is, and counts on its own where nobody tells of backends.
void Sampler::take_in(std::vector<Candidate> candidates) {
  const bool told = std::any_of(candidates.begin(), candidates.end(), [](const auto& c) { return !c.maybe; });
  std::vector<Candidate> taken;
  for (const Candidate& candidate : candidates) {
    if (!candidate.maybe) taken.push_back(candidate);
  }
  for (const Candidate& candidate : candidates) {
    if (!candidate.maybe || !candidate.answers) continue;
    if (!told) {
      taken.push_back(candidate);
      taken.back().place = {candidate.own_id, candidate.target->url};
      continue;
    }
    for (Candidate& known : taken) {
      if (known.answers || known.place.id != candidate.own_id) continue;
      known.target = candidate.target;
      known.answers = true;
    }
  }
  std::sort(taken.begin(), taken.end(),
            [](const Candidate& a, const Candidate& b) { return natural_less(a.place.id, b.place.id); });
  for (const Candidate& candidate : taken) {
    if (records_.size() >= kMaxSystems) break;
    const bool given = !plan_.backends.empty();
    if (!candidate.answers && !given && !balancer_answers_) continue;
    records_.emplace_back("Sys" + std::to_string(first_backend() + systems_.size() + 1), candidate.place.id,
                          candidate.target ? candidate.target->url : candidate.place.url);
    System& system = systems_.emplace_back();
    if (!candidate.target || (!candidate.answers && !given)) continue;
    system.query = std::make_unique<SystemQuery>(
        pool_, *this, *candidate.target,
        std::vector<std::string>{std::string(kStatsPath), std::string(kMetricsPath)});
  }
}

void Sampler::begin(SampleSink* sink, const bool& stop) {
  origin_ = monotonic_now();
  if (systems_.empty()) return;
  sink_ = sink;
  sampling_ = true;
  ask_all();
  drive(plan_.patience, stop, [&] { return any_running(); });
  tick_.arm_at(monotonic_now() + plan_.interval);
}

void Sampler::finish(const bool& stop) {
  if (!sampling_) return;
  tick_.cancel();
  drive(plan_.patience, stop, [&] { return any_running(); });
  ask_all();
  drive(plan_.patience, stop, [&] { return any_running(); });
  sampling_ = false;
}

bool Sampler::any_running() const {
  return std::any_of(systems_.begin(), systems_.end(),
                     [](const System& system) { return system.query != nullptr && system.query->running(); });
}

void Sampler::on_heap_timer(HeapTimer&) {
  ask_all();
  tick_.arm_at(loop_.now() + plan_.interval);
}

void Sampler::ask_all() {
  for (std::size_t i = 0; i < systems_.size(); ++i) {
    SystemQuery* query = systems_[i].query.get();
    if (query == nullptr) continue;
    if (query->running()) {
      miss(i);
      if (i == 0 && balancer_answers_) miss_those_told_of();
    } else {
      query->start();
    }
  }
}

void Sampler::on_answers(SystemQuery& query) {
  if (!sampling_) return;
  for (std::size_t i = 0; i < systems_.size(); ++i) {
    if (systems_[i].query.get() != &query) continue;
    if (i == 0 && balancer_answers_) {
      take_balancer(query);
    } else {
      take_backend(i, query);
    }
    return;
  }
}

void Sampler::take_balancer(const SystemQuery& query) {
  Figures figures = unknown_figures();
  std::vector<BackendView> views;
  if (!query.complete() || !reader_.balancer(query.answers().front(), figures, views)) {
    miss(0);
    miss_those_told_of();
    return;
  }
  views_ = std::move(views);
  tell(0, figures, "direct");
  for (std::size_t i = 1; i < systems_.size(); ++i) {
    if (systems_[i].query != nullptr) continue;
    const BackendView* view = view_of(records_[i].id());
    if (view == nullptr) {
      miss(i);
      continue;
    }
    Figures told = unknown_figures();
    add_view(told, view->figures, false);
    tell(i, told, "balancer");
  }
}

void Sampler::take_backend(std::size_t index, const SystemQuery& query) {
  Figures figures = unknown_figures();
  std::string id;
  if (!query.complete() || !reader_.stats(query.answers()[0], figures, id)) {
    miss(index);
    return;
  }
  [[maybe_unused]] const bool more = reader_.metrics(query.answers()[1], figures);
  if (const BackendView* view = view_of(records_[index].id()); view != nullptr) {
    add_view(figures, view->figures, true);
  }
  tell(index, figures, "direct");
}

const BackendView* Sampler::view_of(std::string_view id) const {
  const auto found =
      std::find_if(views_.begin(), views_.end(), [&](const BackendView& view) { return view.id == id; });
  return found == views_.end() ? nullptr : &*found;
}

void Sampler::tell(std::size_t index, Figures figures, std::string_view source) {
  System& system = systems_[index];
  SystemRecord& record = records_[index];
  const TimePoint now = loop_.now();
  // Samples that came close together are too few steps of the clock apart: the one before still holds.
  if (record.samples() > 0 && now - system.counted_at < kLeastCpuTime) {
    at(figures, Figure::ProcessCpuPercent) = at(record.latest(), Figure::ProcessCpuPercent);
  } else {
    at(figures, Figure::ProcessCpuPercent) =
        process_cpu_percent(system.counted, figures, now - system.counted_at);
    system.counted = figures;
    system.counted_at = now;
  }
  record.set_source(source);
  record.add(seconds(now - origin_), figures);
  row(index, figures, source);
}

void Sampler::miss(std::size_t index) {
  records_[index].missed();
  row(index, unknown_figures(), "missed");
}

void Sampler::miss_those_told_of() {
  for (std::size_t i = 1; i < systems_.size(); ++i) {
    if (systems_[i].query == nullptr) miss(i);
  }
}

void Sampler::row(std::size_t index, const Figures& figures, std::string_view source) {
  if (sink_ == nullptr) return;
  const SystemRecord& record = records_[index];
  sink_->on_sample(MetricsRow{wall_now_us(), seconds(loop_.now() - origin_), stage_, record.name(),
                              record.id(), source, &figures});
}

}  // namespace dlb::loadgen
