// ChatRoom: the chat protocol on WebSocket sessions: who is in, what each may ask in which state, and that
// every new row reaches every session once and in order.
//
//   Connected ──register──▶ Registering ──verified, name ours, presence told──▶ Registered
//       ▲                        └──error: the session may try again──┐
//       └─────────────────────────────────────────────────────────────┘
//   Registered:  live ──resume──▶ replaying (live rows wait; the replay comes by them) ──its end──▶ live
//
// One request at a time: while the store answers one (registering, history, users, key) the session is not
// read, so its answers come in order and nothing queues here. Messages go on meanwhile, up to kMaxUnsettled a
// session. Signatures are verified at the end of the turn, in the order they came, within a budget of time a
// turn. Answers that the session's queue has no room for are held until it is empty, and the session is not
// read.
//
// A replay reads rows above its cursor, page by page as the socket takes them, until the cursor has reached
// what was told live; both happen on this loop, so nothing lies between. Loop thread only; bounded by the
// sessions.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "backend/chat_input.h"
#include "backend/chat_store.h"
#include "backend/message_store.h"
#include "backend/token_bucket.h"
#include "common/event_loop.h"
#include "common/rsa_pss.h"
#include "common/timer_heap.h"
#include "common/timer_list.h"
#include "common/ws_server.h"

namespace dlb::backend {

struct ChatConfig {
  std::int64_t history_limit = 100;
  double message_rate = 20;  // a second and session; 0: no limit
  Duration key_idle{};       // who sent nothing for this time has his parsed key dropped; 0: never
};

// Counts since start.
struct ChatCounters {
  std::uint64_t registered = 0;
  std::uint64_t register_errors = 0;
  std::uint64_t messages = 0;  // read, of type message
  std::uint64_t acks = 0;
  std::uint64_t errors = 0;  // sent, of all kinds
  std::uint64_t rate_limited = 0;
  std::uint64_t bad_signatures = 0;
  std::uint64_t verified = 0;  // signatures looked at
  double verify_seconds_sum = 0;
  std::uint64_t broadcasts = 0;       // rows told live
  std::uint64_t broadcast_sends = 0;  // of those, to sessions
  std::uint64_t histories = 0;
  std::uint64_t replays = 0;
  std::uint64_t replay_rows = 0;
  std::uint64_t resets = 0;
};

class ChatRoom final : public WsService, public ChatStoreClient, public TurnEndHook, public HeapTimerHandler {
 public:
  ChatRoom(EventLoop& loop, WsServer& sockets, const ChatConfig& config);
  ChatRoom(const ChatRoom&) = delete;
  ChatRoom& operator=(const ChatRoom&) = delete;
  ~ChatRoom();

  // Before the first session; the store must outlive the room.
  void bind(MessageStore& store);

  void on_open(WsToken token, const WsOpen& open) override;
  void on_text(WsToken token, std::string_view text) override;
  void on_writable(WsToken token) override;
  void on_close(WsToken token, WsEnd end) override;

  void on_chat_put(std::uint64_t token, const PutOutcome& outcome) override;
  bool on_live_row(std::int64_t sequence, std::string_view json, TimePoint end) override;
  bool listens() const override { return !sessions_.empty(); }
  void on_reset() override;
  void on_owner(std::uint64_t token, const OwnerAnswer& answer) override;
  void on_rows(std::uint64_t token, const RowsAnswer& answer) override;
  void on_users(std::uint64_t token, const UsersAnswer& answer) override;
  void on_present(std::uint64_t version) override;

  void on_turn_end() override;
  void on_heap_timer(HeapTimer& timer) override;

  const ChatCounters& counters() const { return counters_; }
  std::size_t online() const { return names_.size(); }  // names, here
  std::size_t unverified() const { return unverified_.size(); }
  std::size_t parsed_keys() const;  // looks at each session

 private:
  enum class State : std::uint8_t { Connected, Registering, Registered };

  struct Session final : TimerHandler {
    Session(WsToken ws, const ChatConfig& config)
        : token(ws), bucket(config.message_rate, config.message_rate * 2) {}
    void on_timer(Timer&) override { key.reset(); }  // who only listens needs none

