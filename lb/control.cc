#include "lb/control.h"

namespace dlb::lb {

Control::Control(const Options& options, BackendSet& backends, const TunnelPools& pools, SystemSample& system,
                 MemoryState& memory, BackendEvents& events, Log& log)
    : timers_(loop_),
      health_(loop_, timers_, options, backends, events, log),
      outliers_(loop_, timers_, options, backends, events, log, static_cast<std::uint64_t>(wall_now_us())),
      stats_(loop_, timers_, options, backends, events, log),
      tunnel_health_(loop_, timers_, options, pools, log),
      system_(timers_, system, CgroupPaths{.cgroup_root = options.cgroup_root}),
      memory_(timers_, options, memory, events, log) {
  health_.tell_of_passes(outliers_);
}

Control::~Control() { stop(); }

void Control::start() {
  thread_ = std::thread([this] { loop_.run(); });
}

void Control::stop() {
  if (!thread_.joinable()) return;
  loop_.stop();
  thread_.join();
}

}  // namespace dlb::lb
