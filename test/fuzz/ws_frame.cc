// libFuzzer harness; build and run with `make fuzz`. What is checked stands in ws_checks.h.
#include "test/fuzz/ws_checks.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  dlb::fuzz::check_ws_frames({reinterpret_cast<const char*>(data), size});
  return 0;
}
