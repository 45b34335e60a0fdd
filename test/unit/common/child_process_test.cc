#include "common/child_process.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "test/support/catch.h"

namespace dlb {
namespace {

using namespace std::chrono_literals;

TEST_CASE(
    "a child that does not end is waited for no longer than the limit, one that ends no longer than that") {
  const pid_t child = ::fork();
  if (child == 0) {
    for (;;) ::pause();
  }
  REQUIRE(child > 0);
  const TimePoint begin = monotonic_now();
  CHECK_FALSE(wait_for_child(child, 20ms).has_value());
  CHECK(monotonic_now() - begin >= 20ms);
  CHECK_FALSE(wait_for_child(child, 0ms).has_value());
  ::kill(child, SIGKILL);
  const auto status = wait_for_child(child, 1h);
  REQUIRE(status.has_value());
  CHECK(WIFSIGNALED(*status));
  CHECK(WTERMSIG(*status) == SIGKILL);
  CHECK(wait_for_child(child, 1h) == 0);  // it has been reaped
}

}  // namespace
}  // namespace dlb
