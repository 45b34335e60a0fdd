// Downstream: one client connection between and during its exchanges. It reads request heads, starts an
// exchange for each, one at a time and in order (pipelined bytes wait in the kernel, or in one small block),
// and ends the connection so that the client can still read what it was sent, or hands it to a tunnel.
//
//   (PROXY header: Idle ──first byte──▶ ReadingProxyHeader ──whole──▶ Idle, once; see downstream_proxy.cc)
//   (TLS: Idle ──first byte──▶ Handshaking ──done──▶ Idle, once; see downstream_tls.cc)
//   Idle ──first byte──▶ ReadingHead ──head──▶ Exchanging ──response sent──▶ Idle | Lingering | Closed
//     └─ idle or silent too long: closed       │ bad head: our own answer, as an exchange
//        (draining: after kLingerTimeout)      │
//   Lingering: our side is shut, what still comes is dropped, until the client's FIN or the deadline ──▶
//   Closed
//
// An idle one holds no buffer. Everything runs on its worker's thread.
#pragma once

#include <cstdint>

#include "common/buffer.h"
#include "common/event_loop.h"
#include "common/handle.h"
#include "common/http_parser.h"
#include "common/timer_list.h"
#include "common/transport.h"
#include "lb/peer_address.h"

namespace dlb::lb {

class Exchange;
class Worker;

class Downstream final : public EventHandler, public TimerHandler {
 public:
  enum class State : std::uint8_t {
    Idle,                // no byte of a request is here; never used yet or between two requests
    ReadingProxyHeader,  // part of it is here; client-header-timeout runs from the first byte
    Handshaking,         // TLS: client-header-timeout runs from the first byte
    ReadingHead,         // part of a head is here; client-header-timeout runs from its first byte
    Exchanging,          // one exchange runs
    Lingering,           // answered before the request was read: dropping the rest
    Closed,
  };

  // What comes in front of the requests, in this order.
  struct Before {
    bool proxy_header = false;
    bool tls = false;
    bool late = false;  // taken out of the backlog when accepting ended
  };
  Downstream(Worker& worker, Fd fd, const Address& peer, Before before, Handle<Downstream> self);
  Downstream(const Downstream&) = delete;
  Downstream& operator=(const Downstream&) = delete;

  Result<void> attach();
  void on_events(std::uint32_t events) override;  // May close.
  void on_timer(Timer& timer) override;           // May close.

  enum class After : std::uint8_t {
    KeepAlive,  // the whole request was read, and both sides keep the connection
    Close,      // the client sends no more
    Linger,     // it may still be sending: an input that nobody reads must not destroy what it was answered
  };
  // The exchange is over and gone. `leftover` are bytes behind the request that were read with its body. May
  // close.
  void exchange_done(After after, std::string_view leftover);
  // The running exchange ends here, and so does HTTP on this connection: the socket, its place under
  // client-max-connections and `unread`, bytes behind the request, go to a tunnel.
  Transport hand_over(Buffer& unread);
  // Ends the connection at once; a running exchange is abandoned. Idempotent.
  void close();
  // Drain: closes it when nothing is going on; a request that has arrived already is served, and an answer
  // that is still on its way is not reset by one that comes later.
  void close_if_idle();
  // The end of a drain: a request that no answer has begun for gets one (true); an answer that is on its way
  // has a moment to arrive; everything else is closed. May close.
  bool dismiss();

  // From the worker's HandshakeQueue: goes on with the handshake. May close.
  void handshake_step();

  Transport& transport() { return transport_; }
  bool secure() const { return secure_; }
  const PeerAddress& peer() const { return peer_; }  // the client, by the PROXY header where there is one
  // Looks again whether trusted-proxies has it: the list may be another one.
  void judge_trust();
  bool trusted() const { return trusted_; }  // peer() is one of trusted-proxies
  State state() const { return state_; }
  bool used() const { return used_; }  // has sent a byte
  bool late() const { return late_; }  // see Before
  Handle<Downstream> self() const { return self_; }

 private:
  void enter(State state);
  void read_heads();
  bool read_proxy_header();
  void know_client(const PeerAddress& peer);
  void linger();
  void begin_handshake();
  void queue_handshake();
  bool grow_head_block();
  void start_exchange(const ParseResult& head);
  void answer_bad_head(const ParseResult& result);
  void drop_input();

  Worker& worker_;
  Transport transport_;
  Timer timer_;
  Buffer in_;  // bytes of heads, held only while there are any
  Exchange* exchange_ = nullptr;
  Handle<Downstream> self_;
  PeerAddress peer_;
  std::uint32_t scanned_ = 0;  // of in_, by the parser: not further than what it is sure of
  std::uint32_t seen_ = 0;     // of in_, shown to the parser without a complete head
  std::uint32_t lingered_bytes_ = 0;
  State state_ = State::Closed;  // entered for good in attach()
  bool used_ = false;            // has sent a byte
  bool trusted_ = false;
  bool awaits_proxy_header_;
  const bool secure_;  // came by a TLS listener
  bool handshake_queued_ = false;
  const bool late_;
};

}  // namespace dlb::lb
