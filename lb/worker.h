// Worker: one data thread: its loop, its connections and exchanges, its buffers, its pool and its queue.
// Nothing here is shared with other workers but what stands in Shared. It holds the parts together and
// decides who gets a freed slot; the HTTP work is downstream.cc's and exchange.cc's.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "common/buffer.h"
#include "common/event_loop.h"
#include "common/http_parser.h"
#include "common/mailbox.h"
#include "common/pipe_pool.h"
#include "common/rng.h"
#include "common/slab.h"
#include "common/socket.h"
#include "common/timer_list.h"
#include "lb/downstream.h"
#include "lb/event_stream.h"
#include "lb/exchange.h"
#include "lb/handshake_queue.h"
#include "lb/listener.h"
#include "lb/metrics.h"
#include "lb/router.h"
#include "lb/shared.h"
#include "lb/tunnel.h"
#include "lb/upstream.h"
#include "lb/upstream_pool.h"
#include "lb/waiting_line.h"
#include "lb/worker_blocks.h"

namespace dlb::lb {

// One class of FIFO lists per timeout: what waits, and what happens at the end, stands in lb/README.md.
struct WorkerTimers {
  WorkerTimers(EventLoop& loop, const Options& options);
  void apply(const Options& options);

  TimerClass client_new, client_idle, client_header, client_body, client_write, client_linger;
  TimerClass client_look, client_tick;  // how the client gets on with its response: see exchange_pace.cc
  TimerClass client_rate;
  TimerClass queue, connect, response_head, response_body, upstream_idle, tunnel;
};

class Worker final : public ListenerHandler,
                     public MailboxHandler<WorkerMail>,
                     public TurnEndHook,
                     public WaitingLine::Observer {
 public:
  // Connections over the cap that a worker admits while another one closes an idle one for it.
  static constexpr std::uint32_t kReclaimOvershoot = 32;
  // The first look at how a client gets on comes after this long at most.
  static constexpr Duration kFirstLook = std::chrono::milliseconds(100);
  static constexpr int kLooks = 8;  // in client-write-timeout
  // How long a connection lingers for the client to take an answer that came before its request was read.
  static constexpr Duration kLingerTimeout = std::chrono::seconds(2);

  Worker(Shared& shared, std::uint32_t index, std::uint64_t seed);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker();

  void run() { loop_.run(); }
  EventLoop& loop() { return loop_; }
  // Any thread. A full mailbox (never seen: a mail per slot and worker at most) drops the mail.
  bool post(WorkerMail mail) { return mailbox_.post(mail); }
  // Tunnels, and exchanges still running; any thread.
  std::uint64_t open_tunnels() const { return metrics_.client_tunnels.get(); }
  std::uint64_t open_exchanges() const { return metrics_.requests_in_progress.get(); }

  // Of the configuration that this worker has taken over; another one may be in place in the next turn.
  const Options& options() const { return *configuration_->options; }
  const BackendSet& backends() const { return configuration_->backends; }
  // Any thread: the serial of that configuration.
  std::uint64_t configured() const { return configured_.load(std::memory_order_acquire); }
  Shared& shared() { return shared_; }
  WorkerMetrics& metrics() { return metrics_; }
  Router& router() { return router_; }
  RetryBudget& retry_budget() { return line_.retry_budget(); }
  UpstreamPool& pool() { return pool_; }
  PipePool& pipes() { return pipes_; }
  WorkerTimers& timers() { return timers_; }
  HeadParser& parser() { return parser_; }
  RequestHead& request_head() { return request_head_; }     // scratch: valid within one call
  ResponseHead& response_head() { return response_head_; }  // likewise
  HandshakeQueue& handshakes() { return handshakes_; }
  Slab<Downstream>& downstreams() { return downstreams_; }
  Slab<Exchange>& exchanges() { return exchanges_; }
  Slab<Upstream>& upstreams() { return upstreams_; }
  Slab<Tunnel>& tunnels() { return tunnels_; }
  // Who reads /lb/events: each holds a place under client-max-connections and counts as active.
  EventStream& event_stream() { return event_stream_; }
  Rng& rng() { return rng_; }
  bool draining() const { return draining_; }
  bool shedding() const { return shared_.memory.shedding.load(std::memory_order_relaxed); }
  // Sheds already, or socket memory is past half of its limit: nothing holds more than its block.
  bool memory_short() const {
    return shedding() || shared_.memory.small_buffers.load(std::memory_order_relaxed);
  }
  // Connections end with the response that is being made.
  bool ends_connections() const { return draining_ || shedding(); }
  // The buffers for a new socket (0: tuned by the kernel), with the options' fixed sizes.
  SocketBuffers socket_buffers(std::size_t read_bytes, std::size_t write_bytes) const;
  bool cutting() const { return cutting_; }        // what ends now is ended by us
  bool reclaiming() const { return reclaiming_; }  // a connection is closed to make room, not for its age

  Buffer acquire_block(std::size_t bytes) { return blocks_.acquire(bytes); }
  // A block for what the access log keeps of a request.
  Buffer acquire_access_block() { return blocks_.access().acquire(); }
  Buffer acquire_io_block() { return blocks_.io().acquire(); }
  Buffer acquire_body_block(TransportClass transport) { return blocks_.acquire_body(transport); }
  BufferPool& io_blocks() { return blocks_.io(); }
  std::size_t io_block_bytes() { return blocks_.io().block_bytes(); }
  const HeadLimits& request_limits() const { return request_limits_; }
  const HeadLimits& response_limits() const { return response_limits_; }

  // --- slots
  // A slot of `backend` is no longer needed: it goes, still reserved, to the exchange or worker that waits
  // for one, else back to the counter. Waiting exchanges of this worker get theirs at the end of the turn,
  // not inside the call: a row of failing ones must not nest.
  void slot_freed(std::uint32_t backend);
  // A connection of the transport class is no longer needed.
  void connection_freed(std::uint32_t backend, TransportClass transport);
  // Puts an exchange into the queue. False: backend-queue-max wait already. It may have got its slot when
  // this returns.
  bool wait_for_slot(Exchange& exchange);
  // Puts an exchange into the line for the retry budget. False: it is to fail now (waiting_line.h).
  bool wait_for_retry(Exchange& exchange, std::uint32_t failed_backend);
  void leave_queue(Exchange& exchange) { line_.leave(exchange); }
  // A backend's side of an exchange has failed.
  void note_failure(std::uint32_t backend) { line_.note_failure(backend, loop_.now()); }

  void on_accept(const Listener& listener, Fd fd, const Address& peer) override;
  void on_mail(WorkerMail mail) override;
  void on_turn_end() override;

 private:
  void settle_slots();
  void give_back_slot(std::uint32_t backend);
  void wake_waiters(std::uint32_t backend);
  void on_line_changed() override;
  bool hand_to_other_worker(WorkerMail mail);
  bool admit_connection();
  bool reclaim_client();
  bool ask_others_to_reclaim();
  void accept_tunnel(const Listener& listener, Fd fd, const Address& peer);
  void start_accepting();
  void stop_accepting();
  void shed();
  void dismiss_clients();
  void close_tunnels(std::uint64_t keep);
  void set_capacities();
  void note_client_limit();
  void event_reader_gone(std::uint64_t bytes);

  void apply(std::shared_ptr<const Configuration> next);  // worker_configure.cc

  Shared& shared_;
  const std::uint32_t index_;
  std::shared_ptr<const Configuration> configuration_;
  std::atomic<std::uint64_t> configured_;
  EventLoop loop_;
  Mailbox<WorkerMail> mailbox_;
  WorkerMetrics metrics_;
  WorkerTimers timers_;
  WorkerBlocks blocks_;
  PipePool pipes_;
  HeadLimits request_limits_;
  HeadLimits response_limits_;
  HeadParser parser_;
  RequestHead request_head_;
  ResponseHead response_head_;
  Rng rng_;
  Router router_;
  UpstreamPool pool_;
  WaitingLine line_;
  HandshakeQueue handshakes_;
  Slab<Upstream> upstreams_;
  Slab<Exchange> exchanges_;
  Slab<Downstream> downstreams_;
  Slab<Tunnel> tunnels_;
  EventStream event_stream_;
  // Slots, still reserved, for our queue; settled at the end of the turn.
  std::vector<std::uint32_t> granted_;
  bool queue_retry_ = false;                                  // likewise: try the heads again
  std::vector<std::unique_ptr<ListenerAcceptor>> acceptors_;  // from StartAccepting to StopAccepting
  bool draining_ = false;
  bool cutting_ = false;
  bool stopped_accepting_ = false;
  bool reclaiming_ = false;
};

}  // namespace dlb::lb
