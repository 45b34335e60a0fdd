// How /lb/events is used, of the whole process: the places that all its readers share, and what was done.
// Written by all loops that have readers, read by any thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "lb/backend_set.h"

namespace dlb::lb {

struct EventFigures {
  static constexpr std::uint32_t kMaxReaders = 32;

  SlotCounter readers;                    // under kMaxReaders
  std::atomic<std::uint64_t> refused{0};  // 503: kMaxReaders were there
  std::atomic<std::uint64_t> sent{0};     // snapshots, to one reader each
  std::atomic<std::uint64_t> skipped{0};  // not sent: the reader had not taken the one before
  std::atomic<std::uint64_t> cut{0};      // readers that took nothing for client-write-timeout
};

}  // namespace dlb::lb
