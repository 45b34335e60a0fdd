// FrameReader: what a server's message says, parsed once for all subscribers: every one of them gets the same
// bytes, so the latest kSlots rows are found again by a hash of the bytes. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "loadgen/chat_protocol.h"
#include "loadgen/delivery_oracle.h"

namespace dlb::loadgen {

class FrameReader {
 public:
  // The row of a live message, which lives until the next call; null when `text` is something else, which
  // said() then tells.
  const ChatRow* row(std::string_view text);
  ServerSaid& said() { return said_; }

 private:
  static constexpr std::size_t kSlots = 256;
  struct Slot {
    std::uint64_t hash = 0;
    std::size_t size = 0;
    std::string id;
    ChatRow row;
  };

  ServerReader reader_;
  ServerSaid said_;
  std::unique_ptr<std::array<Slot, kSlots>> slots_ = std::make_unique<std::array<Slot, kSlots>>();
};

}  // namespace dlb::loadgen
