// DLB_CHECK: aborts on a broken invariant of our own, with the expression and place. Never used on input from
// a peer, a file or the environment: those are answered, not asserted.
#pragma once

#include <string_view>

namespace dlb {

// Prints one line to standard error and aborts. `detail` may hold values that explain the failure.
[[noreturn]] void check_failed(const char* file, int line, const char* expression, std::string_view detail);

}  // namespace dlb

#define DLB_CHECK(expression)                                   \
  do {                                                          \
    if (!(expression)) [[unlikely]] {                           \
      ::dlb::check_failed(__FILE__, __LINE__, #expression, {}); \
    }                                                           \
  } while (false)

#define DLB_CHECK_MSG(expression, detail)                             \
  do {                                                                \
    if (!(expression)) [[unlikely]] {                                 \
      ::dlb::check_failed(__FILE__, __LINE__, #expression, (detail)); \
    }                                                                 \
  } while (false)
