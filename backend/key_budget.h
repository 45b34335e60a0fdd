// KeyBudget: how many more messages the encrypting key may seal here. Random 96-bit nonces allow 2^32
// messages a key for the whole cluster; each process reserves blocks from a counter in the database, so the
// counter is never behind. Pure.
#pragma once

#include <cstdint>

namespace dlb::backend {

class KeyBudget {
 public:
  static constexpr std::int64_t kBlock = 16384;
  static constexpr std::int64_t kLimit = std::int64_t{1} << 32;  // the database grants nothing beyond
  static constexpr std::int64_t kWarnAt = std::int64_t{1} << 31;

  std::int64_t left() const { return left_; }
  std::int64_t reserved_in_all() const { return reserved_; }
  bool exhausted() const { return exhausted_ && left_ == 0; }
  // A new block should be asked for now. Call asked() when that has been done.
  bool wants_block() const { return !asked_ && !exhausted_ && left_ < kBlock / 2; }

  void asked() { asked_ = true; }
  void ask_failed() { asked_ = false; }
  // The database's answer: the counter after this block of kBlock.
  void granted(std::int64_t reserved) {
    asked_ = false;
    reserved_ = reserved;
    left_ += kBlock;
  }
  // The counter has reached kLimit: what is left of the last block may still be used.
  void refused() {
    asked_ = false;
    exhausted_ = true;
  }
  void spend(std::int64_t messages) { left_ -= messages; }

 private:
  std::int64_t left_ = 0;
  std::int64_t reserved_ = 0;
  bool asked_ = false;
  bool exhausted_ = false;
};

}  // namespace dlb::backend
