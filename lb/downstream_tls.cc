// The TLS handshake in front of a client connection's requests: begun by its first byte, so that a client
// that says nothing costs no session; ended by its success, its failure or its deadline.
#include <sys/socket.h>

#include <cerrno>

#include "lb/downstream.h"
#include "lb/worker.h"

namespace dlb::lb {
namespace {

// What a request line may begin with; a TLS record begins with 22.
bool looks_like_http(char first) { return first >= 'A' && first <= 'Z'; }

}  // namespace

void Downstream::begin_handshake() {
  char first = 0;
  const ssize_t got = ::recv(transport_.fd(), &first, 1, MSG_PEEK | MSG_DONTWAIT);
  const int err = got < 0 ? errno : 0;
  if (err == EAGAIN || err == EINTR) return;
  if (got <= 0) return close();
  WorkerMetrics& metrics = worker_.metrics();
  if (looks_like_http(first)) {
    metrics.tls_plain_http.add();
    ParseResult plain;
    plain.http_status = 400;
    plain.reason = "this is a plain HTTP request on a TLS port: use https";
    return answer_bad_head(plain);
  }
  const auto context = worker_.shared().certificates->current();
  if (!context || !transport_.start_tls(*context)) {
    metrics.tls_failed_memory.add();
    return close();
  }
  enter(State::Handshaking);
  queue_handshake();
}

void Downstream::queue_handshake() {
  if (handshake_queued_) return;
  handshake_queued_ = true;
  worker_.handshakes().join(self_);
}

void Downstream::handshake_step() {
  handshake_queued_ = false;
  if (state_ != State::Handshaking) return;
  WorkerMetrics& metrics = worker_.metrics();
  const IoResult result = transport_.handshake();
  switch (result.status) {
    case IoStatus::WouldBlock:
      return;
    case IoStatus::Eof:
      metrics.tls_failed_left.add();
      return close();
    case IoStatus::Error:
      (result.err == EPROTO ? metrics.tls_failed_protocol : metrics.tls_failed_left).add();
      return close();
    case IoStatus::Ok:
      break;
  }
  const TlsSession& session = *transport_.tls();
  (session.version() == TlsVersion::Tls13 ? metrics.tls_handshakes_13 : metrics.tls_handshakes_12).add();
  if (session.resumed()) metrics.tls_resumed.add();
  enter(State::Idle);
  if (transport_.read_ready()) read_heads();  // a request that came with the last flight brings no edge
}

}  // namespace dlb::lb
