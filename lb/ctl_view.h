// What `lb ctl` reads out of a balancer's JSON, and how it shows it to people. Pure: texts in, values and
// texts out. What a backend or an operator has written is shown without control characters, so that it can't
// speak to the terminal.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"

namespace dlb::lb {

struct CtlBackend {
  std::string id, url, state;
  std::int64_t in_flight = 0, weight = 0;
  std::int64_t feeds = 0;                 // on their way behind their heads: no longer in flight
  std::int64_t requests = 0, failed = 0;  // failed: 5xx, and exchanges that it broke or let time out
  double score = 0, latency_ms = 0;
  double cpu = -1, memory = -1;  // percent; -1: it reports none
  std::string last_error, last_error_at;

  bool ready() const { return state == "ready"; }
};

struct CtlAutoscale {
  std::int64_t min = 0, max = 0, desired = 0, running = 0;
  std::int64_t serving = 0, starting = 0, draining = 0, stopping = 0, resting = 0;  // of those that run
  bool pressed = false;
  std::string last_action, last_instance, last_reason, last_at;  // empty: nothing was decided yet
  std::string problem;                                           // empty: the last start could be tried
};

struct CtlStatus {
  std::string status, version, policy;
  std::int64_t pid = 0, generation = 0;
  double uptime_seconds = 0;
  bool predecessor_drains = false;
  std::optional<CtlAutoscale> autoscale;  // nothing: it is off
  std::vector<CtlBackend> backends;
};

// Of /lb/status, and of an answer about one backend.
Result<CtlStatus> read_ctl_status(std::string_view json);
Result<CtlBackend> read_ctl_backend(std::string_view json);

struct CtlError {
  std::string code, detail;  // empty: the body is none of ours
};
CtlError read_ctl_error(std::string_view json);

struct CtlReload {
  std::int64_t generation = 0, added = 0, leaving = 0;
  std::vector<std::string> changed, needs_restart;
};
Result<CtlReload> read_ctl_reload(std::string_view json);

// A line about the balancer, one about autoscaling where it is on, a table of the backends, and the last
// errors of those that are not ready.
std::string show_status(const CtlStatus& status);
// One line.
std::string show_backend(const CtlBackend& backend);
std::string show_reload(const CtlReload& reload);

}  // namespace dlb::lb
