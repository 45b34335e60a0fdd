#include "backend/options.h"

#include <unistd.h>

#include <array>
#include <cstddef>
#include <string_view>

#include "common/log.h"

namespace dlb::backend {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;

constexpr OptionRow kRows[] = {
    option<&Options::backend_id>(
        "backend-id",
        {.help = "name of this backend in X-Backend, /health and logs: 1-64 of A-Z a-z 0-9 . _ -; "
                 "empty: the host's name"}),
    option<&Options::http_port>(
        "http-port",
        {.max = 65535, .unit = "port", .help = "HTTP listener, all addresses; 0: any free port"}),
    option<&Options::ws_port>(
        "ws-port",
        {.max = 65535,
         .unit = "port",
         .help = "TLS listener of the WebSocket chat; serves the HTTP routes too; 0: any free port"}),
    option<&Options::enable_websocket>("enable-websocket", {.help = "serve ws-port"}),
    option<&Options::enable_cluster_websocket>(
        "enable-cluster-websocket",
        {.help = "tell the other backends of new messages at once; false: they look once a second"}),
    option<&Options::public_wss_url>("public-wss-url",
                                     {.unit = "url",
                                      .help = "wss:// address that /info tells browsers, a loopback one "
                                              "meaning the host that the page came from; "
                                              "empty: this host's ws-port"}),
    option<&Options::database_url>(
        "database-url", {.unit = "libpq URI",
                         .secret = true,
                         .help = "PostgreSQL (several hosts welcome); empty: an SQLite file in data-dir"}),
    option<&Options::data_dir>("data-dir",
                               {.unit = "path", .help = "folder of the SQLite file and of keys made here"}),
    option<&Options::message_encryption_key_file>(
        "message-encryption-key-file",
        {.unit = "path",
         .help = "keys that encrypt messages, urlsafe base64 of 32 bytes a line, the first one encrypts; by "
                 "default "
                 "data-dir/encryption.key, made on first start in the embedded (SQLite) mode only"}),
    option<&Options::tls_cert>("tls-cert",
                               {.unit = "path",
                                .help = "certificate of ws-port, PEM with its chain; empty: one made in "
                                        "data-dir/tls (embedded mode only). SIGHUP reads it again"}),
    option<&Options::tls_key>("tls-key", {.unit = "path", .help = "key of tls-cert"}),
    option<&Options::db_health_timeout>("db-health-timeout",
                                        {.min = milliseconds(10),
                                         .max = minutes(1),
                                         .help = "the database must answer a health query in this time"}),
    option<&Options::health_check_timeout>(
        "health-check-timeout",
        {.min = milliseconds(10), .max = minutes(1), .help = "upper bound of one /health answer"}),
    option<&Options::db_write_batch_size>(
        "db-write-batch-size",
        {.min = 1, .max = 5000, .unit = "rows", .help = "most messages in one INSERT"}),
    option<&Options::db_write_batch_bytes>(
        "db-write-batch-bytes", {.min = kib(64), .max = mib(64), .help = "most bytes in one INSERT"}),
    option<&Options::db_write_pipeline_depth>(
        "db-write-pipeline-depth",
        {.min = 1, .max = 64, .unit = "batches", .help = "INSERTs on their way at a time"}),
    option<&Options::db_write_batch_delay_ms>(
        "db-write-batch-delay-ms",
        {.max = 1000, .unit = "ms", .help = "how long a first message waits for others to join its batch"}),
    option<&Options::db_write_queue_max>(
        "db-write-queue-max",
        {.min = 1, .max = 1000000, .unit = "messages", .help = "most messages not yet sent; more get 503"}),
    option<&Options::db_write_queue_bytes>("db-write-queue-bytes",
                                           {.min = kib(128), .max = mib(1024), .help = "likewise in bytes"}),
    option<&Options::db_write_queue_timeout>(
        "db-write-queue-timeout",
        {.min = milliseconds(10), .max = hours(1), .help = "a message not sent in this time gets 503"}),
    option<&Options::feed_cache_chunk_bytes>(
        "feed-cache-chunk-bytes",
        {.min = kib(1), .max = mib(16), .help = "size of the feed's shared chunks"}),
    option<&Options::feed_cache_max_bytes>("feed-cache-max-bytes",
                                           {.min = mib(1),
                                            .max = mib(65536),
                                            .help = "most memory of the newest chunks, and half as much of "
                                                    "them compressed; older rows are read again"}),
    option<&Options::http_socket_read_buffer_bytes>(
        "http-socket-read-buffer-bytes",
        {.max = mib(64), .help = "SO_RCVBUF of clients; 0: the kernel tunes it"}),
    option<&Options::http_socket_write_buffer_bytes>(
        "http-socket-write-buffer-bytes",
        {.max = mib(64), .help = "SO_SNDBUF of clients; 0: the kernel tunes it"}),
    option<&Options::client_max_connections>(
        "client-max-connections",
        {.min = 1, .max = 1000000, .unit = "connections", .help = "most HTTP clients at a time"}),
    option<&Options::client_idle_timeout>(
        "client-idle-timeout",
        {.min = milliseconds(10),
         .max = hours(24),
         .help = "an idle kept connection is closed; keep it longer than the balancer's proxy-idle-timeout"}),
    option<&Options::client_header_timeout>(
        "client-header-timeout", {.min = milliseconds(10),
                                  .max = hours(1),
                                  .help = "a request head must be complete in this time, else 408"}),
    option<&Options::client_body_timeout>(
        "client-body-timeout",
        {.min = milliseconds(10), .max = hours(1), .help = "without progress of a request body, else 408"}),
    option<&Options::client_write_timeout>(
        "client-write-timeout", {.min = milliseconds(10),
                                 .max = hours(1),
                                 .help = "without progress of a response, then the client is cut"}),
    option<&Options::max_header_bytes>(
        "max-header-bytes", {.min = kib(1), .max = mib(1), .help = "largest request head, else 431"}),
    option<&Options::max_body_bytes>(
        "max-body-bytes", {.min = kib(1), .max = mib(64), .help = "largest request body, else 413"}),
    option<&Options::ws_event_channel>(
        "ws-event-channel", {.help = "LISTEN/NOTIFY channel that tells the other backends of new rows"}),
    option<&Options::ws_event_queue_max>(
        "ws-event-queue-max",
        {.min = 1,
         .max = 1000000,
         .unit = "events",
         .help =
             "most new messages on their way to the WSS clients at a time; the others wait in the database"}),
    option<&Options::ws_queue_max_bytes>(
        "ws-queue-max-bytes",
        {.min = kib(64),
         .max = mib(1024),
         .help = "most unsent bytes a WebSocket client; over it the client is cut (1013)"}),
    option<&Options::ws_max_connections>("ws-max-connections",
                                         {.max = 1000000,
                                          .unit = "connections",
                                          .help = "most WebSocket sessions, 0: no limit; more get 503"}),
    option<&Options::ws_ping_interval>(
        "ws-ping-interval", {.max = hours(1), .help = "between a pong and the next ping; 0: no pings"}),
    option<&Options::ws_pong_timeout>(
        "ws-pong-timeout",
        {.max = hours(1), .help = "a WebSocket peer without pong is closed (1008) and cut; 0: never"}),
    option<&Options::ws_origins>("ws-origins",
                                 {.help = "where browsers may open a WebSocket from: scheme://host[:port], "
                                          "comma-separated, compared exactly; empty: anywhere"}),
    option<&Options::history_limit>(
        "history-limit",
        {.min = 1, .max = 10000, .unit = "messages", .help = "most messages a history page"}),
    option<&Options::ws_max_message_bytes>(
        "ws-max-message-bytes",
        {.min = kib(1),
         .max = mib(64),
         .help = "largest WebSocket message from a client, the sum of its fragments; over it 1009"}),
    option<&Options::ws_register_timeout>(
        "ws-register-timeout",
        {.max = hours(1), .help = "a chat session must register in this time, else 1008; 0: any time"}),
    option<&Options::ws_message_rate>("ws-message-rate",
                                      {.max = 1000000,
                                       .unit = "messages/s",
                                       .help = "messages of a session, twice as many at once; 0: no limit"}),
    option<&Options::ws_accept_proxy_protocol>(
        "ws-accept-proxy-protocol",
        {.help = "every connection to ws-port begins with a PROXY header: behind a balancer that sends it"}),
    option<&Options::ws_echo>(
        "ws-echo", {.help = "add /echo, which sends every WebSocket message back: for conformance suites"}),
    option<&Options::ws_plain>(
        "ws-plain",
        {.help = "also serve the WebSocket paths unencrypted on http-port: behind TLS of the balancer"}),
    option<&Options::reserve_names>(
        "reserve-names", {.help = "HTTP may not post under a name that is registered on WSS: 403"}),
    option<&Options::drain_notice>(
        "drain-notice",
        {.max = hours(1), .help = "after SIGTERM: answer health checks with 503 and serve on"}),
    option<&Options::drain_timeout>(
        "drain-timeout",
        {.max = hours(1), .help = "after the notice: what still runs is cut after this time"}),
    option<&Options::log_level>("log-level", {.choices = kLogLevels, .help = "least important lines to log"}),
    option<&Options::log_format>("log-format", {.choices = kLogFormats, .help = "log lines as text or JSON"}),
};

constexpr OptionTable kTable{
    .program = "backend",
    .intro =
        "The chat server of dlb: HTTP messages and feed over PostgreSQL, or over an embedded SQLite file.",
    .environment_prefix = "",
    .rows = kRows,
};

bool is_id_character(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '.' || c == '_' ||
         c == '-';
}

// The host's name as far as it may stand in a header; `backend` when nothing of it may.
std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "backend";
  std::string id;
  for (const char c : std::string_view(name.data())) {
    if (is_id_character(c) && id.size() < 64) id.push_back(c);
  }
  return id.empty() ? "backend" : id;
}

