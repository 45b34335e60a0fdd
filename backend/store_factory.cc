#include "backend/store_factory.h"

#include "backend/key_ring.h"
#include "backend/sqlite_store.h"

namespace dlb::backend {

Result<std::unique_ptr<MessageStore>> make_store(EventLoop& loop, Log& log, const StoreConfig& config) {
  if (config.create_key_file) {
    if (auto made = create_key_file(config.key_file); !made) {
      return Error{"cannot make message-encryption-key-file: " + made.error().text, made.error().code};
    }
  }
  auto ring = load_key_file(config.key_file);
  if (!ring) return ring.error();
  if (config.database_url.empty()) {
    return std::unique_ptr<MessageStore>(std::make_unique<SqliteStore>(loop, log, config, *ring));
  }
  return Error{"database-url: not built in yet"};
}

}  // namespace dlb::backend
