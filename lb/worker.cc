#include "lb/worker.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace dlb::lb {
namespace {

// Batches of clients that are taken out of the backlog at the end.
constexpr int kLastAccepts = 64;
constexpr std::size_t kMailboxCapacity = 16 * 1024;
// What a socket gets instead of the kernel's tuning when socket memory is short.
constexpr std::size_t kSmallSocketBuffer = 16 * 1024;
constexpr std::size_t kPipeBytes = 256 * 1024;
constexpr std::size_t kMaxPipes = 128;
constexpr std::size_t kCachedPipes = 16;
constexpr std::uint64_t bit(std::uint32_t worker) { return std::uint64_t{1} << worker; }

}  // namespace

Worker::Worker(Shared& shared, std::uint32_t index, std::uint64_t seed)
    : shared_(shared),
      index_(index),
      configuration_(shared.configuration.current()),
      configured_(configuration_->serial),
      mailbox_(loop_, *this, kMailboxCapacity),
      metrics_(static_cast<std::size_t>(std::max<std::int64_t>(1, options().workers))),
      timers_(loop_, options()),
      blocks_(options()),
      pipes_(kPipeBytes, kMaxPipes, kCachedPipes),
      rng_(seed),
      router_(options(), backends(), seed ^ 0x9e3779b97f4a7c15U),
      pool_(backends().size(), static_cast<std::size_t>(options().proxy_max_idle),
            static_cast<std::size_t>(options().proxy_max_idle_per_host)),
      line_(router_, shared.waiting, *this, backends().size()),
      upstreams_(0),
      exchanges_(0),
      downstreams_(0),
      tunnels_(0),
      event_stream_(loop_, shared.pages, shared.configuration, shared.events,
                    [this](std::uint64_t bytes) { event_reader_gone(bytes); }) {
  set_capacities();
  loop_.add_turn_end_hook(*this);
}

Worker::~Worker() {
  cutting_ = true;
  downstreams_.for_each([](Downstream& one) { one.close(); });
  tunnels_.for_each([](Tunnel& one) { one.close(); });
  event_stream_.close_all();
  pool_.close_all();
  on_turn_end();
  loop_.remove_turn_end_hook(*this);
}

// --- slots

// Who gets a freed slot: a worker with waiters, in turn, this one included; nobody waits: the counter. What
// is freed by cutting goes to nobody: those who wait are refused as well.
void Worker::slot_freed(std::uint32_t backend) {
  if (shared_.waiting_workers.load(std::memory_order_seq_cst) != 0 && !cutting_) {
    if (hand_to_other_worker({WorkerMail::Kind::Grant, backend})) return;
    if (line_.waiting_for_slot() > granted_.size()) {
      granted_.push_back(backend);
      return;
    }
  }
  give_back_slot(backend);
}

void Worker::give_back_slot(std::uint32_t backend) {
  router_.release_slot(backend);
  wake_waiters(backend);
}

void Worker::connection_freed(std::uint32_t backend, TransportClass transport) {
  router_.release_connection(backend, transport);
  // A message frees its slot right after, which serves the queue. A feed's connection is freed alone.
  if (transport == TransportClass::Feed) wake_waiters(backend);
}

// The look at the waiters after something was given back. It is a read-modify-write, as setting a waiter's
// bit is: the two are ordered, so either this one sees the bit, or the waiter's own look at the slots, which
// comes after its bit, sees what was given back. (A fence would do the same; ThreadSanitizer knows none.)
void Worker::wake_waiters(std::uint32_t backend) {
  if (shared_.waiting_workers.fetch_or(0, std::memory_order_acq_rel) == 0 || cutting_) return;
  if (line_.waiting_for_slot() != 0) queue_retry_ = true;
  hand_to_other_worker({WorkerMail::Kind::Retry, backend});
}

// Slots that came to this worker go to its waiting exchanges; those that nobody can use go back. Serving may
// free more.
void Worker::settle_slots() {
  while (!granted_.empty() || queue_retry_) {
    if (!granted_.empty()) {
      const std::uint32_t backend = granted_.back();
      granted_.pop_back();
      if (!line_.serve_with(backend, loop_.now())) give_back_slot(backend);
      continue;
    }
    queue_retry_ = false;
    line_.serve(loop_.now());
  }
  line_.serve_retries(metrics_.requests_in_progress.get());
}

// Posts to the next waiting worker after the one that was served last. False: it is our turn, or none other
// waits.
bool Worker::hand_to_other_worker(WorkerMail mail) {
  const std::uint64_t waiting = shared_.waiting_workers.load(std::memory_order_seq_cst);
  const auto count = static_cast<std::uint32_t>(shared_.workers.size());
  if ((waiting & ~bit(index_)) == 0 || count < 2) return false;
  const std::uint32_t start = shared_.grant_rotation.fetch_add(1, std::memory_order_relaxed);
  for (std::uint32_t step = 0; step < count; ++step) {
    const std::uint32_t candidate = (start + step) % count;
    if ((waiting & bit(candidate)) == 0) continue;
    if (candidate == index_) {
      if (mail.kind == WorkerMail::Kind::Grant) return false;
      continue;
    }
    return shared_.workers[candidate]->post(mail);
  }
  return false;
}

