// Exchange: one request and its response: pick → slot or queue → connect → send → relay → retry, and the one
// owner of what it has reserved. It ends in exactly one of: response complete, our own answer, response
// broken off, client gone, connections handed to a tunnel.
//
//                 ┌──────────────────────────── retry ◀───────────────────────────┐
//                 ▼                                                               │
//   start ──▶ Queued ──slot──▶ Connecting ──▶ AwaitingHead ──response head──▶ Responding ──all sent──▶ Done
//     │          │                 │               │ 101 asked for: a Tunnel        │ broken: cut, never
//     │          │                 │               ├── takes both connections ──────┼──────────────────▶ Done
//     completed └──────────┴─────────────────┴───────────────┴──▶ Answering (ours) ──▶ Done ◀┘
//
// Each state has one deadline: Queued backend-queue-timeout, Connecting connect-timeout; AwaitingHead:
// client-body-timeout while the client owes body bytes (and not the backend a 100), else backend-timeout;
// Responding:
// client-write-timeout while the client owes reads, else the response-body timeout; Answering
// client-write-timeout. Body and write timeouts are without progress; while the client owes, client-min-rate
// is judged besides.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/handle.h"
#include "common/http_message.h"
#include "common/http_parser.h"
#include "common/pipe_pool.h"
#include "common/timer_list.h"
#include "lb/access_log.h"
#include "lb/message_relay.h"
#include "lb/policy/client_pace.h"
#include "lb/router.h"
#include "lb/upstream.h"
#include "lb/waiting_line.h"

namespace dlb::lb {

class Downstream;
class Worker;

// Why a backend's side of an exchange failed; decides retry and answer.
enum class UpstreamFailure : std::uint8_t {
  ConnectRefused,  // connect failed at once or by an error
  ConnectTimeout,
  Broken,        // closed or reset before a response head
  HeadTimeout,   // backend-timeout
  BadResponse,   // not HTTP, a head too large, too many interim responses
  NoDescriptor,  // we could not make a socket
};

class Exchange final : public TimerHandler, public Waiter {
 public:
  enum class State : std::uint8_t { Starting, Queued, Connecting, AwaitingHead, Responding, Answering, Done };

  Exchange(Worker& worker, Downstream& downstream, Handle<Exchange> self);
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  ~Exchange();

  // Takes a parsed request; `in` holds its head and what came behind it, of which the body's bytes are taken
  // out. May close (this and the downstream).
  void start(const RequestHead& head, std::size_t head_bytes, Buffer& in);
  // Answers a head that could not be parsed (`bytes` is what there is of it), then closes. May close.
  void answer_bad_head(int status, std::string_view reason, std::string_view bytes);
  bool client_has_left() const;
  // The client's socket has something to say. May close.
  void on_downstream_events();
  // Likewise the backend's. May close.
  void on_upstream_events();
  void on_slot(const Choice& choice) override;  // May close.
  void on_retry_granted() override;             // May close.
  void on_timer(Timer& timer) override;         // May close.
  // The worker stops: answers a request that no answer has begun for. False: one has. May close.
  bool refuse_at_end();
  // The client is gone or the worker stops: gives everything back. The downstream is told nothing.
  void abandon();

  TransportClass transport_class() const override { return transport_class_; }
  std::span<const std::uint32_t> tried() const override { return {tried_, tried_count_}; }
  Handle<Exchange> self() const { return self_; }

 private:
  enum class Wait : std::uint8_t {
    Nothing,
    Queue,
    Connect,
    ClientBody,
    ResponseHead,
    ResponseBody,
    ClientWrite
  };

  // --- the start (exchange_start.cc)
  static constexpr std::int64_t kNotLooked = INT64_MIN;

  struct Refusal {
    int status = 400;
    std::string_view code, detail, extra{};
  };
  std::optional<Refusal> check_request(const RequestHead& head);
  Buffer forwarded_head(const RequestHead& head, bool body_is_here);
  MessageRelay::Intake take_body(const RequestHead& head, std::size_t head_bytes, Buffer& in,
                                 Buffer request_head);
  void serve_own_page(const RequestHead& head, std::size_t head_bytes, Buffer& in);
  void serve_events(bool has_body);

  // --- the way to a backend (exchange.cc)
  void route();
  void proceed(const Choice& choice);
  void connect();
  bool use_pooled();
  void on_connected();
  void release_upstream(bool reusable);
  void release_slot();

  // --- failures and deadlines (exchange_failure.cc)
  void upstream_failed(UpstreamFailure failure, int err = 0);
  bool may_retry(UpstreamFailure failure) const;
  bool replay_allowed() const;
  void retry();
  void count_failure(UpstreamFailure failure, int err);
  void note_backend_failed(std::string_view what);
  void note_cut();
  void note_backend_succeeded();
  void wait_for(Wait wait, bool progress);
  void set_wait(Wait wait);

