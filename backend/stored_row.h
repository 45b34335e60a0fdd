// A row as a database hands it over, and what a batch of writes met there. Views are valid only during the
// call that brings them.
#pragma once

#include <cstdint>
#include <string_view>

#include "backend/message.h"

namespace dlb::backend {

struct StoredRow {
  std::int64_t sequence = 0;
  std::int64_t timestamp_us = 0;
  std::string_view message_id;
  std::string_view client_name;
  std::string_view key_id;
  std::string_view nonce;
  std::string_view ciphertext;
  MessageSource source = MessageSource::Http;
  std::string_view signature;
};

// One row of a batch: inserted now, met by a row that has its id, or neither (that row has vanished since:
// try again).
struct RowReply {
  enum class Kind : std::uint8_t { Created, Existing, Missing };
  Kind kind = Kind::Missing;
  std::int64_t sequence = 0;      // Created
  std::int64_t timestamp_us = 0;  // Created
  StoredRow existing;             // Existing
};

// Why a whole batch was not confirmed.
enum class BatchFailure : std::uint8_t {
  Retry,   // rolled back for a passing reason (deadlock, serialisation, lock or statement time-out): send it
           // again
  Lost,    // the connection was lost: it may or may not have been committed
  Unsent,  // the connection was lost before any of it can have been committed
  Poison,  // rolled back because of what is in one of its rows
  Down,    // rolled back, and sending it again would not help now (disk full, no permission)
};

}  // namespace dlb::backend
