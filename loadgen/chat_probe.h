// ChatProbe: one person of the chat for checks that go step by step: each call says something and drives the
// loop until the answer is there, the connection is lost or the time is over. What comes live meanwhile is
// kept, when it is a message of this check: at most kMaxKept.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/event_loop.h"
#include "common/rsa_pss.h"
#include "loadgen/chat_protocol.h"
#include "loadgen/ws_client.h"

namespace dlb::loadgen {

class ChatProbe final : public WsClientUser {
 public:
  static constexpr std::size_t kMaxKept = 1000;

  // `prefix`: ids of messages of this check begin with it. All are borrowed.
  struct Parts {
    EventLoop& loop;
    WsClientTimers& timers;
    const TlsContext* tls;  // may be null for ws://
    const RsaPrivateKey& key;
    std::string_view prefix;
    const bool& stop;
  };
  ChatProbe(const Parts& parts, std::string name);

  // Connects and registers; with `after` >= 0 it begins with what came behind that sequence, up to `resumed`.
  // Any earlier connection is dropped, what was kept too.
  Result<void> join(const WsUrl& url, std::int64_t after, TimePoint deadline);
  // The ack.
  Result<ServerSaid> say(std::string_view id, std::string_view text, TimePoint deadline);
  // Until that message has come live (or has come already).
  Result<void> wait_message(std::string_view id, TimePoint deadline);
  // What the server has said before it answers this has been taken.
  Result<void> fence(TimePoint deadline);
  Result<ServerSaid> history(std::int64_t limit, std::int64_t before, TimePoint deadline);
  Result<ServerSaid> key_of(std::string_view name, TimePoint deadline);
  void leave() { socket_.drop(); }

  // Whether the latest connection could not even be opened.
  bool unreachable() const {
    return ended_.starts_with("connect ") || ended_.starts_with("no answer in time");
  }
  const std::string& name() const { return name_; }
  const std::vector<ChatMessage>& kept() const { return kept_; }
  // How often that message has come, and the first of them (null: not yet).
  std::size_t times(std::string_view id) const;
  const ChatMessage* first(std::string_view id) const;
  // When the server's certificate expires, in seconds since 1970; 0: no TLS yet.
  std::int64_t certificate_expires_at() const { return expires_at_; }

  void on_ws_open() override;
  void on_ws_text(std::string_view text) override;
  void on_ws_end(const WsClientEnd& end) override;

 private:
  Result<ServerSaid> wait(ServerSaid::Kind kind, std::string_view id, TimePoint deadline);
  Error trouble(std::string_view waited_for) const;

  static constexpr std::size_t kShownBytes = 100;
  static constexpr Duration kTurn = std::chrono::milliseconds(50);

  Parts parts_;
  std::string name_;
  ServerReader reader_;
  std::int64_t after_ = -1;
  std::vector<ChatMessage> kept_;
  std::vector<ServerSaid> answers_;  // to what was said last
  std::string latest_;               // the begin of what the server said last
  std::string ended_;                // why the connection is over
  std::int64_t expires_at_ = 0;
  WsClient socket_;
};

}  // namespace dlb::loadgen
