// The rules across the options of layer 4: resolves the addresses of [[tcp]] tables and of each backend's
// wss, hands out wss-backends. Blocks on name lookups: start-up or control thread.
#pragma once

#include "common/option.h"
#include "common/result.h"
#include "lb/options.h"

namespace dlb::lb {

// Part of finish_options(), after the backends are known. The error is one line that says where and what.
Result<void> finish_tunnel_options(const LoadedOptions& loaded, Options& options);

}  // namespace dlb::lb
