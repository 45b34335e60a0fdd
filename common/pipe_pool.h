// Pipe: two descriptors through which splice(2) moves bytes from socket to socket without copying them; and
// PipePool, which keeps some for the next body. A pipe goes back to the pool only when it is empty: a byte
// left in it would reach another client. Bounded: at the cap, or without descriptors, acquire() answers an
// invalid Pipe and the caller copies. One thread.
#pragma once

#include <cstddef>
#include <vector>

#include "common/fd.h"

namespace dlb {

class Pipe {
 public:
  bool valid() const { return static_cast<bool>(read_end_); }
  int read_end() const { return read_end_.get(); }
  int write_end() const { return write_end_.get(); }
  // What has been put in and not taken out; kept by who moves the bytes.
  std::size_t bytes() const { return bytes_; }
  void filled(std::size_t bytes) { bytes_ += bytes; }
  void drained(std::size_t bytes) { bytes_ -= bytes; }

 private:
  friend class PipePool;
  Fd read_end_;
  Fd write_end_;
  std::size_t bytes_ = 0;
};

class PipePool {
 public:
  // Each pipe holds up to `pipe_bytes` (the kernel may give less); `max_pipes` are out at a time,
  // `max_cached` kept.
  PipePool(std::size_t pipe_bytes, std::size_t max_pipes, std::size_t max_cached);

  Pipe acquire();             // !valid() at the cap or without descriptors
  void give_back(Pipe pipe);  // an invalid one is welcome; one with bytes in it is closed
  void trim() { cached_.clear(); }

  std::size_t pipe_bytes() const { return pipe_bytes_; }
  std::size_t in_use() const { return in_use_; }
  std::size_t cached() const { return cached_.size(); }

 private:
  std::size_t pipe_bytes_;
  std::size_t max_pipes_;
  std::size_t max_cached_;
  std::size_t in_use_ = 0;
  std::vector<Pipe> cached_;
};

}  // namespace dlb
