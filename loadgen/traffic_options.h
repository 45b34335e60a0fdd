// The rules of the options that say how the load looks on the wire: stages, mixes, slow readers, held
// connections, source addresses. A part of finish_options(). Pure.
#pragma once

#include "common/option.h"
#include "common/result.h"

namespace dlb::loadgen {

struct Options;

// Requires options whose other rules hold. Makes stage_list, sources and held_stage.
Result<void> finish_traffic(const LoadedOptions& loaded, Options& options);

}  // namespace dlb::loadgen
