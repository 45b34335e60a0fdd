// Ledger: what the run has posted and what the server said to it: 56 bytes a message, never the text. The
// verifier looks feed rows up in it; an oracle that watches is told of each message, too. Grows in chunks, so
// that a long run never copies it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/clock.h"
#include "loadgen/delivery_oracle.h"
#include "loadgen/message_id.h"

namespace dlb::loadgen {

enum class Promise : std::uint8_t {
  Accepted,   // 200 or 201: must be in the feed once, with this content
  Ambiguous,  // failed after it may have been sent: may be in the feed, at most once, with this content
  Conflict,   // 409: somebody's row with this id and other content is there
  Repeated,   // posted before, and one with the entry of that: made by prepare_lookup()
};

// What an answer told of the row; all 0 when it did not.
struct Acknowledged {
  std::int64_t sequence = 0;
  std::uint64_t stamp = 0;  // hash_bytes() of the timestamp's text
  TimePoint at{};           // when the answer was there
};

class Ledger {
 public:
  struct Entry {
    MessageId id;
    std::uint64_t content = 0;  // content_hash()
    Promise promise = Promise::Ambiguous;
    std::uint8_t seen = 0;      // rows of the feed under check, saturating; the verifier's
    bool contradicted = false;  // two answers told different things
    std::int64_t sequence = 0;  // as an answer told; 0: none did
    std::uint64_t stamp = 0;
  };

  // From now on, for the ledger's life; null: nobody.
  void watch(DeliveryOracle* oracle) { oracle_ = oracle; }
  // Nobody will look a message up: without an oracle none is kept.
  void keep_nothing() { keeps_ = false; }
  // A message is about to be sent, as `intended`.
  void sent(const MessageId& id, std::uint64_t content, TimePoint intended) {
    if (oracle_ != nullptr) oracle_->sent(id, content, intended);
  }
  // What became of it.
  void add(const MessageId& id, std::uint64_t content, Promise promise, const Acknowledged& told = {});

  // Makes find() work for all entries so far and sets `seen` to 0. Entries of one message become one, with
  // the strongest promise of them. Requires fewer than 2^32 entries.
  void prepare_lookup();
  Entry* find(const MessageId& id);

  std::size_t size() const { return size_; }  // posts, repeated ones too
  std::uint64_t accepted() const { return accepted_; }
  std::uint64_t ambiguous() const { return ambiguous_; }
  Entry& at(std::size_t i) { return chunks_[i / kChunk][i % kChunk]; }

 private:
  void join(Entry& first, Entry& again);

  static constexpr std::size_t kChunk = 4096;

  std::vector<std::unique_ptr<Entry[]>> chunks_;
  std::size_t size_ = 0;
  std::uint64_t accepted_ = 0;
  std::uint64_t ambiguous_ = 0;
  bool keeps_ = true;
  DeliveryOracle* oracle_ = nullptr;
  std::vector<std::uint32_t> places_;  // open addressing, entry + 1, 0 is free; a power of two
};

}  // namespace dlb::loadgen
