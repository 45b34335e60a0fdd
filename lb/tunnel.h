// Tunnel: a client connection and a backend connection joined byte by byte: after a 101 (Upgrade), or from
// the start (the layer-4 listeners: [[tcp]], wss-listen). It owns both sockets, the client's place under
// client-max-connections and the places in the gauges of its backend and pool; in-flight slots and connection
// limits of requests it does not touch: those count work, not open lines.
//
//   accept ──▶ Connecting ──connected──▶ Open ──one side's FIN passed on, or a side reset──▶ HalfClosed ──▶
//   Closed 101 ─────────────────────────────────▲ Connecting: a failed connect moves on to the next backend
//   ──none left──▶ Refusing ──▶ Closed
//
// Deadlines: Connecting connect-timeout, for each backend; Open tunnel-timeout without a byte either way;
// HalfClosed client-write-timeout without progress; Refusing Worker::kLingerTimeout.
// Ends are passed on as they were: a FIN as a FIN behind the last byte, so that the other direction goes on;
// a reset as a reset, after what had arrived before it. One worker's thread. How layer-4 connections begin:
// tunnel_connect.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "common/address.h"
#include "common/buffer.h"
#include "common/event_loop.h"
#include "common/handle.h"
#include "common/timer_list.h"
#include "common/transport.h"
#include "lb/access_log.h"
#include "lb/backend_set.h"
#include "lb/tunnel_pool.h"
#include "lb/tunnel_relay.h"

namespace dlb::lb {

class Worker;

class Tunnel final : public TimerHandler {
 public:
  enum class State : std::uint8_t {
    Starting,
    Connecting,  // nothing is read from the client yet
    Open,        // both directions may move
    HalfClosed,  // one direction has ended: the rest is bounded
    Refusing,    // our side is shut, what still comes is dropped: a RST would look like a failure
    Closed,
  };

  Tunnel(Worker& worker, Handle<Tunnel> self);
  Tunnel(const Tunnel&) = delete;
  Tunnel& operator=(const Tunnel&) = delete;
  ~Tunnel();

  // What goes first, all of it read already or written by us.
  struct Firsts {
    Buffer head;             // to the client: the 101
    Buffer from_upstream;    // to the client: what the backend sent behind it
    Buffer from_downstream;  // to the backend: what the client sent behind its request
  };
  // Joins a client, whose place under client-max-connections is the tunnel's from now on, with a connection
  // to `backend`. May close.
  void join(Transport downstream, Transport upstream, Backend& backend, Firsts firsts);

  // Begins for a client of a layer-4 listener, whose place under client-max-connections is the tunnel's from
  // now on. May close.
  void accept(Fd fd, const Address& peer, std::shared_ptr<const TunnelPool> pool);

  // Before join(): it is the tunnel that writes the request's line.
  void log_as(AccessRecord record) { access_ = std::move(record); }

  void on_timer(Timer& timer) override;  // May close.
  // Ends both connections at once. `who`: see EndCode. Idempotent.
  void close(char who = 'L');

  State state() const { return state_; }
  Handle<Tunnel> self() const { return self_; }

 private:
  struct Side final : EventHandler {
    explicit Side(Tunnel& owner) : tunnel(owner) {}
    void on_events(std::uint32_t events) override { tunnel.on_side_events(*this, events); }

    Tunnel& tunnel;
    Transport transport;
    bool reset = false;  // RST, or a write that failed
  };

  // --- beginnings of layer 4 (tunnel_connect.cc)
  void connect_next();
  int start_connect();
  void on_connect_events();
  void connect_failed();
  void leave_target();
  void on_connected();
  void refuse();
  void drop_input();

  // --- moving bytes (tunnel.cc)
  void on_side_events(Side& side, std::uint32_t events);
  void pump();
  void count(const TunnelRelay::Pumped& up, const TunnelRelay::Pumped& down);
  void note_reset(Side& side);
  bool note_resets();
  bool last_words_wait() const;
  void enter(State state);
  void arm_deadline();

  Worker& worker_;
  Backend* backend_ = nullptr;              // after a 101: has one in its tunnel gauge
  std::shared_ptr<const TunnelPool> pool_;  // of layer 4
  TunnelBackend* target_ = nullptr;         // likewise: has one in its gauge
  std::uint64_t tried_ = 0;                 // bit per backend of the pool
  AccessRecord access_;
  Timer timer_;
  Handle<Tunnel> self_;
  Side downstream_;
  Side upstream_;
  TunnelRelay to_upstream_;
  TunnelRelay to_downstream_;
  TunnelKind kind_ = TunnelKind::Upgrade;
  State state_ = State::Starting;
  char ended_by_ = '-';        // the side that was reset first: C or S
  bool holds_client_ = false;  // a place under client-max-connections
  bool holds_pool_ = false;    // one under the pool's own limit
};

}  // namespace dlb::lb
