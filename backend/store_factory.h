// Makes the message store that the configuration asks for: PostgreSQL with a database URL, else SQLite in
// data_dir.
#pragma once

#include <memory>

#include "backend/message_store.h"
#include "backend/store_config.h"
#include "common/event_loop.h"
#include "common/result.h"

namespace dlb {
class Log;
}

namespace dlb::backend {

// Reads the key file (or makes it, see StoreConfig::create_key_file) and checks the database URL; connects
// nothing: that is MessageStore::start(), and a database that is away is no error. Fails with one sentence
// that says what to change: the caller exits 2. `loop` and `log` must outlive the store, which must be
// destroyed on the loop's thread.
Result<std::unique_ptr<MessageStore>> make_store(EventLoop& loop, Log& log, const StoreConfig& config);

}  // namespace dlb::backend
