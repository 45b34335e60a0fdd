// The rules across the options of the admin listener: where it listens, and whether that needs a token, which
// is read here. Blocks on a name lookup and a file: start-up or control thread.
#pragma once

#include <string>

#include "common/option.h"
#include "common/result.h"
#include "lb/options.h"

namespace dlb::lb {

// Part of finish_options(). The error is one line that says where and what.
Result<void> finish_admin_options(const LoadedOptions& loaded, Options& options);

// The first line of the file: printable ASCII without spaces, since it goes into header fields.
Result<std::string> read_admin_token(const std::string& path);

}  // namespace dlb::lb
