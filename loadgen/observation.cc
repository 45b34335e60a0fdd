#include "loadgen/observation.h"

#include <utility>

namespace dlb::loadgen {
namespace {

// A run whose verdict needs the balancer's counters waits longer for them.
constexpr Duration kPatience = std::chrono::milliseconds(500);
constexpr Duration kLeaderboardPatience = std::chrono::seconds(3);

}  // namespace

Result<SamplerPlan> sampler_plan(const Options& options, const std::vector<Target>& targets,
                                 const std::vector<Target>& verify_targets, bool leaderboard,
                                 const LoadedOptions& loaded) {
  SamplerPlan plan;
  plan.interval = options.metrics_interval;
  plan.patience = leaderboard ? kLeaderboardPatience : kPatience;
  plan.maybe_backends = verify_targets;
  for (const std::string& text : options.system_urls) {
    const std::size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos) {
      return loaded.at("system-urls", "\"" + text + "\": NAME=URL is expected");
    }
    auto target = parse_target(std::string_view(text).substr(equals + 1));
    if (!target) return loaded.at("system-urls", target.error().text);
    plan.backends.push_back({text.substr(0, equals), std::move(*target)});
  }
  if (options.lb_url == "none" || (options.lb_url.empty() && !options.sample_first_url)) {
    plan.maybe_backends.clear();
  } else if (options.lb_url.empty()) {
    plan.balancer = targets.front();
  } else {
    auto target = parse_target(options.lb_url);
    if (!target) return loaded.at("lb-url", target.error().text);
    plan.balancer = std::move(*target);
  }
  return plan;
}

Observation::Observation(EventLoop& loop, const Options& options, SamplerPlan plan, RunResult& result)
    : loop_(loop),
      result_(result),
      files_(options.out_dir, options.experiment),
      sampler_(loop, std::move(plan)) {}

TimePoint Observation::begin(const bool& stop) {
  files_.begin(wall_now_us(), sampler_.present());
  result_.series.set_sink(&files_);
  sampler_.begin(&files_, stop);
  origin_ = monotonic_now();
  sampler_.set_origin(origin_);
  return origin_;
}

void Observation::begin_stage(const StagePlan& plan, Recorder& recorder) {
  recorder.set_hook(this);
  open_model_ = plan.rate > 0;
  result_.series.begin_stage(plan.name, static_cast<std::uint64_t>(plan.users), monotonic_now() - origin_);
  sampler_.set_stage(plan.name);
}

void Observation::end_stage() {
  ended_ = monotonic_now() - origin_;
  result_.series.end_stage(ended_);
  sampler_.set_stage("");
}

void Observation::on_issued() {
  if (!open_model_) result_.series.on_planned(elapsed());
  result_.series.on_issued(elapsed());
}

void Observation::finish(const bool& stop) {
  result_.series.finish(ended_);  // a cool-down has no rows
  result_.series.set_sink(nullptr);
  sampler_.finish(stop);
  result_.systems = sampler_.systems();
}

}  // namespace dlb::loadgen
