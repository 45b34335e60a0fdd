#include "common/pipe_pool.h"

#include <fcntl.h>
#include <unistd.h>

#include <tuple>
#include <utility>

#include "common/check.h"

namespace dlb {

PipePool::PipePool(std::size_t pipe_bytes, std::size_t max_pipes, std::size_t max_cached)
    : pipe_bytes_(pipe_bytes), max_pipes_(max_pipes), max_cached_(max_cached) {}

Pipe PipePool::acquire() {
  Pipe pipe;
  if (in_use_ >= max_pipes_) return pipe;
  if (!cached_.empty()) {
    pipe = std::move(cached_.back());
    cached_.pop_back();
  } else {
    int ends[2];
    if (::pipe2(ends, O_NONBLOCK | O_CLOEXEC) != 0) return pipe;
    pipe.read_end_ = Fd(ends[0]);
    pipe.write_end_ = Fd(ends[1]);
    // Refused when the user's share of pipe pages is used up: a smaller pipe does as well.
    std::ignore = ::fcntl(ends[1], F_SETPIPE_SZ, static_cast<int>(pipe_bytes_));
  }
  ++in_use_;
  return pipe;
}

void PipePool::give_back(Pipe pipe) {
  if (!pipe.valid()) return;
  DLB_CHECK(in_use_ > 0);
  --in_use_;
  if (pipe.bytes_ == 0 && cached_.size() < max_cached_) cached_.push_back(std::move(pipe));
}

}  // namespace dlb
