#include "lb/control.h"

#include <utility>

namespace dlb::lb {

Control::Control(std::shared_ptr<const Configuration> configuration, SystemSample& system,
                 MemoryState& memory, BackendEvents& events, Log& log)
    : configuration_(std::move(configuration)),
      timers_(loop_),
      health_(loop_, timers_, *configuration_->options, configuration_->backends, events, log),
      outliers_(loop_, timers_, *configuration_->options, configuration_->backends, events, log,
                static_cast<std::uint64_t>(wall_now_us())),
      stats_(loop_, timers_, *configuration_->options, configuration_->backends, events, log),
      tunnel_health_(loop_, timers_, *configuration_->options, configuration_->pools, log),
      system_(timers_, system, CgroupPaths{.cgroup_root = configuration_->options->cgroup_root}),
      memory_(timers_, *configuration_->options, memory, events, log) {
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

void Control::apply(std::shared_ptr<const Configuration> next) {
  // The parts move on from the old one before it is let go of.
  const auto old = std::exchange(configuration_, std::move(next));
  const Options& options = *configuration_->options;
  health_.apply(options, configuration_->backends);
  outliers_.apply(options, configuration_->backends);
  stats_.apply(options, configuration_->backends);
  tunnel_health_.apply(options, configuration_->pools);
  memory_.apply(options);
}

}  // namespace dlb::lb
