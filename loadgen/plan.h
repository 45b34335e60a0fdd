// Plan: the stages of a run, in order: how many users, how many operations, for how long, and what ends it.
// A plain run is one stage, with a warm-up before and a cool-down behind it if asked for; a profile is one or
// two ladders of stages. Pure: a function of options and seed.
//
//   static ladder       every stage runs
//   breakpoint ladder   ends after a stage in which more than stop_error_percent of the operations failed
//
// Each stage has a seed of its own, so that no two send the same messages, but for duplicate-breakpoint,
// whose stages all send those of the first.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/clock.h"
#include "loadgen/payload.h"

namespace dlb::loadgen {

struct Options;

struct StagePlan {
  std::string name = "measured";  // "warm-up", "static-250", …
  std::string ladder;             // "static", "breakpoint", or none
  std::int64_t users = 1;
  std::int64_t requests = 0;        // of all users together; 0: until the duration is over
  Duration duration{};              // 0: until all requests are done
  Duration issue_window{};          // what is not issued within it never is: not_issued; 0: no window
  Duration cool_down{};             // the load goes on behind it, uncounted
  Duration ramp_up{};               // closed model: users begin within it
  double rate = 0;                  // of the open model; 0: closed
  double feed_percent = 0;          // of the operations
  std::uint64_t seed = 0;           // its payload's
  std::uint64_t names = 0;          // client names go round after so many; 0: one a user
  double stop_error_percent = 100;  // over it the stages of this ladder behind this one don't run
  bool counted = true;              // false: warm-up
};

struct RunPlan {
  std::vector<StagePlan> stages;  // at least one that is counted
  Alphabet alphabet = Alphabet::Printable;
  bool leaderboard = false;  // the run has a verdict: promotable or not
  bool altered = false;      // a profile with options that change it: its figures compare with no other's

  std::int64_t users_max() const;
};

// The profile whose load are users of the chat: it has one plain stage.
inline constexpr std::string_view kChatProfile = "chat";

bool is_profile(std::string_view name);
std::vector<std::string> profile_names();

// Requires options that finish_options() has made, and the seed in force.
RunPlan plan_of(const Options& options, std::uint64_t seed);

}  // namespace dlb::loadgen
