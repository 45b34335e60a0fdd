#include "lb/backend_set.h"

#include "lb/options.h"

namespace dlb::lb {

void LastError::set(std::string_view text, std::int64_t wall_us) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return;  // another thread is telling, or a page reads: never wait for it
  entry_.text.assign(text.substr(0, 200));
  entry_.wall_us = wall_us;
  ++entry_.count;
}

LastError::Entry LastError::get() const {
  const std::lock_guard lock(mutex_);
  return entry_;
}

std::string_view Backend::authority() const {
  std::string_view text = url;
  if (text.starts_with("unix:")) return {};
  if (text.starts_with("http://")) text.remove_prefix(7);
  if (text.ends_with('/')) text.remove_suffix(1);
  return text;
}

std::string_view backend_state(const Backend& backend, TimePoint now) {
  if (backend.gone()) return "gone";
  if (backend.admin.load(std::memory_order_relaxed) == AdminState::Maintenance) return "maintenance";
  if (backend.admin.load(std::memory_order_relaxed) == AdminState::Drain) return "draining";
  if (!backend.healthy.load(std::memory_order_relaxed)) {
    return backend.checked_at_ns.load(std::memory_order_relaxed) == 0 ? "starting" : "down";
  }
  if (backend.reported_draining.load(std::memory_order_relaxed)) return "draining";
  const std::int64_t ejected_until = backend.ejected_until_ns.load(std::memory_order_relaxed);
  if (ejected_until > now.time_since_epoch().count()) return "ejected";
  if (backend.memory_blocked.load(std::memory_order_relaxed)) return "memory";
  if (backend.stalled(now)) return "stalled";
  return ejected_until != 0 ? "probation" : "ready";
}

bool in_panic(const BackendSet& backends, const Options& options) {
  constexpr auto relaxed = std::memory_order_relaxed;
  if (!options.panic_fallback) return false;
  bool accepting = false;
  for (const auto& backend : backends) {
    if (backend->taken_out()) continue;
    if (backend->weight.load(relaxed) == 0) continue;
    if (backend->healthy.load(relaxed)) return false;
    accepting = accepting || backend->accepting.load(relaxed);
  }
  return accepting;
}

std::unique_ptr<BackendSet> make_backend_set(const Options& options) {
  std::vector<std::shared_ptr<Backend>> backends;
  BackendSet::Members members;
  backends.reserve(options.backends.size());
  for (const BackendOption& option : options.backends) {
    members.push_back(static_cast<std::uint32_t>(backends.size()));
    backends.push_back(std::make_shared<Backend>(members.back(), option.id, option.url, option.address,
                                                 static_cast<std::uint32_t>(option.weight)));
  }
  return std::make_unique<BackendSet>(std::move(backends), std::move(members));
}

}  // namespace dlb::lb
