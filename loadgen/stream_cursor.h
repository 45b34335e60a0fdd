// StreamCursor: how far one subscriber has come in the chat's rows, without remembering them: the sequence
// that it began behind, the latest one, and the numbers in between that it has jumped over. Numbers that
// nobody ever got (a sequence may have holes) are jumped over too: what was missed is known when the rows
// are. At most kMaxGaps gaps are kept, the latest; how many numbers were taken is counted always. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace dlb::loadgen {

// Numbers that were jumped over, both inclusive.
struct SequenceGap {
  std::int64_t first = 0;
  std::int64_t last = 0;
};

class StreamCursor {
 public:
  static constexpr std::size_t kMaxGaps = 1024;

  // `base`: the stream is to bring everything above it.
  explicit StreamCursor(std::int64_t base) : base_(base), last_(base) {}

  enum class Take : std::uint8_t {
    Next,   // above all before
    Late,   // one that had been jumped over: out of order
    Again,  // had it before, or it is not above the base
  };
  Take take(std::int64_t sequence);
  // Whether take() of it would be Again.
  bool has(std::int64_t sequence) const;

  std::int64_t base() const { return base_; }
  std::int64_t last() const { return last_; }
  std::uint64_t taken() const { return taken_; }               // different numbers
  std::span<const SequenceGap> gaps() const { return gaps_; }  // ascending
  bool forgot_gaps() const { return forgot_; }

 private:
  std::vector<SequenceGap>::const_iterator gap_of(std::int64_t sequence) const;

  std::int64_t base_;
  std::int64_t last_;
  std::uint64_t taken_ = 0;
  bool forgot_ = false;
  std::vector<SequenceGap> gaps_;
};

}  // namespace dlb::loadgen
