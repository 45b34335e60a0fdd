#include "common/standard_streams.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/support/catch.h"

namespace dlb {
namespace {

bool is_null(int fd) {
  struct stat here = {}, null = {};
  return ::fstat(fd, &here) == 0 && ::stat("/dev/null", &null) == 0 && here.st_rdev == null.st_rdev;
}

// In a process of its own: the exit code says which of 0 to 2 are /dev/null.
int null_after_closing(int closed) {
  const pid_t child = ::fork();
  if (child == 0) {
    int pipe_ends[2] = {-1, -1};
    if (::pipe(pipe_ends) != 0) ::_exit(100);
    for (int fd = 0; fd <= 2; ++fd) ::dup2(pipe_ends[1], fd);
    for (int fd = 0; fd <= 2; ++fd) {
      if ((closed & (1 << fd)) != 0) ::close(fd);
    }
    open_missing_standard_streams();
    int found = 0;
    for (int fd = 0; fd <= 2; ++fd) found |= is_null(fd) ? 1 << fd : 0;
    ::_exit(found);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_CASE("exactly the standard streams that are missing are opened") {
  for (int closed = 0; closed < 8; ++closed) {
    CAPTURE(closed);
    CHECK(null_after_closing(closed) == closed);
  }
}

}  // namespace
}  // namespace dlb