bool Worker::wait_for_slot(Exchange& exchange) {
  if (!line_.join_for_slot(exchange, static_cast<std::uint32_t>(options().backend_queue_max), loop_.now())) {
    metrics_.queue_full.add();
    return false;
  }
  metrics_.queued.add();
  // Once more after the bit is set: a slot freed in between has found no waiter and gone back to the counter.
  // The head gets it, whoever that is.
  line_.serve(loop_.now());
  return true;
}

bool Worker::wait_for_retry(Exchange& exchange, std::uint32_t failed_backend) {
  return line_.join_for_retry(exchange, failed_backend, backends(),
                              static_cast<std::uint32_t>(options().backend_queue_max), loop_.now());
}

void Worker::on_line_changed() {
  metrics_.queue_waiting.set(line_.waiting_for_slot());
  if (line_.waiting_for_slot() == 0) {
    shared_.waiting_workers.fetch_and(~bit(index_), std::memory_order_seq_cst);
  } else {
    shared_.waiting_workers.fetch_or(bit(index_), std::memory_order_seq_cst);
  }
}

// --- events

// Closes the connection that has idled longest between two requests, else the one that has been silent
// longest from its start, if for client-new-timeout at least.
bool Worker::reclaim_client() {
  reclaiming_ = true;
  const bool reclaimed =
      timers_.client_idle.expire_oldest() || timers_.client_new.expire_oldest(options().client_new_timeout);
  reclaiming_ = false;
  if (reclaimed) metrics_.client_reclaimed.add();
  return reclaimed;
}

// Mails the worker with the most idle connections. False: none has any.
bool Worker::ask_others_to_reclaim() {
  Worker* best = nullptr;
  std::uint64_t most = 0;
  for (Worker* worker : shared_.workers) {
    const std::uint64_t idle = worker == this ? 0 : worker->metrics_.client_idle.get();
    if (idle <= most) continue;
    most = idle;
    best = worker;
  }
  return best != nullptr && best->post({WorkerMail::Kind::ReclaimClient, 0});
}

bool Worker::admit_connection() {
  const std::uint32_t burst = shared_.memory.clear.load(std::memory_order_relaxed)
                                  ? shared_.client_burst.load(std::memory_order_relaxed)
                                  : 0;
  const std::uint32_t cap = shared_.client_cap.load(std::memory_order_relaxed) + burst;
  if (shared_.clients.try_reserve(cap)) return true;
  // At the cap an idle one of ours makes room, else one of another worker's.
  if (reclaim_client() && shared_.clients.try_reserve(cap)) return true;
  if (shared_.clients.taken() < cap + kReclaimOvershoot && ask_others_to_reclaim() &&
      shared_.clients.try_reserve(cap + kReclaimOvershoot)) {
    return true;
  }
  metrics_.client_refused.add();
  return false;
}

void Worker::on_accept(const Listener& listener, Fd fd, const Address& peer) {
  const bool http = listener.kind == ListenerKind::Http || listener.kind == ListenerKind::Https;
  const bool proxied = http && options().accept_proxy_protocol;
  if (proxied && !options().trusted_networks.contains(PeerAddress(peer))) {
    metrics_.proxy_untrusted.add();
    return;
  }
  if (!admit_connection()) return;
  metrics_.client_accepted.add();
  if (shared_.memory.small_buffers.load(std::memory_order_relaxed)) {
    set_socket_buffers(fd.get(),
                       socket_buffers(static_cast<std::size_t>(options().socket_read_buffer_bytes.bytes),
                                      static_cast<std::size_t>(options().socket_write_buffer_bytes.bytes)));
  }
  if (!http) return accept_tunnel(listener, std::move(fd), peer);
  const Downstream::Before before{
      .proxy_header = proxied, .tls = listener.kind == ListenerKind::Https, .late = stopped_accepting_};
  Downstream* downstream = downstreams_.create(*this, std::move(fd), peer, before);
  if (downstream == nullptr) {
    shared_.clients.release();
    metrics_.client_refused.add();
    return;
  }
  if (!downstream->attach()) {
    metrics_.client_accept_errors.add();
    shared_.clients.release();
    downstreams_.retire(downstream->self());
  }
}

SocketBuffers Worker::socket_buffers(std::size_t read_bytes, std::size_t write_bytes) const {
  const bool small = shared_.memory.small_buffers.load(std::memory_order_relaxed);
  return {read_bytes == 0 && small ? kSmallSocketBuffer : read_bytes,
          write_bytes == 0 && small ? kSmallSocketBuffer : write_bytes};
}

