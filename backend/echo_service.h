// EchoService: sends every WebSocket message back as it came: `/echo`, what conformance suites and
// measurements need, without registration. Loop thread.
#pragma once

#include <string_view>

#include "common/ws_server.h"

namespace dlb::backend {

class EchoService final : public WsService {
 public:
  static constexpr std::size_t kMaxMessageBytes = 16 * 1024 * 1024;

  // The route for it. `server` must outlive the service's sessions.
  static WsRoute route(EchoService& service) {
    WsRoute route;
    route.paths = {"/echo"};
    route.service = &service;
    route.max_message_bytes = kMaxMessageBytes;
    route.accept_binary = true;
    // What one read may hold is answered whatever stands in front of it; more is not read until it has gone.
    route.queue_max_bytes = 2 * kMaxMessageBytes;
    return route;
  }

  explicit EchoService(WsServer& server) : server_(server) {}

  void on_open(WsToken, const WsOpen&) override {}
  void on_text(WsToken token, std::string_view text) override { server_.send_text(token, text); }
  void on_binary(WsToken token, std::string_view bytes) override {
    server_.send_answer(token, WsFrame::binary(bytes));
  }
  void on_writable(WsToken) override {}
  void on_close(WsToken, WsEnd) override {}

 private:
  WsServer& server_;
};

}  // namespace dlb::backend
