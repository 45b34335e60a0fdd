// FeedCache: the feed as bytes ready to send, in immutable shared chunks that only ever grow at the end. A
// response takes views into the chunks; what it has seen never changes, however slowly it is read. The newest
// chunks are kept within a bound; of older rows only their number and last sequence remain (the store reads
// them by key).
//
//   [ dropped rows ][ chunk | chunk | chunk | open chunk ··· free ]
//                    each element is `,{...}`: a body skips the very first comma
//
// The open chunk's free part is written while earlier bytes of it are being sent: same thread, disjoint
// bytes. Pure: no I/O, no clock. One thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/message.h"
#include "common/http_body.h"

namespace dlb::backend {

// Appends one feed element: {"message-id","client-name","msg","timestamp","sequence","source"}, with
// "signature" behind them when there is one; a row that can't be decrypted has "msg":null and
// "error":"undecryptable".
void append_feed_element(std::string& out, const StoredMessage& message);

class FeedChunk {
 public:
  // `expected_rows` only sizes the index.
  FeedChunk(std::size_t capacity, std::size_t expected_rows);

  bool fits(std::size_t bytes) const { return size_ + bytes + 1 <= capacity_; }
  void append(std::int64_t sequence, std::string_view element);  // requires fits()

  std::string_view bytes() const { return {data_.get(), size_}; }
  std::size_t rows() const { return marks_.size(); }
  std::int64_t first_sequence() const { return marks_.front().sequence; }
  std::int64_t last_sequence() const { return marks_.back().sequence; }
  std::size_t memory() const { return capacity_ + marks_.capacity() * sizeof(Mark); }

  // Index of the first row above `sequence`; rows() when none.
  std::size_t first_above(std::int64_t sequence) const;
  std::int64_t sequence_of(std::size_t row) const { return marks_[row].sequence; }
  // The bytes of rows [first, last), each with its leading comma.
  std::string_view slice(std::size_t first, std::size_t last) const;
  // One row without its comma.
  std::string_view element(std::size_t row) const { return slice(row, row + 1).substr(1); }

 private:
  struct Mark {
    std::int64_t sequence;
    std::size_t offset;
  };

  std::unique_ptr<char[]> data_;
  std::size_t capacity_;
  std::size_t size_ = 0;
  std::vector<Mark> marks_;
};

class FeedCache {
 public:
  // `held`: what all chunks made here take, until the last reader has let go of them.
  FeedCache(std::size_t chunk_bytes, std::size_t max_bytes, std::shared_ptr<std::size_t> held = nullptr)
      : chunk_bytes_(chunk_bytes), max_bytes_(max_bytes), held_(std::move(held)) {}

  // Sequences must rise. `nonce` identifies the row when the end of the feed is checked again.
  void append(std::int64_t sequence, std::string_view nonce, std::string_view element);
  // Forgets everything: the table was truncated or restored.
  void clear();

  using References = std::vector<std::weak_ptr<FeedChunk>>;
  References references() const { return {chunks_.begin(), chunks_.end()}; }
  // Begins with what readers still hold of an earlier part of the same rows, up to the first gap. Requires
  // empty(); no other cache may append to those chunks from now on.
  void adopt(const References& earlier);

  bool empty() const { return rows_ == 0; }
  std::int64_t last_sequence() const { return last_sequence_; }  // 0 when empty
  std::string_view last_nonce() const { return last_nonce_; }
  std::uint64_t rows() const { return rows_; }  // of the whole feed, dropped ones too
  std::uint64_t dropped_rows() const { return dropped_rows_; }
  std::int64_t dropped_through() const {
    return dropped_through_;
  }  // last sequence that is not held; 0: all are
  std::size_t memory() const { return memory_; }
  std::size_t chunks() const { return chunks_.size(); }

  // `{"messages":[...],"count":N}` with every row. `older` holds exactly the dropped rows (null when there
  // are none).
  HttpBody whole(const FeedCache* older = nullptr) const;

  // The size of that body, also without the dropped rows.
  std::uint64_t whole_size() const;
  std::uint64_t dropped_bytes() const { return dropped_bytes_; }

  // Calls f(sequence, element) for rows above `after` in order, until it answers false. Rows that were
  // dropped are missing.
  template <class F>
  void for_each_above(std::int64_t after, F&& f) const;
  // The same for rows below `before`, the newest first.
  template <class F>
  void for_each_below(std::int64_t before, F&& f) const;
  std::int64_t first_held() const { return chunks_.empty() ? 0 : chunks_.front()->first_sequence(); }

  struct Page {
    HttpBody body;  // ...,"count":n,"has_more":b,"next_after":s}
    std::uint64_t rows = 0;
    std::int64_t next_after = 0;
  };
  // Rows above `after`, at most `limit`. Nothing when the page begins among the dropped rows. `through` is
  // the last sequence of the feed when this cache holds only a part of it (0: this cache's own).
  std::optional<Page> page(std::int64_t after, std::int64_t limit, std::int64_t through = 0) const;

 private:
  // In the first chunk's index; later ones go by the chunk before.
  static constexpr std::size_t kFirstRows = 256;

  void append_parts(std::vector<BodyPart>& parts) const;
  std::shared_ptr<FeedChunk> new_chunk(std::size_t capacity, std::size_t expected_rows) const;

  std::size_t chunk_bytes_;
  std::size_t max_bytes_;
  std::shared_ptr<std::size_t> held_;
  std::deque<std::shared_ptr<FeedChunk>> chunks_;
  std::size_t memory_ = 0;
  std::size_t open_memory_ = 0;  // what memory_ counts for the open chunk; corrected when it closes
  std::uint64_t rows_ = 0;
  std::uint64_t dropped_rows_ = 0;
  std::uint64_t dropped_bytes_ = 0;
  std::int64_t dropped_through_ = 0;
  std::int64_t last_sequence_ = 0;
  std::string last_nonce_;
  mutable std::optional<HttpBody> whole_;  // kept until the next row: every reader between two rows shares it
};

template <class F>
void FeedCache::for_each_above(std::int64_t after, F&& f) const {
  auto chunk = std::upper_bound(
      chunks_.begin(), chunks_.end(), after,
      [](std::int64_t value, const std::shared_ptr<FeedChunk>& c) { return value < c->last_sequence(); });
  for (; chunk != chunks_.end(); ++chunk) {
    for (std::size_t row = (*chunk)->first_above(after); row < (*chunk)->rows(); ++row) {
      if (!f((*chunk)->sequence_of(row), (*chunk)->element(row))) return;
    }
  }
}

template <class F>
void FeedCache::for_each_below(std::int64_t before, F&& f) const {
  auto chunk = std::lower_bound(
      chunks_.begin(), chunks_.end(), before,
      [](const std::shared_ptr<FeedChunk>& c, std::int64_t value) { return c->first_sequence() < value; });
  while (chunk != chunks_.begin()) {
    --chunk;
    for (std::size_t row = (*chunk)->first_above(before - 1); row > 0; --row) {
      if (!f((*chunk)->sequence_of(row - 1), (*chunk)->element(row - 1))) return;
    }
  }
}

}  // namespace dlb::backend
