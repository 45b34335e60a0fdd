// What /lb/events tells each second: the state of /lb/status without the configuration, and of /lb/metrics
// the figures that change with the traffic, under their names there. From state to text; any thread.
#pragma once

#include <string>

#include "lb/status_pages.h"

namespace dlb::lb {

// One JSON object on one line.
std::string event_json(const StatusView& view);

}  // namespace dlb::lb
