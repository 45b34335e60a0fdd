// TunnelRelay: one direction of a tunnel: bytes from a source to a sink as they come, whatever they mean.
//
//   Open ──source's FIN──▶ Ending ──last byte written──▶ Finished (FIN passed on)
//     │ source reset            │ sink reset
//     └──▶ Ending, broken ──────┴──────────────────────▶ Finished, broken: no FIN, the tunnel ends
//
// Back-pressure is by not reading: one block bounds what a direction holds, and an idle one holds none. Bytes
// that were read before the tunnel began (behind a head) and what goes before them (a head, a PROXY header)
// go first. It knows nothing of timers, gauges and the other direction: that is the tunnel's. How bytes move
// is in move_block() alone, which is where a splice would stand beside it. One thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "common/buffer.h"
#include "common/transport.h"

namespace dlb::lb {

class TunnelRelay {
 public:
  // Reads and writes of one direction before others get their turn.
  static constexpr int kStepsPerTurn = 16;

  enum class State : std::uint8_t { Open, Ending, Finished };

  struct Pumped {
    std::size_t read = 0;
    std::size_t written = 0;
    bool progress = false;  // bytes moved, or an end was passed on
    bool more = false;      // stopped by the turn's budget: call again without waiting for an edge
  };

  // Goes out in front of all that is read. Twice at most, before the first pump().
  void prepend(Buffer first);

  // Moves what can be moved now. Blocks come from `blocks`; without one the direction breaks.
  Pumped pump(Transport& source, Transport& sink, BufferPool& blocks);

  // The sink is gone: nothing can be delivered any more.
  void abandon();
  // The source is known to be reset: what can still be read of it goes out, then the direction is broken.
  void note_source_reset() { broken_ = true; }

  State state() const { return state_; }
  bool finished() const { return state_ == State::Finished; }
  // Ended by a reset of either side (or for want of memory), not by a FIN.
  bool broken() const { return broken_; }
  // The sink could not be written to. Implies finished() and broken().
  bool sink_gone() const { return sink_gone_; }
  bool anything_to_send() const;
  bool holds_block() const { return block_.valid(); }

 private:
  static constexpr std::size_t kFirsts = 2;

  bool move_block(Transport& source, Transport& sink, BufferPool& blocks, Pumped& out);
  bool write(Transport& sink, Pumped& out);
  bool read(Transport& source, BufferPool& blocks, Pumped& out);
  void end(Transport& sink, Pumped& out);

  std::array<Buffer, kFirsts> first_;
  Buffer block_;
  State state_ = State::Open;
  bool broken_ = false;
  bool sink_gone_ = false;
};

}  // namespace dlb::lb
