// Verdict (G5): whether a leaderboard run may be handed in. It is `promotable` only if every stage ran and
// none hit its window, all operations succeeded, the feed is verified, there are samples of all systems with
// few missed, the balancer's latest is from behind the load, and its guard, memory and connection rejections
// stayed 0 over the run. Else each reason is told. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "loadgen/system_record.h"

namespace dlb {
class JsonWriter;
}

namespace dlb::loadgen {

struct StageFacts {
  std::string name;
  bool ran = false;
  bool hit_window = false;
  std::uint64_t planned = 0;
  std::uint64_t ok = 0;
  std::uint64_t failed = 0;  // the rest of the plan was not issued, or interrupted
};

struct RunFacts {
  std::vector<StageFacts> stages;
  bool interrupted = false;
  bool altered = false;  // options change the profile
  bool valid = true;     // the generator was not the bottleneck
  bool feed_read = false;
  bool feed_passed = false;
  std::uint64_t mismatched_answers = 0;
  const std::vector<SystemRecord>* systems = nullptr;  // the balancer first
  double ended_seconds = 0;                            // the last stage, by the clock of the samples
};

struct RunVerdict {
  std::vector<std::string> reasons;  // why not, one sentence each

  bool promotable() const { return reasons.empty(); }
};

RunVerdict judge_run(const RunFacts& facts);

// `PROMOTABLE`, or `NOT PROMOTABLE: …` a line each.
std::string verdict_text(const RunVerdict& verdict);
// `{"promotable": …, "reasons": […]}`
void verdict_json(JsonWriter& json, const RunVerdict& verdict);

}  // namespace dlb::loadgen
