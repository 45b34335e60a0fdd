#include "loadgen/stream_cursor.h"

#include <algorithm>
#include <iterator>

namespace dlb::loadgen {

// The gap that it lies in, or the end.
std::vector<SequenceGap>::const_iterator StreamCursor::gap_of(std::int64_t sequence) const {
  const auto gap = std::lower_bound(gaps_.begin(), gaps_.end(), sequence,
                                    [](const SequenceGap& g, std::int64_t s) { return g.last < s; });
  return gap != gaps_.end() && gap->first <= sequence ? gap : gaps_.end();
}

bool StreamCursor::has(std::int64_t sequence) const {
  return sequence <= last_ && gap_of(sequence) == gaps_.end();
}

StreamCursor::Take StreamCursor::take(std::int64_t sequence) {
  if (sequence > last_) {
    if (sequence > last_ + 1) {
      if (gaps_.size() == kMaxGaps) {
        // Half of them at once, so that many gaps cost little each.
        gaps_.erase(gaps_.begin(), gaps_.begin() + kMaxGaps / 2);
        forgot_ = true;
      }
      gaps_.push_back({last_ + 1, sequence - 1});
    }
    last_ = sequence;
    ++taken_;
    return Take::Next;
  }
  const auto found = gap_of(sequence);
  if (found == gaps_.end()) return Take::Again;
  const auto gap = gaps_.begin() + (found - gaps_.cbegin());
  ++taken_;
  if (gap->first == sequence && gap->last == sequence) {
    gaps_.erase(gap);
  } else if (gap->first == sequence) {
    ++gap->first;
  } else if (gap->last == sequence) {
    --gap->last;
  } else {
    const SequenceGap upper{sequence + 1, gap->last};
    gap->last = sequence - 1;
    gaps_.insert(std::next(gap), upper);
  }
  return Take::Late;
}

}  // namespace dlb::loadgen
