// ChatClient: `loadgen chat`. Registers, prints history and what comes, sends one message after the other
// until each is stored, and begins again where it was when the connection is lost.
//
//   connecting ──▶ registering ──▶ history (if wanted, or to know where "now" is) ──▶ ready
//       ▲               │                          │                                   │
//       └── 0-5 s, at random ◀────── lost ─────────┴───────────────────────────────────┘
//
// A message keeps its id until the server has acknowledged it, whatever breaks in between: nothing is lost
// and nothing is doubled. What is asked (history, keys) is asked one at a time, so that an error without a
// message-id belongs to it. One loop; notes for people go to the standard error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/event_loop.h"
#include "common/rng.h"
#include "common/signals.h"
#include "common/timer_heap.h"
#include "loadgen/chat_options.h"
#include "loadgen/chat_printer.h"
#include "loadgen/chat_protocol.h"
#include "loadgen/line_source.h"
#include "loadgen/ws_client.h"

namespace dlb::loadgen {

class ChatClient final : public WsClientUser, public LineUser, public HeapTimerHandler, public SignalHandler {
 public:
  struct Parts {
    EventLoop& loop;
    const ChatOptions& options;
    const WsUrl& url;
    const TlsContext* tls;
    const RsaPrivateKey& key;
    int input = -1;  // lines to send; -1: none
  };

  explicit ChatClient(const Parts& parts);

  // Until everything is done, given up or interrupted. The program's exit code: 0 when everything that was to
  // be sent is stored.
  int run();

  void on_ws_open() override;
  void on_ws_text(std::string_view text) override;
  void on_ws_end(const WsClientEnd& end) override;
  void on_line(std::string line) override;
  void on_long_line() override;
  void on_lines_end() override;
  void on_heap_timer(HeapTimer& timer) override;
  void on_signal(int signal_number) override;

 private:
  enum class Asked : std::uint8_t { Nothing, Register, History, Key };
  struct Outgoing {
    std::string id;
    std::string text;
    bool on_its_way = false;
  };

  void connect();
  void connect_later(const std::string& why);
  void take(ServerSaid& said);
  void registered();
  void take_history(ServerSaid& said);
  void take_error(const ServerSaid& said);
  void take_live(ChatMessage message);
  void ask_next();
  void send_current();
  void begin_message(std::string text);
  void message_done(bool stored);
  void go_on();
  bool all_done() const;
  void fail(const std::string& why);
  void leave();
  void progress();
  static void note(const std::string& text);
  static std::string new_id();

  static constexpr std::int64_t kHistoryPage = 100;
  static constexpr Duration kMaxWait = std::chrono::seconds(5);
  static constexpr Duration kAgain = std::chrono::milliseconds(1000);
  static constexpr Duration kAckTimeout = std::chrono::seconds(20);
  static constexpr Duration kLeaveTimeout = std::chrono::seconds(2);

  Parts parts_;
  WsClientTimers socket_timers_;
  WsClient socket_;
  ServerReader reader_;
  ChatPrinter printer_;
  Rng rng_;
  TimerHeap timers_;
  HeapTimer reconnect_{timers_, *this};
  HeapTimer ask_again_{timers_, *this};   // behind an error that passes
  HeapTimer send_again_{timers_, *this};  // likewise, or since no ack came
  HeapTimer give_up_{timers_, *this};
  std::optional<LineSource> lines_;
  bool more_lines_ = false;

  Asked asked_ = Asked::Nothing;
  bool registered_ = false;
  bool ever_registered_ = false;
  bool history_done_ = false;
  bool replaying_ = false;            // registered with a place to resume at, and not resumed yet
  std::int64_t seen_ = -1;            // what to resume behind; -1: not known yet
  std::vector<ChatMessage> history_;  // ascending
  std::vector<ChatMessage> held_;     // live, until the history is there
  std::optional<Outgoing> current_;
  std::uint64_t failed_ = 0;
  bool leaving_ = false;
  int exit_code_ = 0;
  std::string last_trouble_;
};

}  // namespace dlb::loadgen
