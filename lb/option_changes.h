// What a reload does with another set of options: what takes effect, and what needs a restart and is put back
// to what it was. Pure.
#pragma once

#include <string>
#include <vector>

#include "lb/options.h"

namespace dlb::lb {

struct OptionChanges {
  std::vector<std::string> live;     // names of options whose new value takes effect
  std::vector<std::string> restart;  // of those that differ and stay as they were
};

// Both after finish_options(), `workers` not 0. `after` gets the values of `before` where only a restart
// could change them: the rows that say so, layer-4 listeners that came or went, and what belongs to a
// listener that stays (certificate files, wss addresses).
OptionChanges settle_options(const Options& before, Options& after);

}  // namespace dlb::lb
