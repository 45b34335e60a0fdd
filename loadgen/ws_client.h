// WsClient: the client's end of one WebSocket connection after the other, over TLS or plain.
//
//   Idle ─open()─▶ Connecting ─▶ Handshaking (TLS) ─▶ Upgrading ─101─▶ Open ─close()─▶ Closing
//     ▲                └───────────────┴───────────────────┴─────────────┴────── on_end ──┘
//
// It knows frames, not what messages mean. Every wait has its end: connect, handshakes and close by
// kStepTimeout, an open connection by a ping of ours when it has been silent and by the pong that must
// follow. A message is held as it is gathered, at most kMaxMessageBytes; what is sent waits in one buffer,
// which the user bounds by sending the next message after the answer to the last. Loop thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/event_loop.h"
#include "common/http_parser.h"
#include "common/timer_list.h"
#include "common/transport.h"
#include "common/ws_frame.h"
#include "loadgen/ws_url.h"

namespace dlb::loadgen {

struct WsClientEnd {
  std::string why;         // for people: `connect 10.0.0.2:443: ECONNREFUSED (Connection refused)`
  std::uint16_t code = 0;  // of the peer's Close, or 0
  bool hopeless = false;   // trying again will not help: its certificate is not believed, it refuses upgrades
};

class WsClientUser {
 public:
  // Each of them may call any member of the client.
  virtual void on_ws_open() = 0;
  virtual void on_ws_text(std::string_view text) = 0;
  // The connection is over, or never came to be. Not called by drop().
  virtual void on_ws_end(const WsClientEnd& end) = 0;

 protected:
  ~WsClientUser() = default;
};

// The timer lists of all clients of a loop. Outlives them.
struct WsClientTimers {
  explicit WsClientTimers(EventLoop& loop);
  TimerList steps;
  TimerList silences;
};

class WsClient final : public EventHandler, public TimerHandler {
 public:
  static constexpr std::uint64_t kMaxMessageBytes = 4 * 1024 * 1024;
  static constexpr std::size_t kReadBytes = 64 * 1024;
  static constexpr Duration kStepTimeout = std::chrono::seconds(10);
  static constexpr Duration kSilence = std::chrono::seconds(40);  // servers ping each 25 s

  // `tls`: for wss://, may be null without. All outlive the client.
  // `read_bytes`: kept by each that is open; an upgrade's head must fit.
  WsClient(EventLoop& loop, WsClientTimers& timers, const TlsContext* tls, WsClientUser& user,
           std::size_t read_bytes = kReadBytes);
  WsClient(const WsClient&) = delete;
  WsClient& operator=(const WsClient&) = delete;
  ~WsClient() { drop(); }

  // Only when idle. Looks the name up, which blocks. An error is what could not even begin; else on_ws_open()
  // or on_ws_end() follows.
  Result<void> open(const WsUrl& url);
  // Nothing when not open.
  void send_text(std::string_view text);
  // Starts the close handshake; on_ws_end() follows.
  void close(std::uint16_t code, std::string_view reason);
  void drop();  // at once and without a word

  // Of a connection that has shaken hands, else and without TLS null.
  const TlsSession* tls() const { return transport_.tls(); }

  bool idle() const { return state_ == State::Idle; }
  bool is_open() const { return state_ == State::Open; }

  void on_events(std::uint32_t events) override;
  void on_timer(Timer& timer) override;

 private:
  enum class State : std::uint8_t { Idle, Connecting, Handshaking, Upgrading, Open, Closing };

  void finish_connect();
  void shake_hands();
  void begin_upgrade();
  void read_some();
  bool take_upgrade();
  bool take_frames();
  bool take_part(const WsPart& part);
  bool accepted(const ResponseHead& head);
  void send_frame(WsOpcode opcode, std::string_view payload);
  void flush();
  void end(WsClientEnd end);
  void end(std::string why, bool hopeless = false) { end(WsClientEnd{std::move(why), 0, hopeless}); }
  std::string what(std::string_view step) const;

  static constexpr int kReadsPerTurn = 8;
  static constexpr std::size_t kUnsentForPongs = 64 * 1024;

  EventLoop& loop_;
  WsClientTimers& timers_;
  const TlsContext* tls_;
  WsClientUser& user_;
  Timer step_{*this};
  Timer silence_{*this};
  HeadParser parser_;
  ResponseHead head_;
  State state_ = State::Idle;
  std::uint64_t connection_ = 0;  // counts them: a user may end one and open the next inside a call
  WsUrl url_;
  Transport transport_;
  std::string key_;
  WsDecoder decoder_;
  std::size_t read_bytes_;
  std::vector<char> input_;  // the part of it that is not decoded yet stands at its begin
  std::size_t input_bytes_ = 0;
  std::size_t scanned_ = 0;
  std::string message_;
  std::string unsent_;
  bool pinged_ = false;
  WsClientEnd closing_;  // Closing: why
};

}  // namespace dlb::loadgen
