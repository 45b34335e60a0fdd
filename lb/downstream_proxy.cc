// The PROXY header in front of a client connection's TLS or requests: what a trusted peer says about whom it
// speaks for. It is looked at in the socket (MSG_PEEK) and taken out of it when it is whole, exactly, so that
// whatever reads next, TLS for one, finds its own first byte. A peer that says something else is closed
// without an answer: nobody knows yet what it speaks.
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <string_view>

#include "common/proxy_protocol.h"
#include "lb/downstream.h"
#include "lb/worker.h"

namespace dlb::lb {

// True when the header has been read and the connection goes on behind it.
bool Downstream::read_proxy_header() {
  WorkerMetrics& metrics = worker_.metrics();
  std::array<char, kMaxProxyHeaderBytes> bytes;
  ssize_t got = ::recv(transport_.fd(), bytes.data(), bytes.size(), MSG_PEEK | MSG_DONTWAIT);
  int err = got < 0 ? errno : 0;
  if (err == EAGAIN || err == EINTR) return false;
  if (got <= 0) {
    // A peer that only looks whether the port is open (a TCP check) is no failure.
    if (state_ == State::ReadingProxyHeader) metrics.proxy_headers_bad.add();
    close();
    return false;
  }
  if (state_ == State::Idle) enter(State::ReadingProxyHeader);
  const ProxyHeader header = parse_proxy_header({bytes.data(), static_cast<std::size_t>(got)});
  // The same bytes would be looked at for ever when no more can come.
  const bool cut = header.status == ProxyHeader::Status::NeedMore && transport_.peer_finished();
  if (header.status == ProxyHeader::Status::Bad || cut) {
    metrics.proxy_headers_bad.add();
    close();
    return false;
  }
  if (header.status == ProxyHeader::Status::NeedMore) return false;
  got = ::recv(transport_.fd(), bytes.data(), header.consumed, MSG_DONTWAIT);
  if (got != static_cast<ssize_t>(header.consumed)) {  // reset meanwhile
    metrics.proxy_headers_bad.add();
    close();
    return false;
  }
  metrics.client_bytes_in.add(header.consumed);
  if (header.local) {
    metrics.proxy_headers_local.add();
  } else {
    metrics.proxy_headers.add();
    know_client(PeerAddress(header.source));
  }
  awaits_proxy_header_ = false;
  enter(State::Idle);
  return true;
}

}  // namespace dlb::lb