bool is_valid_id(std::string_view id) {
  if (id.empty() || id.size() > 64) return false;
  for (const char c : id) {
    if (!is_id_character(c)) return false;
  }
  return true;
}

// A channel name stands in SQL as an identifier, at most 63 bytes long.
bool is_valid_channel(std::string_view name) {
  if (name.empty() || name.size() > 63 || (name[0] >= '0' && name[0] <= '9')) return false;
  for (const char c : name) {
    if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'))
      return false;
  }
  return true;
}

}  // namespace

const OptionTable& option_table() { return kTable; }

Result<void> finish_options(Options& options, const LoadedOptions& loaded) {
  if (options.backend_id.empty()) options.backend_id = host_name();
  if (!is_valid_id(options.backend_id)) {
    return loaded.at("backend-id", "must be 1 to 64 of the characters A-Z a-z 0-9 . _ -");
  }
  if (options.data_dir.empty()) return loaded.at("data-dir", "must not be empty; give a folder");
  if (!loaded.given("message-encryption-key-file") || options.message_encryption_key_file.empty()) {
    options.message_encryption_key_file = options.data_dir + "/encryption.key";
  }
  if (!is_valid_channel(options.ws_event_channel)) {
    return loaded.at("ws-event-channel", "must be 1 to 63 letters, digits or _, and begin with no digit");
  }
  if (options.enable_websocket && options.http_port == options.ws_port && options.http_port != 0) {
    return loaded.at("ws-port", "is the same as http-port; give each its own");
  }
  if (options.tls_cert.empty() != options.tls_key.empty()) {
    return loaded.at(options.tls_cert.empty() ? "tls-key" : "tls-cert", "tls-cert and tls-key go together");
  }
  if (options.db_write_batch_bytes > options.db_write_queue_bytes) {
    return loaded.at("db-write-batch-bytes", "must not be larger than db-write-queue-bytes");
  }
  return {};
}

