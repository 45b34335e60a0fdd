// What a row of simulations says: a table for people and JSON for programs. Pure.
#pragma once

#include <span>
#include <string>

#include "bench/simulate/outcome.h"

namespace dlb::bench {

// One line a scenario and policy: success, latencies in milliseconds, shares.
std::string outcome_table(std::span<const Outcome> outcomes);

// An array of objects, with everything that an Outcome has.
std::string outcome_json(std::span<const Outcome> outcomes);

}  // namespace dlb::bench