    WsToken token;
    State state = State::Connected;
    std::string username;               // when not Connected
    std::string key_der;                // likewise; SubjectPublicKeyInfo
    std::unique_ptr<RsaPublicKey> key;  // of key_der, ready to verify: some 5 KiB; null until it has sent
    Timer key_timer{*this};
    std::optional<std::int64_t> after_sequence;  // of the register that is being answered
    TokenBucket bucket;
    std::size_t unsettled = 0;     // messages that are read and not answered
    bool asking = false;           // the store answers a request
    bool paused = false;           // not read
    std::vector<WsFramePtr> held;  // answers that found no room, oldest first; a few
    bool live = false;
    bool listed = false;            // counted in names_
    std::int64_t seen_through = 0;  // rows up to this one have been sent by a replay, or were seen before it
    std::uint64_t replay = 0;       // the request that is awaited for it; 0: none
    bool replaying = false;
    bool replay_fresh = false;  // the next page must know all that was committed before
    bool replay_empty = false;  // the last page was
    std::int64_t replay_count = 0;
  };

  // A signature to be looked at.
  struct Unverified {
    WsToken token = 0;
    std::variant<ChatRegister, ChatMessage> what;
    std::size_t bytes = 0;
  };

  // What the store was asked for whom.
  struct Asked {
    enum class What : std::uint8_t { Put, Claim, Key, History, Replay, Users };
    What what = What::Put;
    WsToken token = 0;
    std::string text;  // Put: the message id; Key: the name
  };

  struct Arrival {  // who waits until all backends know that he is online
    WsToken token = 0;
    std::uint64_t version = 0;  // of the names with his; 0: not told yet
    TimePoint since{};
  };

  Session* find(WsToken token);
  std::uint64_t ask(Asked::What what, WsToken token, std::string text = {});
  Session* answered(std::uint64_t request, Asked& asked);

  void handle(Session& session, ChatRequest request);
  void handle_register(Session& session, ChatRegister request);
  void handle_message(Session& session, ChatMessage request);
  void verify_some();
  void tell_names();
  void verify(Session& session, ChatRegister request);
  void verify(Session& session, ChatMessage request);
  void register_failed(Session& session, ChatError error);
  void arrive(Session& session);
  void finish_arrivals();
  void finish_arrival(Session& session);
  void unlist(Session& session);
  void message_failed(Session& session, ChatError error, std::string_view id);

  void send(Session& session, std::string_view text);
  void send(Session& session, WsFramePtr frame);
  void send_error(Session& session, const ChatError& error, std::string_view message_id = {});
  void set_asking(Session& session, bool asking);
  void update_reading(Session& session);

  void tell_live(WsToken token, const Session& session, std::int64_t sequence, std::string_view json);
  void begin_replay(Session& session, std::int64_t after);
  void continue_replay(Session& session);
  void take_replay(Session& session, const RowsAnswer& answer);
  void end_replay(Session& session);

  EventLoop& loop_;
  WsServer& sockets_;
  const ChatConfig config_;
  MessageStore* store_ = nullptr;
  TimerHeap timers_;
  HeapTimer arrival_timer_;
  TimerList key_timers_;
  ChatInput input_;
  std::unordered_map<WsToken, Session> sessions_;
  std::unordered_map<std::uint64_t, Asked> asked_;
  std::uint64_t next_request_ = 1;
  std::deque<Unverified> unverified_;
  std::size_t unverified_bytes_ = 0;
  std::map<std::string, std::size_t, std::less<>> names_;  // of registered sessions, with their number
  bool names_changed_ = false;
  std::deque<Arrival> arrivals_;
  std::uint64_t present_ = 0;      // the version of the names that all backends can see
  std::int64_t live_through_ = 0;  // the last row that is told live, or was
  std::vector<WsToken> untold_;    // who has yet to be told it, when it took too long for one turn
  WsFramePtr untold_frame_;
  std::shared_ptr<const std::vector<std::string>> users_;  // that users_frame_ was made of
  WsFramePtr users_frame_;
  ChatCounters counters_;
};

}  // namespace dlb::backend
