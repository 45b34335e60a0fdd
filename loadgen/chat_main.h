// `loadgen chat`: from its command line to its exit code.
#pragma once

namespace dlb::loadgen {

// `argv[0]` is the word `chat`. Signals must have been blocked.
int chat_main(int argc, const char* const* argv);

}  // namespace dlb::loadgen
