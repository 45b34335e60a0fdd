// The page of a set of simulations: one self-contained HTML file with tables and charts, no outside asset.
// Pure.
#pragma once

#include <string>
#include <string_view>

namespace dlb::bench {

// `outcomes`: the array that outcome_json() writes. `beside`: another such array, of measurements, or empty;
// its rows stand below those of the same scenario.
std::string outcome_page(std::string_view outcomes, std::string_view beside);

}  // namespace dlb::bench
