// `loadgen verify`: from its command line to its exit code.
#pragma once

namespace dlb::loadgen {

// `argv[0]` is the word `verify`. Signals must have been blocked.
int verify_main(int argc, const char* const* argv);

}  // namespace dlb::loadgen
