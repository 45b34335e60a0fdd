#include "loadgen/traffic_options.h"

#include <algorithm>
#include <charconv>

#include "loadgen/options.h"

namespace dlb::loadgen {
namespace {

Result<void> finish_stages(const LoadedOptions& loaded, Options& options) {
  auto stages = parse_stages(options.stages);
  if (!stages) return loaded.at("stages", stages.error().text);
  options.stage_list = std::move(*stages);
  if (options.stage_list.empty()) {
    if (options.stages.empty()) return {};
    return loaded.at("stages",
                     "has no stage in it: leave it out, or write one, such as users=100 duration=10s");
  }
  if (!options.profile.empty()) return loaded.at("stages", "is the profile's: leave one of the two out");
  for (const StagePlan& stage : plan_of(options, 0).stages) {
    if (!stage.counted) continue;
    if (stage.requests == 0 && stage.duration == Duration::zero()) {
      return loaded.at("stages", stage.name + " has no end: give it a duration or requests");
    }
    if (stage.rate > 0 && options.interval_max > Duration::zero()) {
      return loaded.at("stages", stage.name + " has a rate, and users pause in the closed model only");
    }
  }
  return {};
}

Result<void> finish_mix(const LoadedOptions& loaded, const Options& options) {
  for (const StagePlan& stage : plan_of(options, 0).stages) {
    if (stage.feed_percent + options.duplicate_percent > 100) {
      return loaded.at("duplicate-percent", "is over 100 together with the feeds of " + stage.name);
    }
    if (stage.rate > 0 && stage.ramp_up > Duration::zero()) {
      return loaded.at("ramp-up", "users begin one after the other in the closed model only, and " +
                                      stage.name + " has a rate");
    }
  }
  if (options.slow_reader_percent > 0 && options.slow_reader_rate == 0) {
    return loaded.at("slow-reader-rate", "is needed");
  }
  return {};
}

Result<void> finish_held(const LoadedOptions& loaded, Options& options) {
  if (options.held_new_connections == 0) {
    // Not by what was given: the whole table, printed and fed back, gives everything.
    const std::string_view alone = !options.held_new_stage.empty()                  ? "held-new-stage"
                                   : options.held_new_age != Options().held_new_age ? "held-new-age"
                                                                                    : "";
    if (alone.empty()) return {};
    return loaded.at(alone, "is of held-new-connections, and there are none");
  }
  std::vector<std::string> names;
  for (const StagePlan& stage : plan_of(options, 0).stages) {
    if (stage.counted) names.push_back(stage.name);
  }
  const std::string& wanted = options.held_new_stage;
  options.held_stage = names.back();
  if (wanted.empty() || std::ranges::find(names, wanted) != names.end()) {
    if (!wanted.empty()) options.held_stage = wanted;
    return {};
  }
  std::size_t number = 0;
  const auto [end, problem] = std::from_chars(wanted.data(), wanted.data() + wanted.size(), number);
  if (problem != std::errc{} || end != wanted.data() + wanted.size() || number < 1 || number > names.size()) {
    return loaded.at("held-new-stage", "no stage has that number or name; there are " +
                                           std::to_string(names.size()) + ", from " + names.front() + " to " +
                                           names.back());
  }
  options.held_stage = names[number - 1];
  return {};
}

}  // namespace

Result<void> finish_traffic(const LoadedOptions& loaded, Options& options) {
  if (auto finished = finish_stages(loaded, options); !finished) return finished;
  if (auto finished = finish_mix(loaded, options); !finished) return finished;
  auto sources = SourceAddresses::parse(options.source_addresses);
  if (!sources) return loaded.at("source-addresses", sources.error().text);
  options.sources = std::move(*sources);
  return finish_held(loaded, options);
}

}  // namespace dlb::loadgen