  // --- a client that is slow, or stuck (exchange_pace.cc)
  void note_debt(Wait wait);
  std::int64_t moved(ClientPace::Owes what) const;
  std::int64_t acknowledged() const;
  void arm_look();
  void look_at_reader();
  void judge_pace();
  void give_up_on_uploader(std::string_view detail);
  void give_up_on_reader();

  // --- moving bytes (exchange_relay.cc)
  enum class Step : std::uint8_t {
    Moved,
    Stuck,  // would block, or no room: an edge, or the other side, will bring it on
    Gone,   // the exchange has ended: touch nothing
  };
  void pump_request();
  Step read_request_body();
  void pump_response();
  Step read_response_head();
  Step parse_response_heads();
  Buffer head_block(std::size_t bound);
  Step pass_interim(const ResponseHead& head);
  Step begin_response(const ResponseHead& head, std::size_t head_bytes);
  Step begin_tunnel(const ResponseHead& head, std::size_t head_bytes);
  Step read_response_body();
  Step write_response();
  bool may_splice();
  Step splice_response_body();
  Step write_pipe();
  bool response_waits() const { return response_.anything_to_send() || pipe_.bytes() > 0; }
  void response_source_ended();
  void response_broken();

  // --- our own answers and the end (exchange_end.cc)
  enum class Cut : std::uint8_t { Visibly, Reset };
  void answer(int status, std::string_view code, std::string_view detail, std::string_view extra = {});
  void answer_page(int status, std::string_view content_type, std::string body, std::string_view extra);
  void pump_answer();
  void cut(Cut how = Cut::Visibly);
  bool end_would_look_complete() const;
  // The first cause is the one that is logged.
  void note_end(char who, char phase) {
    if (!end_.known()) end_ = {who, phase};
  }
  char phase() const;
  AccessRecord access_record();
  void log_access();
  void finish();
  void count_finished();
  void end(bool keep_alive);
  void enter(State state);

  Worker& worker_;
  Downstream& downstream_;
  Timer timer_;
  Timer pace_timer_;  // armed from the first time that the client owes
  Handle<Exchange> self_;
  Upstream* upstream_ = nullptr;  // borrowed; it tells us before it goes
  AccessNote access_;
  MessageRelay request_;
  MessageRelay response_;
  Buffer response_in_;  // raw bytes until the final response head is complete
  Pipe pipe_;           // a large response body between the sockets; held only while there are bytes in it
  std::string answer_;  // our own answer, head and body
  std::string upgrade_offer_;  // protocols that the request asks to switch to; empty: none
  std::size_t answer_sent_ = 0;
  std::size_t response_scanned_ = 0;
  TimePoint started_;
  TimePoint picked_;
  TimePoint head_at_;
  TimePoint connected_;
  ClientPace pace_;
  TimePoint reader_moved_at_;         // when the client was last seen to take bytes of its response
  std::int64_t reader_acked_ = 0;     // acknowledged() then; kNotLooked: not looked at since
  std::uint64_t response_bytes_ = 0;  // raw, of this attempt
  std::uint64_t client_bytes_ = 0;    // written to the client
  std::uint64_t client_head_bytes_ = 0;
  std::uint32_t request_head_bytes_ = 0;
  std::uint32_t interim_bytes_ = 0;
  std::uint32_t tried_[2] = {};
  Choice choice_;
  EndCode end_;
  std::uint8_t tried_count_ = 0;
  std::uint8_t interim_count_ = 0;
  HttpMethod method_ = HttpMethod::Get;
  TransportClass transport_class_ = TransportClass::Message;
  State state_ = State::Starting;
  Wait wait_ = Wait::Nothing;
  int status_ = 0;  // of the final response, ours or the backend's
  bool client_keep_alive_ = true;
  bool client_ends_ = false;  // the client said that this request is its last
  bool http10_client_ = false;
  bool replay_path_ = false;  // method, path and key allow a second delivery
  bool forwarded_ = false;    // counted in requests_total
  bool admitted_ = false;     // holds a place under admission-limit
  bool slot_held_ = false;
  bool connection_held_ = false;
  bool retry_taken_ = false;         // holds a place in the retry budget
  bool request_write_dead_ = false;  // the backend takes no more of the request
  bool upstream_keep_alive_ = false;
  bool backend_owes_continue_ = false;  // the client waits for a 100 before it sends its body
  bool keep_downstream_ = false;        // what the response head told the client
};

}  // namespace dlb::lb
