// OwnRows: rows that this process has just committed, ready for the feed, until the feed has them. A row that
// follows the feed's last one without a gap in the sequence needs no reading: commit order is sequence order,
// so nothing can be between them. The others are found by the next read, and not decrypted again.
//
// Bounded in bytes; at the cap all are forgotten, and read. Pure; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

namespace dlb::backend {

class OwnRows {
 public:
  struct Row {
    std::int64_t sequence = 0;
    std::string nonce;
    std::string element;
  };

  // In order of commit. Sequences that do not rise are of another table: what was held is forgotten.
  void add(std::int64_t sequence, std::string_view nonce, std::string_view element) {
    const std::size_t bytes = nonce.size() + element.size();
    if (bytes_ + bytes > kMaxBytes || (!rows_.empty() && rows_.back().sequence >= sequence)) clear();
    bytes_ += bytes;
    rows_.push_back({sequence, std::string(nonce), std::string(element)});
  }

  // The row of that sequence, or null; valid until the next call. Those before it are not held any longer.
  const Row* find(std::int64_t sequence) {
    while (!rows_.empty() && rows_.front().sequence < sequence) {
      bytes_ -= rows_.front().nonce.size() + rows_.front().element.size();
      rows_.pop_front();
    }
    return !rows_.empty() && rows_.front().sequence == sequence ? &rows_.front() : nullptr;
  }

  bool empty() const { return rows_.empty(); }
  std::size_t size() const { return rows_.size(); }
  void clear() {
    rows_.clear();
    bytes_ = 0;
  }

 private:
  static constexpr std::size_t kMaxBytes = std::size_t{4} << 20;

  std::deque<Row> rows_;
  std::size_t bytes_ = 0;
};

}  // namespace dlb::backend
