#include "lb/tunnel.h"

#include <utility>

#include "common/check.h"
#include "common/socket.h"
#include "lb/worker.h"

namespace dlb::lb {

Tunnel::Tunnel(Worker& worker, Handle<Tunnel> self)
    : worker_(worker), timer_(*this), self_(self), downstream_(*this), upstream_(*this) {
  worker_.metrics().client_tunnels.add();
}

Tunnel::~Tunnel() { DLB_CHECK(state_ == State::Closed); }

void Tunnel::join(Transport downstream, Transport upstream, Backend& backend, Firsts firsts) {
  backend_ = &backend;
  backend_->tunnels.try_reserve(0);
  holds_client_ = true;
  worker_.metrics().tunnels_active(kind_).add();
  worker_.metrics().tunnels_opened(kind_).add();
  downstream_.transport = std::move(downstream);
  upstream_.transport = std::move(upstream);
  downstream_.transport.rebind(worker_.loop(), downstream_);
  upstream_.transport.rebind(worker_.loop(), upstream_);
  access_.bytes_in += firsts.from_downstream.size();
  to_downstream_.prepend(std::move(firsts.head));
  to_downstream_.prepend(std::move(firsts.from_upstream));
  to_upstream_.prepend(std::move(firsts.from_downstream));
  enter(State::Open);
  pump();
}

void Tunnel::enter(State state) {
  state_ = state;
  arm_deadline();
}

void Tunnel::arm_deadline() {
  WorkerTimers& timers = worker_.timers();
  switch (state_) {
    case State::Open:
      return timers.tunnel.arm(timer_);
    case State::HalfClosed:
      return timers.client_write.arm(timer_);
    case State::Connecting:
      return timers.connect.arm(timer_);
    case State::Refusing:
      return timers.client_linger.arm(timer_);
    case State::Starting:
    case State::Closed:
      return timer_.cancel();
  }
}

void Tunnel::on_side_events(Side& side, std::uint32_t events) {
  side.transport.note_events(events);
  switch (state_) {
    case State::Connecting:
      if (&side == &upstream_) return on_connect_events();
      if ((events & EPOLLERR) != 0) close();  // the client is gone; a FIN of it is passed on later
      return;
    case State::Open:
    case State::HalfClosed:
      if ((events & EPOLLERR) != 0) note_reset(side);
      return pump();
    case State::Refusing:
      return drop_input();
    case State::Starting:
    case State::Closed:
      return;
  }
}

// Both directions, until neither moves or the turn's budget is spent. May close.
void Tunnel::pump() {
  BufferPool& blocks = worker_.io_blocks();
  bool progress = false;
  bool more = false;
  do {
    const auto up = to_upstream_.pump(downstream_.transport, upstream_.transport, blocks);
    const auto down = to_downstream_.pump(upstream_.transport, downstream_.transport, blocks);
    count(up, down);
    progress = progress || up.progress || down.progress;
    more = up.more || down.more;
  } while (note_resets());

  if (to_upstream_.finished() && to_downstream_.finished() && !last_words_wait()) {
    if (downstream_.reset) set_reset_on_close(upstream_.transport.fd());
    if (upstream_.reset) set_reset_on_close(downstream_.transport.fd());
    return close(ended_by_);
  }
  if (more) worker_.loop().make_runnable(downstream_.transport.source());
  const bool ending =
      to_upstream_.finished() || to_downstream_.finished() || upstream_.reset || downstream_.reset;
  if (ending && state_ == State::Open) return enter(State::HalfClosed);
  if (progress) arm_deadline();
}

void Tunnel::note_reset(Side& side) {
  if (!downstream_.reset && !upstream_.reset) ended_by_ = &side == &downstream_ ? 'C' : 'S';
  side.reset = true;
}

// TLS: a close_notify that had no room yet, to a client that may still take it.
bool Tunnel::last_words_wait() const {
  return downstream_.transport.shutdown_waits() && !downstream_.reset && !to_downstream_.broken();
}

// What a reset of one side means for both directions: nothing can be delivered to it, and what it had sent is
// the last that goes the other way. True when that is news, so that the directions are to be looked at again.
bool Tunnel::note_resets() {
  bool news = false;
  const auto note = [&news, this](Side& side, TunnelRelay& from_it, TunnelRelay& to_it) {
    const bool source_reset = from_it.broken() && !from_it.sink_gone();
    if (!side.reset && !source_reset && !to_it.sink_gone()) return;
    note_reset(side);
    if (!to_it.finished()) {
      to_it.abandon();
      news = true;
    }
    if (!from_it.finished() && !from_it.broken()) {
      from_it.note_source_reset();
      side.transport.note_events(EPOLLERR);  // its last bytes, and its end, are to be read
      news = true;
    }
  };
  note(downstream_, to_upstream_, to_downstream_);
  note(upstream_, to_downstream_, to_upstream_);
  return news;
}

void Tunnel::count(const TunnelRelay::Pumped& up, const TunnelRelay::Pumped& down) {
  WorkerMetrics& metrics = worker_.metrics();
  access_.bytes_in += up.read;
  access_.bytes_out += down.written;
  if (up.read > 0) {
    metrics.client_bytes_in.add(up.read);
    metrics.tunnel_bytes_in.add(up.read);
  }
  if (down.written > 0) {
    metrics.client_bytes_out.add(down.written);
    metrics.tunnel_bytes_out.add(down.written);
  }
  if (down.read > 0) lb::count(backend_ ? backend_->counters.bytes_in : target_->bytes_in, down.read);
  if (up.written > 0) lb::count(backend_ ? backend_->counters.bytes_out : target_->bytes_out, up.written);
}

void Tunnel::on_timer(Timer&) {
  if (state_ == State::Connecting) {
    connect_failed();
    return connect_next();
  }
  if (state_ != State::Refusing) worker_.metrics().tunnel_timeouts.add();
  close();
}

void Tunnel::close(char who) {
  if (state_ == State::Closed) return;
  enter(State::Closed);
  WorkerMetrics& metrics = worker_.metrics();
  metrics.client_tunnels.sub();
  to_upstream_.abandon();
  to_downstream_.abandon();
  downstream_.transport.close(worker_.loop());
  upstream_.transport.close(worker_.loop());
  if (backend_ != nullptr) backend_->tunnels.release();
  if (target_ != nullptr) target_->active.release();
  if (holds_pool_) pool_->connections().release();
  if (holds_client_) {
    metrics.tunnels_active(kind_).sub();
    worker_.shared().clients.release();
  }
  if (access_.note.wanted()) {
    access_.end = {who, who == '-' ? '-' : 'T'};
    worker_.shared().access_log->write(access_, worker_.loop().now());
    access_.note = {};
  }
  worker_.tunnels().retire(self_);
}

}  // namespace dlb::lb
