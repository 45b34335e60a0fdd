// libFuzzer harness; build and run with `make fuzz`. What is checked stands in http_checks.h.
#include "test/fuzz/http_checks.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  dlb::fuzz::check_response_head({reinterpret_cast<const char*>(data), size});
  return 0;
}
