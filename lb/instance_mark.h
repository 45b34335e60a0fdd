// The mark that an instance of [autoscale] carries in its environment, DLB_INSTANCE=PORT:PID with the id of
// its first process, and by which those of its processes are found that have left its group and lost their
// parent: servers that make themselves daemons, helpers with a session of their own. Children inherit it; one
// that clears its environment is not found, nor is one of another user. Looks at /proc: for the supervisor,
// and for the balancer when that was killed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dlb::lb {

std::string instance_mark(std::uint16_t port, int pid);

// The processes that carry it, in no order; zombies do not.
std::vector<int> marked_processes(const std::string& mark);

}  // namespace dlb::lb