StoreConfig store_config(const Options& options) {
  StoreConfig config;
  config.backend_id = options.backend_id;
  config.database_url = options.database_url;
  config.data_dir = options.data_dir;
  config.key_file = options.message_encryption_key_file;
  config.create_key_file = options.database_url.empty();
  config.chat = options.enable_websocket || options.ws_plain || options.reserve_names;
  config.cluster_events = options.enable_cluster_websocket;
  config.event_channel = options.ws_event_channel;
  config.event_queue_rows = options.ws_event_queue_max;
  config.db_health_timeout = options.db_health_timeout;
  config.write_batch_rows = static_cast<std::size_t>(options.db_write_batch_size);
  config.write_batch_bytes = options.db_write_batch_bytes.bytes;
  config.write_batch_delay = std::chrono::milliseconds(options.db_write_batch_delay_ms);
  config.write_pipeline_depth = static_cast<std::size_t>(options.db_write_pipeline_depth);
  config.write_queue_rows = static_cast<std::size_t>(options.db_write_queue_max);
  config.write_queue_bytes = options.db_write_queue_bytes.bytes;
  config.write_queue_timeout = options.db_write_queue_timeout;
  config.feed_chunk_bytes = options.feed_cache_chunk_bytes.bytes;
  config.feed_cache_bytes = options.feed_cache_max_bytes.bytes;
  return config;
}

}  // namespace dlb::backend
