// IoResult: what one data syscall did. Would-block and end of stream are answers, not errors.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dlb {

enum class IoStatus : std::uint8_t {
  Ok,          // `bytes` > 0 were moved
  WouldBlock,  // nothing to do until the next edge
  Eof,         // the peer has finished sending (reads only)
  Error,       // the connection is broken; `err` says how
};

struct IoResult {
  IoStatus status = IoStatus::WouldBlock;
  int err = 0;  // errno, with Error only
  std::size_t bytes = 0;

  bool ok() const { return status == IoStatus::Ok; }
};

}  // namespace dlb
