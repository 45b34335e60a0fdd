// StageList: what `-stages "users=100 duration=10s; users=200 rate=500"` says: a run of several stages, one
// after the other.
//
//   list    stage { ";" stage }
//   stage   { KEY "=" VALUE }     name, users, duration, requests, rate, feed-percent, issue-timeout, ramp-up
//
// What a stage doesn't name is as the options of the same names say. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/clock.h"
#include "common/result.h"

namespace dlb::loadgen {

struct StageSpec {
  std::string name;  // "stage-1" … when it isn't given
  std::optional<std::int64_t> users;
  std::optional<Duration> duration;
  std::optional<std::int64_t> requests;
  std::optional<double> rate;
  std::optional<double> feed_percent;
  std::optional<Duration> issue_timeout;
  std::optional<Duration> ramp_up;
};

// The stages in order, at least one of a text that isn't empty; none of an empty one. The error names the
// column, from 1.
Result<std::vector<StageSpec>> parse_stages(std::string_view text);

}  // namespace dlb::loadgen
