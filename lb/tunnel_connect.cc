// How a layer-4 tunnel begins: the pool's limit, a backend, a connection to it, the next one when that fails,
// and a quiet end when none is left.
#include <array>
#include <cerrno>
#include <cstddef>
#include <utility>

#include "common/proxy_protocol.h"
#include "common/socket.h"
#include "lb/descriptors.h"
#include "lb/tunnel.h"
#include "lb/worker.h"

namespace dlb::lb {
namespace {

constexpr int kDropsPerTurn = 16;

}  // namespace

void Tunnel::accept(Fd fd, const Address& peer, std::shared_ptr<const TunnelPool> pool) {
  WorkerMetrics& metrics = worker_.metrics();
  pool_ = std::move(pool);
  kind_ = pool_->kind;
  holds_client_ = true;
  metrics.tunnels_active(kind_).add();
  const int client = fd.get();
  downstream_.transport = Transport(std::move(fd));
  if (!downstream_.transport.attach(worker_.loop(), downstream_)) {
    metrics.client_accept_errors.add();
    return close();
  }
  if (worker_.shedding()) {
    metrics.shed.add();
    return refuse();
  }
  if (!pool_->connections().try_reserve(pool_->max_connections)) {
    metrics.tunnels_over_limit.add();
    return refuse();
  }
  holds_pool_ = true;
  if (pool_->send_proxy_protocol) {
    std::array<char, kProxyV2WriteBytes> header;
    Buffer block = worker_.acquire_block(header.size());
    if (!block.valid()) return close();
    block.append({header.data(), write_proxy_v2(peer, local_address(client), header)});
    to_upstream_.prepend(std::move(block));
  }
  connect_next();
}

// Tries backends until a connect is on its way or done, or none is left.
void Tunnel::connect_next() {
  while (const auto index = pool_->pick(tried_, worker_.loop().now())) {
    tried_ |= std::uint64_t{1} << *index;
    target_ = pool_->backends[*index].get();
    const int err = start_connect();
    if (err == 0) return;
    if (is_own_shortage(err)) {  // no fault of the backend's, and the next would meet the same
      leave_target();
      break;
    }
    connect_failed();
  }
  worker_.metrics().tunnels_without_backend.add();
  refuse();
}

// The errno when it failed at once, else 0: then it may have connected already, and even have closed.
int Tunnel::start_connect() {
  const Options& options = worker_.options();
  bool in_progress = false;
  auto fd = connect_start(
      target_->address, &in_progress,
      worker_.socket_buffers(static_cast<std::size_t>(options.socket_read_buffer_bytes.bytes),
                             static_cast<std::size_t>(options.socket_write_buffer_bytes.bytes)));
  if (!fd) return fd.error().code;
  set_urgent_inline(fd->get());
  upstream_.transport = Transport(std::move(*fd), in_progress);
  if (!upstream_.transport.attach(worker_.loop(), upstream_)) return EMFILE;
  if (in_progress) {
    enter(State::Connecting);
  } else {
    on_connected();
  }
  return 0;
}

void Tunnel::on_connect_events() {
  Transport& transport = upstream_.transport;
  if (!transport.write_ready() && !transport.hung_up()) return;
  if (take_socket_error(transport.fd()) == 0) return on_connected();
  connect_failed();
  connect_next();
}

void Tunnel::connect_failed() {
  worker_.metrics().tunnel_connect_failures.add();
  lb::count(target_->connect_failures);
  leave_target();
}

void Tunnel::leave_target() {
  target_->active.release();
  target_ = nullptr;
  upstream_.transport.close(worker_.loop());
}

void Tunnel::on_connected() {
  worker_.metrics().tunnels_opened(kind_).add();
  lb::count(target_->opened);
  enter(State::Open);
  pump();
}

// Closing with unread input would send RST: shut our side, drop what comes until the client's FIN or the
// deadline.
void Tunnel::refuse() {
  downstream_.transport.shutdown_write();
  enter(State::Refusing);
  drop_input();
}

void Tunnel::drop_input() {
  Buffer sink = worker_.acquire_io_block();
  if (!sink.valid()) return close();
  for (int i = 0; i < kDropsPerTurn; ++i) {
    const IoResult got = downstream_.transport.read(sink.writable());
    if (got.status == IoStatus::WouldBlock) return;
    if (!got.ok()) return close();
  }
  worker_.loop().make_runnable(downstream_.transport.source());
}

}  // namespace dlb::lb
