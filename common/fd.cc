#include "common/fd.h"

#include <unistd.h>

namespace dlb {

void Fd::reset() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));  // never retried: Linux frees the number even on EINTR
}

}  // namespace dlb