// Closes what idles and gives back what it held. New requests are refused where they start.
void Worker::shed() {
  downstreams_.for_each([](Downstream& one) {
    if (one.used()) one.close_if_idle();  // who has just come gets an answer
  });
  pool_.close_all();
  blocks_.trim();
  pipes_.trim();
}

void Worker::accept_tunnel(const Listener& listener, Fd fd, const Address& peer) {
  Tunnel* tunnel = tunnels_.create(*this);
  if (tunnel != nullptr) return tunnel->accept(std::move(fd), peer, configuration_->pools[listener.pool]);
  shared_.clients.release();
  metrics_.client_refused.add();
}

void Worker::event_reader_gone(std::uint64_t bytes) {
  metrics_.client_active.sub();
  metrics_.client_bytes_out.add(bytes);
  shared_.clients.release();
}

void Worker::note_client_limit() {
  metrics_.client_limit.set(shared_.client_cap.load(std::memory_order_relaxed) +
                            shared_.client_burst.load(std::memory_order_relaxed));
}

void Worker::start_accepting() {
  if (draining_) return;
  note_client_limit();
  for (const Listener& listener : shared_.listeners) {
    acceptors_.push_back(std::make_unique<ListenerAcceptor>(loop_, listener, *this));
  }
}

// Who waits in a backlog was not refused: it is taken in. The last worker closes the listeners, so that
// whoever comes later is refused at once instead of waiting for nobody.
void Worker::stop_accepting() {
  if (std::exchange(stopped_accepting_, true)) return;
  event_stream_.end();
  for (const auto& acceptor : acceptors_) {
    acceptor->stop_watching();  // first: whoever comes behind the last look wakes another process, if there
                                // is one
    for (int i = 0; i < kLastAccepts && acceptor->accept_batch(); ++i) continue;
  }
  acceptors_.clear();
  if (shared_.workers_not_accepting.fetch_add(1) + 1 != shared_.workers.size()) return;
  for (Listener& listener : shared_.listeners) listener.fd.reset();
}

void Worker::on_mail(WorkerMail mail) {
  switch (mail.kind) {
    case WorkerMail::Kind::Grant:
      granted_.push_back(mail.backend);
      return;
    case WorkerMail::Kind::Retry:
      queue_retry_ = true;
      return;
    case WorkerMail::Kind::BackendOut:
      pool_.close_idle(mail.backend);
      queue_retry_ = true;  // who waited for it rather than for one that had failed it
      return;
    case WorkerMail::Kind::ReclaimClient:
      reclaim_client();
      return;
    case WorkerMail::Kind::Shed:
      return shed();
    case WorkerMail::Kind::Configure:
      return apply(shared_.configuration.current());
    case WorkerMail::Kind::StartAccepting:
      return start_accepting();
    case WorkerMail::Kind::BeginDrain:
      draining_ = true;
      return;
    case WorkerMail::Kind::StopAccepting:
      draining_ = true;
      return stop_accepting();
    case WorkerMail::Kind::CloseIdle:
      downstreams_.for_each([](Downstream& one) {
        if (!one.late()) one.close_if_idle();
      });
      return;
    case WorkerMail::Kind::CutAll:
      cutting_ = true;
      stop_accepting();
      dismiss_clients();
      downstreams_.for_each([](Downstream& one) { one.close(); });
      return close_tunnels(0);
    case WorkerMail::Kind::CutRequests:
      cutting_ = true;
      return dismiss_clients();
    case WorkerMail::Kind::KeepTunnels:
      return close_tunnels(mail.keep);
  }
}

void Worker::dismiss_clients() {
  std::uint64_t refused = 0;
  downstreams_.for_each([&](Downstream& one) { refused += one.dismiss() ? 1 : 0; });
  shared_.refused_at_end.fetch_add(refused, std::memory_order_relaxed);
}

void Worker::close_tunnels(std::uint64_t keep) {
  std::uint64_t open = open_tunnels();
  tunnels_.for_each([&](Tunnel& one) {
    if (open <= keep) return;
    one.close();
    --open;
  });
}

void Worker::on_turn_end() {
  handshakes_.run(*this);
  settle_slots();
  downstreams_.reap();
  exchanges_.reap();
  upstreams_.reap();
  tunnels_.reap();
  const EventLoopCounters& loop = loop_.counters();
  metrics_.loop_turns.set(loop.turns);
  metrics_.loop_events.set(loop.events);
  metrics_.loop_stale_events.set(loop.stale_events);
  metrics_.loop_turns_over_5ms.set(loop.turns_over_5ms);
  metrics_.loop_turn_ns_max.set(static_cast<std::uint64_t>(loop.turn_ns_max));
  metrics_.upstream_idle.set(pool_.idle());
}

}  // namespace dlb::lb
