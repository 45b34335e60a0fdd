// WsQueue: what one session still has to write, as shared frames in order, with the bytes they hold it to.
// Two kinds are counted apart: what goes to everyone (live), and what the peer itself has asked for
// (answers). An entry's cost is its frame and a fixed sum, so that many small frames are bounded too. Pure;
// an empty queue holds next to nothing.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>

#include "common/ws_frame.h"

namespace dlb {

class WsQueue {
 public:
  enum class Kind : std::uint8_t { Live, Answer };

  static constexpr std::size_t kEntryCost = 32;
  static std::size_t cost(const WsFrame& frame) { return frame.size() + kEntryCost; }

  void push(WsFramePtr frame, Kind kind);
  // The front of what is unsent, at most `parts.size()` of it; how many were set.
  int gather(std::span<iovec> parts) const;
  // `bytes` of the front are written: frames that are through are let go.
  void advance(std::size_t bytes);
  // Forgets all but what has begun: the frame that is partly written, and whatever holds the first
  // `presented` unsent bytes.
  void drop_behind(std::size_t presented);
  void clear() { *this = WsQueue(); }

  bool empty() const { return entries_ == nullptr; }
  std::size_t live_cost() const { return cost_[0]; }
  std::size_t answer_cost() const { return cost_[1]; }
  std::size_t cost() const { return cost_[0] + cost_[1]; }
  std::size_t frames() const { return empty() ? 0 : entries_->size(); }

 private:
  struct Entry {
    WsFramePtr frame;
    Kind kind;
  };
  void pop();
  void free_if_empty();

  // Null when it is empty. It grows in small blocks: the queues of all sessions grow in step, and a vector's
  // doubling would come in all of them within one turn.
  std::unique_ptr<std::deque<Entry>> entries_;
  std::size_t offset_ = 0;  // bytes of the front frame that are written
  std::size_t cost_[2] = {0, 0};
};

}  // namespace dlb
