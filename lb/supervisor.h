// Supervisor: the small process whose children the instances of [autoscale] are. The balancer starts it (this
// same program, called `supervise`) before it has threads, and speaks to it over a SOCK_SEQPACKET pair
// (supervisor_protocol.h). An upgrade hands the balancer's end to the new process; the supervisor goes on.
//
//   balancer's end open ──▶ starts, stops, reaps, tells
//   last copy closed (drained, or killed) ──▶ SIGTERM to all ──grace──▶ SIGKILL
//   ──all ended, or 30 s──▶ exits
//
// Each instance is a process group, so that what a shell in between has started ends too. Who has left that
// (a daemon) is known by a mark (instance_mark.h); an instance whose first process has ended is ended whole:
// SIGTERM to its group, then to the others, SIGKILL after the grace, and only then it counts as ended. Who
// hides from that comes back to the supervisor as its child (subreaper) and is killed at the very end. Should
// the supervisor itself be killed, the kernel kills its children, and the balancer who is marked.
//
// It has every signal blocked: a terminal's ^C or a service manager's SIGTERM is the balancer's to act upon.
// Standard output and error of instances are the balancer's standard error.
#pragma once

#include "common/fd.h"
#include "common/result.h"

namespace dlb::lb {

// The program `lb supervise`: speaks on descriptor 3. Returns the exit code.
int supervisor_main();

// Starts it; the balancer's end, non-blocking and close-on-exec. Any thread: between fork and exec nothing
// allocates. `environment`: of instances; what concerns the balancer alone is left out.
struct StartedSupervisor {
  Fd socket;
  int pid = 0;
};
Result<StartedSupervisor> start_supervisor(const char* const* environment);

}  // namespace dlb::lb
