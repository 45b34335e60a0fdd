#include "backend/ws_port.h"

#include <unistd.h>

#include <utility>

#include "backend/tls_files.h"
#include "common/ws_handshake.h"

namespace dlb::backend {

WsServerOptions ws_server_options(const Options& options) {
  WsServerOptions out;
  out.max_sessions = static_cast<std::size_t>(options.ws_max_connections);
  out.ping_interval = options.ws_ping_interval;
  out.pong_timeout = options.ws_pong_timeout;
  out.origins = split_origins(options.ws_origins);
  return out;
}

WsRoute chat_route(const Options& options, WsService& chat) {
  WsRoute route;
  route.paths = {"/ws", "/"};
  route.service = &chat;
  route.max_message_bytes = options.ws_max_message_bytes.bytes;
  route.queue_max_bytes = options.ws_queue_max_bytes.bytes;
  route.confirm_timeout = options.ws_register_timeout;
  return route;
}

HttpServerOptions ws_port_options(const Options& options, HttpServerOptions http,
                                  std::shared_ptr<const TlsContext> context) {
  http.tls = std::move(context);
  http.proxy_protocol = options.ws_accept_proxy_protocol;
  http.token_tag = 1;
  return http;
}

Result<std::shared_ptr<const TlsContext>> load_ws_certificate(const Options& options, bool create, Log* log) {
  TlsFiles files{options.tls_cert, options.tls_key};
  if (files.certificate.empty()) {
    if (!options.database_url.empty()) {
      return Error{
          "ws-port speaks TLS: give tls-cert and tls-key (they are made without being asked in the embedded "
          "mode only), or enable-websocket = false"};
    }
    files = made_tls_files(options.data_dir);
    if (create) {
      auto made = make_tls_files(options.data_dir);
      if (!made) return made.error();
    } else if (::access(files.certificate.c_str(), F_OK) != 0) {
      return std::shared_ptr<const TlsContext>();
    }
  }
  std::vector<std::string> warnings;
  auto loaded = TlsContext::load(files.certificate, files.key, warnings);
  if (!loaded) return loaded.error();
  if (log != nullptr) {
    for (const std::string& warning : warnings) log->warn(warning);
  }
  return std::make_shared<const TlsContext>(std::move(*loaded));
}

void CertificateReload::on_signal(int) {
  if (port_ == nullptr) return log_.info("SIGHUP: nothing is read again without ws-port");
  auto loaded = load_ws_certificate(options_, false, &log_);
  if (!loaded || !*loaded) {
    return log_.error("the certificate in force stays: the new one can't be used",
                      {{"error", loaded ? std::string("it is not there") : loaded.error().text}});
  }
  log_.info("certificate read again", {{"expires", (*loaded)->expires_at()}});
  port_->set_tls(std::move(*loaded));
}

}  // namespace dlb::backend
