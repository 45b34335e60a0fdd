// Scenario: what a simulation plays: servers and what befalls them, who asks, and the balancer's options by
// their own names. Read from a TOML file; bench/README.md has the table of its keys. Values only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/service_time.h"
#include "common/clock.h"
#include "common/result.h"
#include "lb/options.h"

namespace dlb::bench {

enum class EpisodeKind : std::uint8_t {
  Slow,       // service takes `factor` times as long
  Errors,     // a `share` of requests is answered 500 at once
  Reset,      // a `share` of requests is broken off at once
  Hang,       // accepts, answers nothing, checks neither
  Drop,       // connects get no answer
  Refuse,     // the process is away: what runs breaks, connects are refused; then start-up
  Unhealthy,  // its checks fail, nothing else
  Restart,    // says it drains for `notice`, ends when idle, is away for the rest of `for`; then start-up
};

struct Episode {
  EpisodeKind kind = EpisodeKind::Slow;
  Duration from{};
  Duration length{};
  double factor = 10;
  double share = 1;
  Duration notice = std::chrono::seconds(3);
};

struct ServerSpec {
  std::string id;
  std::int64_t capacity = 0;  // requests served at a time; 0: any
  std::int64_t queue = 1024;  // that wait for it at the server; over it 503
  ServiceTime service;
  std::int64_t weight = 1;
  Duration start_up{};  // from a process's start to its first passed check
  Duration warm_up{};   // behind it, service falls from warm_up_factor times to normal
  double warm_up_factor = 5;
  std::vector<Episode> episodes;
};

struct ArrivalSpec {     // open: they come whether or not anybody answers
  double rate = 0;       // a second, on average outside bursts
  double low_rate = -1;  // with `period`: it swings between the two, lowest first
  Duration period{};
  Duration from{}, until = kNoEnd;
  std::int64_t requests = 0;  // at most so many; 0: no limit
  bool even = false;          // evenly spaced, else Poisson
  Duration burst_every{}, burst_for{};
  double burst_factor = 1;
  static constexpr Duration kNoEnd = Duration::max();
};

struct UserSpec {  // closed: each waits for its answer, thinks, asks again
  std::int64_t count = 0;
  ServiceTime think;
  Duration from{}, until = ArrivalSpec::kNoEnd;
};

struct Scenario {
  std::string name;  // of the file, without its ending
  std::string about;
  Duration duration = std::chrono::seconds(60);
  Duration judged_from{};                             // requests that came earlier count in no figure
  Duration network = std::chrono::microseconds(200);  // to a server and back
  std::uint64_t seed = 1;
  std::vector<ServerSpec> servers;
  std::vector<ArrivalSpec> arrivals;
  std::vector<UserSpec> users;
  lb::Options options;                // the balancer's, backends included
  std::vector<std::string> policies;  // to be run with; empty: all
};

// The error is one line, `FILE:LINE:COLUMN: what is wrong`.
Result<Scenario> read_scenario(const std::string& path);
Result<Scenario> parse_scenario(std::string_view text, const std::string& file_name);

// Sets the balancer's policy; false when there is none of that name.
bool set_policy(lb::Options& options, std::string_view name);

}  // namespace dlb::bench
