#include "backend/id_maker.h"

#include <sys/random.h>
#include <sys/types.h>

#include <cerrno>

#include "backend/message_rules.h"
#include "common/check.h"

namespace dlb::backend {

std::string IdMaker::make() {
  if (next_ + 2 > words_.size()) {
    std::size_t filled = 0;
    while (filled < sizeof words_) {  // more than 256 bytes may come in parts when a signal arrives
      const ssize_t got =
          ::getrandom(reinterpret_cast<char*>(words_.data()) + filled, sizeof words_ - filled, 0);
      DLB_CHECK(got > 0 || errno == EINTR);  // no other error is possible with these arguments
      if (got > 0) filled += static_cast<std::size_t>(got);
    }
    next_ = 0;
  }
  const std::uint64_t high = words_[next_++];
  const std::uint64_t low = words_[next_++];
  return uuid_v4(high, low);
}

}  // namespace dlb::backend
