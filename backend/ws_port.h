// The WebSocket side of the backend's start: its settings out of the options, its certificate, and reading
// that again on SIGHUP. The object graph itself is main's.
#pragma once

#include <memory>

#include "backend/options.h"
#include "common/http_server.h"
#include "common/log.h"
#include "common/result.h"
#include "common/signals.h"
#include "common/tls_context.h"
#include "common/ws_server.h"

namespace dlb::backend {

WsServerOptions ws_server_options(const Options& options);
// The chat's route; its paths are /ws and /.
WsRoute chat_route(const Options& options, WsService& chat);
// Of the TLS port, from those of the HTTP port.
HttpServerOptions ws_port_options(const Options& options, HttpServerOptions http,
                                  std::shared_ptr<const TlsContext> context);

// The certificate of ws-port: tls-cert and tls-key, or in the embedded mode the one in data-dir, which is
// made when `create`. Null when there is none yet and none was to be made. Oddities are logged unless `log`
// is null.
Result<std::shared_ptr<const TlsContext>> load_ws_certificate(const Options& options, bool create, Log* log);

// SIGHUP: connections from now on get the certificate as it is in the files now; one that can't be used
// leaves the one in force. Null `port`: nothing to read again.
class CertificateReload final : public SignalHandler {
 public:
  CertificateReload(const Options& options, Log& log, HttpServer* port)
      : options_(options), log_(log), port_(port) {}

  void on_signal(int signal_number) override;

 private:
  const Options& options_;
  Log& log_;
  HttpServer* port_;
};

}  // namespace dlb::backend
