// NoChat: stands where the chat protocol will: it lets sessions in and tells them that it is not there.
#pragma once

#include <string_view>

#include "common/ws_server.h"

namespace dlb::backend {

class NoChat final : public WsService {
 public:
  explicit NoChat(WsServer& server) : server_(server) {}

  void on_open(WsToken token, const WsOpen&) override {
    server_.close(token, ws_close::kTryLater, "there is no chat in this version");
  }
  void on_text(WsToken, std::string_view) override {}
  void on_writable(WsToken) override {}
  void on_close(WsToken, WsEnd) override {}

 private:
  WsServer& server_;
};

}  // namespace dlb::backend
