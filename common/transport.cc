#include "common/transport.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>

#include "common/check.h"

namespace dlb {

Result<void> Transport::attach(EventLoop& loop, EventHandler& handler) {
  auto added = loop.add(fd_.get(), handler);
  if (!added) return added.error();
  source_ = *added;
  return {};
}

void Transport::close(EventLoop& loop) {
  if (!fd_) return;
  loop.remove(source_, fd_.get());
  source_ = {};
  tls_.reset();
  fd_.reset();
  read_ready_ = write_ready_ = false;
}

IoResult Transport::read(std::span<char> into) {
  if (!read_ready_ || into.empty()) return {};
  if (tls_) return tls_read(into);
  for (;;) {
    const ssize_t got = ::recv(fd_.get(), into.data(), into.size(), 0);
    if (got > 0) {
      const auto bytes = static_cast<std::size_t>(got);
      // A short read means that the queue was emptied, unless a FIN or RST still waits behind the data, or an
      // urgent mark inside them.
      if (bytes < into.size() && !peer_finished_ && !urgent_seen_) read_ready_ = false;
      return {IoStatus::Ok, 0, bytes};
    }
    if (got == 0) {
      peer_finished_ = true;
      read_ready_ = false;
      return {IoStatus::Eof, 0, 0};
    }
    const int err = errno;
    if (err == EINTR) continue;
    read_ready_ = false;
    if (err == EAGAIN) return {};
    peer_finished_ = hung_up_ = true;
    return {IoStatus::Error, err, 0};
  }
}

IoResult Transport::finish_write(ssize_t sent, int err, std::size_t wanted) {
  if (sent >= 0) {
    const auto bytes = static_cast<std::size_t>(sent);
    if (bytes < wanted) write_ready_ = false;
    return {IoStatus::Ok, 0, bytes};
  }
  write_ready_ = false;
  if (err == EAGAIN) return {};
  return {IoStatus::Error, err, 0};
}

IoResult Transport::write(std::span<const char> bytes) {
  if (!write_ready_ || bytes.empty()) return {};
  if (tls_) {
    const iovec part{const_cast<char*>(bytes.data()), bytes.size()};
    return tls_write(&part, 1);
  }
  ssize_t sent = 0;
  int err = 0;
  do {
    sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    err = sent < 0 ? errno : 0;
  } while (err == EINTR);
  return finish_write(sent, err, bytes.size());
}

IoResult Transport::writev(const iovec* parts, int count) {
  if (!write_ready_ || count == 0) return {};
  if (tls_) return tls_write(parts, count);
  std::size_t wanted = 0;
  for (int i = 0; i < count; ++i) wanted += parts[i].iov_len;
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts);
  message.msg_iovlen = static_cast<std::size_t>(count);
  ssize_t sent = 0;
  int err = 0;
  do {
    sent = ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL);
    err = sent < 0 ? errno : 0;
  } while (err == EINTR);
  return finish_write(sent, err, wanted);
}

IoResult Transport::splice_to(Pipe& pipe, std::size_t most) {
  if (!read_ready_ || most == 0) return {};
  DLB_CHECK(pipe.bytes() == 0);
  for (;;) {
    const ssize_t got =
        ::splice(fd_.get(), nullptr, pipe.write_end(), nullptr, most, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    if (got > 0) {
      // Short is the rule here, by the pipe's slots: only EAGAIN says that the socket is empty.
      const auto bytes = static_cast<std::size_t>(got);
      pipe.filled(bytes);
      return {IoStatus::Ok, 0, bytes};
    }
    if (got == 0) {
      peer_finished_ = true;
      read_ready_ = false;
      return {IoStatus::Eof, 0, 0};
    }
    const int err = errno;
    if (err == EINTR) continue;
    read_ready_ = false;
    if (err == EAGAIN) return {};
    peer_finished_ = hung_up_ = true;
    return {IoStatus::Error, err, 0};
  }
}

IoResult Transport::splice_from(Pipe& pipe, bool more) {
  if (!write_ready_ || pipe.bytes() == 0) return {};
  const std::size_t wanted = pipe.bytes();
  const unsigned flags = SPLICE_F_MOVE | SPLICE_F_NONBLOCK | (more ? SPLICE_F_MORE : 0U);
  ssize_t sent = 0;
  int err = 0;
  do {
    sent = ::splice(pipe.read_end(), nullptr, fd_.get(), nullptr, wanted, flags);
    err = sent < 0 ? errno : 0;
  } while (err == EINTR);
  const IoResult result = finish_write(sent, err, wanted);
  if (result.ok()) pipe.drained(result.bytes);
  return result;
}

void Transport::shutdown_write() {
  close_waits_ = tls_ && tls_->send_close().status == IoStatus::WouldBlock;
  if (!close_waits_) ::shutdown(fd_.get(), SHUT_WR);
}

// --- TLS

bool Transport::start_tls(const TlsContext& context) {
  tls_ = TlsSession::accept(context, fd_.get());
  if (tls_ && peer_finished_) tls_->note_finished();
  return tls_ != nullptr;
}

bool Transport::start_tls_client(const TlsContext& context, const std::string& host) {
  tls_ = TlsSession::connect(context, fd_.get(), host);
  if (tls_ && peer_finished_) tls_->note_finished();
  read_ready_ = true;  // the first step writes
  return tls_ != nullptr;
}

void Transport::note_tls_events(std::uint32_t events) {
  const bool in = (events & (EPOLLIN | EPOLLPRI | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
  const bool out = (events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0;
  if (in) tls_->note_readable();
  if (out) tls_->note_writable();
  if ((events & (EPOLLPRI | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) tls_->note_finished();
  if (out && tls_->read_wants_write()) read_ready_ = true;
  if (in && tls_->write_wants_read()) write_ready_ = true;
  if (out && close_waits_) shutdown_write();
}

IoResult Transport::handshake() {
  if (!read_ready_) return {};
  const IoResult result = tls_->handshake();
  if (!result.ok() || !tls_->may_have_input()) read_ready_ = false;
  return result;
}

IoResult Transport::tls_read(std::span<char> into) {
  const IoResult result = tls_->read(into);
  if (!result.ok() || !tls_->may_have_input()) read_ready_ = false;
  if (result.status == IoStatus::Eof) peer_finished_ = true;
  if (result.status == IoStatus::Error) peer_finished_ = hung_up_ = true;
  return result;
}

IoResult Transport::tls_write(const iovec* parts, int count) {
  const IoResult result = tls_->write(parts, count);
  if (!result.ok()) write_ready_ = false;
  return result;
}

}  // namespace dlb
