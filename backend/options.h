// Options: every setting of the backend with its default. The row array in options.cc ties each member to its
// name, bounds, unit and help; file, environment (no prefix), command line, --help, -t, --print-config and
// the README table come from it. Plain values, made once at start; no behaviour besides the checks across
// fields in finish_options().
#pragma once

#include <cstdint>
#include <string>

#include "backend/store_config.h"
#include "common/clock.h"
#include "common/option.h"
#include "common/result.h"

namespace dlb::backend {

struct Options {
  // Identity and listening
  std::string backend_id;  // empty: the host's name, filled in by finish_options()
  std::int64_t http_port = 6000;
  std::int64_t ws_port = 5000;
  bool enable_websocket = true;
  bool enable_cluster_websocket = true;
  std::string public_wss_url;

  // Store
  std::string database_url;  // secret: may hold a password; empty: SQLite in data_dir
  std::string data_dir = "data";
  std::string message_encryption_key_file = "data/encryption.key";  // data_dir's when only that is given
  std::string tls_cert;
  std::string tls_key;
  Duration db_health_timeout = std::chrono::seconds(1);
  Duration health_check_timeout = std::chrono::milliseconds(1500);
  std::int64_t db_write_batch_size = 128;
  ByteSize db_write_batch_bytes = mib(1);
  std::int64_t db_write_pipeline_depth = 4;
  std::int64_t db_write_batch_delay_ms = 2;
  std::int64_t db_write_queue_max = 256;
  ByteSize db_write_queue_bytes = mib(16);
  Duration db_write_queue_timeout = std::chrono::seconds(5);
  ByteSize feed_cache_chunk_bytes = kib(64);
  ByteSize feed_cache_max_bytes = mib(128);

  // Clients
  ByteSize http_socket_read_buffer_bytes = kib(32);
  ByteSize http_socket_write_buffer_bytes = kib(32);
  std::int64_t client_max_connections = 2600;
  Duration client_idle_timeout = std::chrono::seconds(60);
  Duration client_header_timeout = std::chrono::seconds(10);
  Duration client_body_timeout = std::chrono::seconds(30);
  Duration client_write_timeout = std::chrono::seconds(30);
  ByteSize max_header_bytes = kib(16);
  ByteSize max_body_bytes = mib(1);

  // WebSocket chat
  std::string ws_event_channel = "chat_message_events";
  std::int64_t ws_event_queue_max = 4096;
  ByteSize ws_queue_max_bytes = mib(1);
  std::int64_t ws_max_connections = 2000;
  Duration ws_ping_interval = std::chrono::seconds(25);
  Duration ws_pong_timeout = std::chrono::seconds(8);
  std::string ws_origins;
  std::int64_t history_limit = 100;
  ByteSize ws_max_message_bytes = kib(512);
  Duration ws_register_timeout = std::chrono::seconds(10);
  double ws_message_rate = 20;
  bool ws_accept_proxy_protocol = false;
  bool ws_echo = false;
  bool ws_plain = false;
  bool reserve_names = false;

  // Leaving
  Duration drain_notice = std::chrono::seconds(3);
  Duration drain_timeout = std::chrono::seconds(5);

  // Log
  std::string log_level = "info";
  std::string log_format = "text";
};

const OptionTable& option_table();

// Fills in what depends on the machine or on other options, and checks the rules across fields. The error is
// one line for the user; the caller exits 2.
Result<void> finish_options(Options& options, const LoadedOptions& loaded);

StoreConfig store_config(const Options& options);

}  // namespace dlb::backend
