// `loadgen compare`: from its command line to its exit code.
#pragma once

namespace dlb::loadgen {

// `argv[1]` is the word `compare`. 0: B is the same or better, 2: bad usage, or files that can't be read or
// compared, 3: B is worse in something.
int compare_main(int argc, const char* const* argv);

}  // namespace dlb::loadgen
