#include "backend/store_factory.h"

#include "backend/key_ring.h"
#include "backend/pg_target.h"
#include "backend/postgres_store.h"
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
  auto url = parse_pg_url(config.database_url);
  if (!url) return url.error();
  return std::unique_ptr<MessageStore>(std::make_unique<PostgresStore>(loop, log, config, *ring, *url));
}

}  // namespace dlb::backend
