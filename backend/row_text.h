// RowText: from a row as the database holds it to the JSON that every reader gets, the same bytes on the
// feed, in pages and live. A row that doesn't decrypt is shown without its text, counted, and logged by its
// id. Loop thread; the result is valid until the next call.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "backend/cipher.h"
#include "backend/message_store.h"
#include "backend/stored_row.h"
#include "common/log.h"

namespace dlb::backend {

class RowText {
 public:
  RowText(Cipher& cipher, Log& log) : cipher_(cipher), log_(log) {}

  std::string_view render(const StoredRow& row);
  // A row of our own, just committed, whose text is at hand.
  std::string_view render(const NewMessage& written, std::int64_t sequence, std::int64_t timestamp_us);
  void add_stats(MessageStoreStats& stats) const;

 private:
  Cipher& cipher_;
  Log& log_;
  std::string element_;  // kept for its memory
  std::uint64_t decrypts_ = 0;
  std::uint64_t undecryptable_ = 0;
  double seconds_ = 0;
};

}  // namespace dlb::backend
