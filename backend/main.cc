// backend: reads its options, builds the object graph top-down, runs one loop until a drain has ended.
//
//   Options ─▶ Log ─▶ EventLoop ─▶ HttpApi ─▶ MessageStore ─▶ HttpServer (http-port, ws-port) ─▶ WsServer
//           ─▶ ChatRoom ─▶ Drainer ─▶ SignalSource
//
// Exit codes: 0 drained, 1 a listener can't be opened, 2 bad usage, configuration, key file or certificate.
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "backend/chat_room.h"
#include "backend/drainer.h"
#include "backend/echo_service.h"
#include "backend/http_api.h"
#include "backend/internal_stats.h"
#include "backend/key_ring.h"
#include "backend/options.h"
#include "backend/store_factory.h"
#include "backend/ws_port.h"
#include "common/address.h"
#include "common/cgroup.h"
#include "common/event_loop.h"
#include "common/http_server.h"
#include "common/log.h"
#include "common/signals.h"
#include "common/socket.h"
#include "common/standard_streams.h"

namespace dlb::backend {
namespace {

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;

int fail(const std::string& text, int code) {
  std::fprintf(stderr, "backend: %s\n", text.c_str());
  return code;
}

// -t looks at the certificate and the key file too, but makes none.
Result<void> check_files(const Options& options) {
  if (options.enable_websocket) {
    auto certificate = load_ws_certificate(options, false, nullptr);
    if (!certificate) return certificate.error();
  }
  const bool embedded = options.database_url.empty();
  if (embedded && ::access(options.message_encryption_key_file.c_str(), F_OK) != 0) return {};
  auto ring = load_key_file(options.message_encryption_key_file);
  if (!ring) return ring.error();
  return {};
}

HttpServerOptions server_options(const Options& options) {
  HttpServerOptions out;
  out.max_connections = static_cast<std::size_t>(options.client_max_connections);
  out.max_body_bytes = options.max_body_bytes.bytes;
  out.head_limits.max_head_bytes = options.max_header_bytes.bytes;
  out.header_timeout = options.client_header_timeout;
  out.body_timeout = options.client_body_timeout;
  out.idle_timeout = options.client_idle_timeout;
  out.write_timeout = options.client_write_timeout;
  out.socket_buffers = SocketBuffers{options.http_socket_read_buffer_bytes.bytes,
                                     options.http_socket_write_buffer_bytes.bytes};
  out.fixed_header_lines = HttpApi::fixed_header_lines(options.backend_id);
  return out;
}

HttpApiConfig api_config(const Options& options) {
  HttpApiConfig out;
  out.backend_id = options.backend_id;
  out.version = DLB_VERSION;
  out.store_kind = options.database_url.empty() ? "sqlite" : "postgres";
  out.max_body_bytes = options.max_body_bytes.bytes;
  out.ws_plain = options.ws_plain;
  out.reserve_names = options.reserve_names;
  out.public_wss_url = options.public_wss_url;
  out.feed_gzip_bytes = options.feed_cache_max_bytes.bytes / 2;
  return out;
}

// Descriptors for every client and what the store needs; says what is missing rather than failing at the cap.
void raise_descriptor_limit(Log& log, const Options& options) {
  const std::int64_t clients = options.client_max_connections * (options.enable_websocket ? 2 : 1);
  const rlim_t wanted = static_cast<rlim_t>(clients + options.ws_max_connections) + 64;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return;
  limit.rlim_cur = limit.rlim_max == RLIM_INFINITY || limit.rlim_max >= wanted ? wanted : limit.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < wanted) {
    log.warn(
        "too few file descriptors for client-max-connections: raise the limit (ulimit -n) or lower the "
        "option",
        {{"wanted", static_cast<std::uint64_t>(wanted)},
         {"have", static_cast<std::uint64_t>(limit.rlim_cur)}});
  }
}

Result<Fd> open_listener(const Options& options, std::string_view option, std::int64_t number) {
  const std::string port = ":" + std::to_string(number);
  auto address = Address::parse(port);
  if (!address) return address.error();
  // With the buffers of what it accepts: segment sizes are agreed on in the handshake.
  auto listener = listen_on(*address, 1024, server_options(options).socket_buffers);
  if (!listener) {
    const std::string name(option);
    return Error{name + " " + std::to_string(number) + ": " + listener.error().text +
                     "; stop what uses the port or choose another " + name,
                 listener.error().code};
  }
  return listener;
}

int run(const Options& options) {
  LogConfig log_config;
  log_config.level = parse_log_level(options.log_level).value_or(LogLevel::Info);
  log_config.format = options.log_format == "json" ? LogFormat::Json : LogFormat::Text;
  Log log(log_config);
  EventLoop loop;
  HttpApi api(loop, api_config(options));

  auto store = make_store(loop, log, store_config(options));
  if (!store) return fail(store.error().text, kExitUsage);
  auto listener = open_listener(options, "http-port", options.http_port);
  if (!listener) return fail(listener.error().text, kExitFailed);
  std::shared_ptr<const TlsContext> certificate;
  Fd ws_listener;
  if (options.enable_websocket) {
    auto loaded = load_ws_certificate(options, true, &log);
    if (!loaded) return fail(loaded.error().text, kExitUsage);
    certificate = std::move(*loaded);
    auto opened = open_listener(options, "ws-port", options.ws_port);
    if (!opened) return fail(opened.error().text, kExitFailed);
    ws_listener = std::move(*opened);
  }
  raise_descriptor_limit(log, options);

  Cgroup cgroup;
  ResourceSampler resources(loop, cgroup);
  HttpServer server(loop, std::move(*listener), api, server_options(options));
  std::vector<HttpServer*> servers{&server};
  std::optional<HttpServer> ws_port;
  if (ws_listener) {
    ws_port.emplace(loop, std::move(ws_listener), api,
                    ws_port_options(options, server_options(options), certificate));
    servers.push_back(&*ws_port);
  }
  WsServer sockets(loop, ws_server_options(options));
  ChatRoom chat(loop, sockets, {options.history_limit, options.ws_message_rate, options.ws_ping_interval});
  if (options.enable_websocket || options.ws_plain) chat.bind(**store);
  EchoService echo(sockets);
  sockets.add_route(chat_route(options, chat));
  if (options.ws_echo) sockets.add_route(EchoService::route(echo));
  api.serve_websockets(sockets, ws_port ? &*ws_port : nullptr);
  api.serve_chat(chat);
  Drainer drainer(loop, log, servers, sockets, {options.drain_notice, options.drain_timeout});
  SignalSource signals(loop, {SIGTERM, SIGINT}, drainer);
  CertificateReload reload(options, log, ws_port ? &*ws_port : nullptr);
  SignalSource hang_ups(loop, {SIGHUP}, reload);
  api.bind(server, **store, resources, drainer);
  (*store)->start(api);

  log.info("backend started", {{"backend", options.backend_id},
                               {"version", DLB_VERSION},
                               {"http-port", server.port()},
                               {"ws-port", ws_port ? ws_port->port() : 0},
                               {"store", options.database_url.empty() ? "sqlite" : "postgres"},
                               {"pid", ::getpid()}});
  loop.run();
  log.info("backend stopped", {{"exchanges_cut", drainer.cut()},
                               {"sockets_cut", drainer.sockets_cut()},
                               {"requests", server.counters().requests}});
  return 0;
}

}  // namespace
}  // namespace dlb::backend

int main(int argc, char** argv) {
  using namespace dlb;
  using namespace dlb::backend;
  open_missing_standard_streams();
  block_signals({SIGTERM, SIGINT, SIGHUP});
  Options options;
  auto loaded = load_options(option_table(), options, argc, argv, environ);
  if (!loaded) return fail(loaded.error().text, kExitUsage);
  const OptionAction action = loaded->action;
  if (action == OptionAction::Run || action == OptionAction::Check || action == OptionAction::PrintConfig) {
    if (auto checked = finish_options(options, *loaded); !checked)
      return fail(checked.error().text, kExitUsage);
  }
  if (action == OptionAction::Check) {
    if (auto checked = check_files(options); !checked) return fail(checked.error().text, kExitUsage);
  }
  if (const auto code = finish_action(option_table(), *loaded, options)) return *code;
  return run(options);
}
