#include "loadgen/plan.h"

#include <algorithm>
#include <array>
#include <span>

#include "loadgen/hash.h"
#include "loadgen/options.h"

namespace dlb::loadgen {
namespace {

constexpr std::uint64_t kWarmUpSeed = 0x7761726d2d7570U;  // other operations than the measured ones

struct Ladder {
  std::string_view name;
  std::span<const std::int64_t> users;
  std::int64_t requests;  // a stage
  Duration issue_window;
  double stop_error_percent;
};

constexpr std::array<std::int64_t, 4> kStaticUsers = {250, 500, 750, 1000};
constexpr std::array<std::int64_t, 8> kBreakpointUsers = {200, 350, 500, 750, 1000, 1500, 2000, 2500};
constexpr std::array<std::int64_t, 4> kStressStaticUsers = {1000, 2000, 3000, 4000};
constexpr std::array<std::int64_t, 8> kStressBreakpointUsers = {1000, 1500, 2000, 3000,
                                                                4000, 6000, 8000, 10000};
constexpr Ladder kStatic{"static", kStaticUsers, 5000, std::chrono::seconds(20), 100};
constexpr Ladder kBreakpoint{"breakpoint", kBreakpointUsers, 5000, std::chrono::seconds(30), 20};
constexpr Ladder kStressStatic{"static", kStressStaticUsers, 20'000, std::chrono::seconds(60), 100};
constexpr Ladder kStressBreakpoint{"breakpoint", kStressBreakpointUsers, 20'000, std::chrono::seconds(60),
                                   20};

struct Profile {
  std::string_view name;
  std::array<const Ladder*, 2> ladders;  // null: none
  Alphabet alphabet = Alphabet::Printable;
  bool leaderboard = true;
  bool same_messages = false;  // at each stage
};

constexpr std::array kProfiles = {
    Profile{"leaderboard-paired-v2", {&kStatic, &kBreakpoint}},
    Profile{"leaderboard-static", {&kStatic, nullptr}},
    Profile{"leaderboard-breakpoint", {&kBreakpoint, nullptr}},
    Profile{"leaderboard-suite", {&kStatic, &kBreakpoint}, Alphabet::Alphanumeric},
    Profile{"duplicate-breakpoint", {&kBreakpoint, nullptr}, Alphabet::Printable, false, true},
    Profile{"stress-static", {&kStressStatic, nullptr}, Alphabet::Printable, false},
    Profile{"stress-breakpoint", {&kStressBreakpoint, nullptr}, Alphabet::Printable, false},
};

const Profile* find_profile(std::string_view name) {
  const auto found =
      std::find_if(kProfiles.begin(), kProfiles.end(), [&](const Profile& p) { return p.name == name; });
  return found == kProfiles.end() ? nullptr : found;
}

// Mixed before it is counted up: else stages of neighbouring seeds would send the same messages.
std::uint64_t stage_seed(std::uint64_t seed, std::size_t number) { return mix64(mix64(seed) + number); }

void add_ladder(RunPlan& plan, const Profile& profile, const Ladder& ladder, const Options& options,
                std::uint64_t seed) {
  for (const std::int64_t users : ladder.users) {
    StagePlan stage;
    stage.name = std::string(ladder.name) + "-" + std::to_string(users);
    stage.ladder = ladder.name;
    stage.users = users;
    stage.requests = options.requests > 0 ? options.requests : ladder.requests;
    stage.issue_window =
        options.stage_issue_timeout > Duration::zero() ? options.stage_issue_timeout : ladder.issue_window;
    stage.feed_percent = options.feed_percent;
    stage.seed = stage_seed(seed, profile.same_messages ? 0 : plan.stages.size());
    // The same messages must have the same names, however many users there are.
    stage.names = profile.same_messages ? static_cast<std::uint64_t>(ladder.users.front()) : 0;
    stage.stop_error_percent = ladder.stop_error_percent;
    plan.altered =
        plan.altered || stage.requests != ladder.requests || stage.issue_window != ladder.issue_window;
    plan.stages.push_back(std::move(stage));
  }
}

void add_plain_stages(RunPlan& plan, const Options& options, std::uint64_t seed) {
  StagePlan stage;
  stage.users = options.users;
  stage.rate = options.rate;
  stage.feed_percent = options.feed_percent;
  if (options.warmup > Duration::zero()) {
    StagePlan warm = stage;
    if (!options.stage_list.empty()) {  // as the first one, which it leads to
      const StageSpec& first = options.stage_list.front();
      warm.users = first.users.value_or(warm.users);
      warm.rate = first.rate.value_or(warm.rate);
      warm.feed_percent = first.feed_percent.value_or(warm.feed_percent);
    }
    warm.name = "warm-up";
    warm.duration = options.warmup;
    warm.seed = mix64(seed ^ kWarmUpSeed);
    warm.counted = false;
    plan.stages.push_back(std::move(warm));
  }
  stage.requests = options.requests;
  stage.duration = options.duration;
  stage.issue_window = options.stage_issue_timeout;
  stage.ramp_up = options.ramp_up;
  stage.seed = seed;
  if (options.stage_list.empty()) {
    stage.cool_down = options.cooldown;
    plan.stages.push_back(std::move(stage));
    return;
  }
  for (std::size_t i = 0; i < options.stage_list.size(); ++i) {
    const StageSpec& spec = options.stage_list[i];
    StagePlan one = stage;
    one.name = spec.name;
    one.users = spec.users.value_or(stage.users);
    one.requests = spec.requests.value_or(stage.requests);
    one.duration = spec.duration.value_or(stage.duration);
    one.issue_window = spec.issue_timeout.value_or(stage.issue_window);
    one.ramp_up = spec.ramp_up.value_or(stage.ramp_up);
    one.rate = spec.rate.value_or(stage.rate);
    one.feed_percent = spec.feed_percent.value_or(stage.feed_percent);
    one.seed = stage_seed(seed, i);
    plan.stages.push_back(std::move(one));
  }
  plan.stages.back().cool_down = options.cooldown;
}

}  // namespace

std::int64_t RunPlan::users_max() const {
  std::int64_t most = 0;
  for (const StagePlan& stage : stages) most = std::max(most, stage.users);
  return most;
}

bool is_profile(std::string_view name) { return name == kChatProfile || find_profile(name) != nullptr; }

std::vector<std::string> profile_names() {
  std::vector<std::string> names;
  for (const Profile& profile : kProfiles) names.emplace_back(profile.name);
  names.emplace_back(kChatProfile);
  return names;
}

RunPlan plan_of(const Options& options, std::uint64_t seed) {
  RunPlan plan;
  const Profile* profile = find_profile(options.profile);
  if (profile == nullptr) {
    add_plain_stages(plan, options, seed);
    return plan;
  }
  plan.alphabet = profile->alphabet;
  plan.leaderboard = profile->leaderboard;
  plan.altered = options.payload_altered;
  for (const Ladder* ladder : profile->ladders) {
    if (ladder != nullptr) add_ladder(plan, *profile, *ladder, options, seed);
  }
  return plan;
}

}  // namespace dlb::loadgen
