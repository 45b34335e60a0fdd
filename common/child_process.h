// Waiting for a child process with a limit. One that is stuck in the kernel (a dead disk, a dead network file
// system) is not ended by SIGKILL until it comes back: whoever waits for it without a limit is stuck as well.
#pragma once

#include <sys/types.h>

#include <optional>

#include "common/clock.h"

namespace dlb {

// Waits for the end of `pid`, a child of ours, for `longest` at most, and reaps it: its status as of
// waitpid(), 0 when it is none of ours. Nothing: it still runs. Blocks: for a thread that has nothing better
// to do, or with a limit that it can afford.
std::optional<int> wait_for_child(pid_t pid, Duration longest);

}  // namespace dlb
