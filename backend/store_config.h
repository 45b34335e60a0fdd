// What a message store is told at start: where the database is, and every limit of writing, reading and
// caching. Filled from the option table by main; plain values, no logic.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "common/clock.h"

namespace dlb::backend {

struct StoreConfig {
  std::string backend_id;         // names this process in the database's session list
  std::string database_url;       // libpq URI or key=value list; empty: SQLite in data_dir
  std::string data_dir = "data";  // SQLite file, notification sockets, the key made on first start
  std::string key_file = "data/encryption.key";
  bool create_key_file = false;  // embedded mode only: make the key when the file is missing

  bool chat = false;           // connections for what only the chat needs
  bool cluster_events = true;  // tell the other backends of new rows; without it they find them by polling
  std::string event_channel = "chat_message_events";  // LISTEN/NOTIFY
  std::int64_t event_queue_rows = 4096;               // most new rows on their way to the chat at a time

  Duration db_health_timeout = std::chrono::seconds(1);
  std::size_t write_batch_rows = 128;
  std::size_t write_batch_bytes = std::size_t{1} << 20;
  Duration write_batch_delay = std::chrono::milliseconds(2);
  std::size_t write_pipeline_depth = 4;
  std::size_t write_queue_rows = 256;                     // what has not been sent
  std::size_t write_queue_bytes = std::size_t{16} << 20;  // likewise
  Duration write_queue_timeout = std::chrono::seconds(5);
  Duration statement_timeout = std::chrono::seconds(5);  // bounds a batch once it has been sent
  Duration lock_timeout = std::chrono::seconds(3);       // waiting for another writer's commit

  std::size_t feed_chunk_bytes = std::size_t{64} << 10;
  std::size_t feed_cache_bytes = std::size_t{128} << 20;
  std::size_t feed_reread_bytes = std::size_t{128}
                                  << 20;  // most of the feed below the cache that one answer may hold
};

}  // namespace dlb::backend
