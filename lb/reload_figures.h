// ReloadFigures: how reloads and upgrades went, for pages and metrics. Reloads write on the control thread,
// upgrades on the main one; read by any.
#pragma once

#include <atomic>
#include <cstdint>

#include "lb/backend_set.h"

namespace dlb::lb {

struct ReloadFigures {
  std::atomic<std::uint64_t> succeeded{0};
  std::atomic<std::uint64_t> failed{0};
  std::atomic<std::uint64_t> failed_upgrades{0};  // SIGUSR2 whose new process did not become ready
  // The last one is not through: backends are to be checked, or workers to take it over.
  std::atomic<bool> settling{false};
  LastError last_error;  // of the last one that was refused
};

}  // namespace dlb::lb
