#include "common/tls_session.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>

namespace dlb {

// The socket below the records, as OpenSSL wants it: with the session's ready flags, and without SIGPIPE.
struct TlsSocketBio {
  static TlsSession& session(BIO* bio) { return *static_cast<TlsSession*>(BIO_get_data(bio)); }

  static int read(BIO* bio, char* into, int size) {
    TlsSession& s = session(bio);
    BIO_clear_retry_flags(bio);
    while (s.readable_) {
      const ssize_t got = ::recv(s.fd_, into, static_cast<std::size_t>(size), 0);
      if (got > 0) {
        // A short read means that the queue was emptied, unless a FIN or RST still waits behind the data.
        if (got < size && !s.finished_) s.readable_ = false;
        return static_cast<int>(got);
      }
      if (got == 0) {
        s.at_end_ = true;
        return 0;
      }
      const int err = errno;
      if (err == EINTR) continue;
      if (err != EAGAIN) return -1;
      s.readable_ = false;
    }
    BIO_set_retry_read(bio);
    return -1;
  }

  static int write(BIO* bio, const char* bytes, int size) {
    TlsSession& s = session(bio);
    BIO_clear_retry_flags(bio);
    while (s.writable_) {
      const ssize_t sent = ::send(s.fd_, bytes, static_cast<std::size_t>(size), MSG_NOSIGNAL);
      if (sent >= 0) {
        if (sent < size) s.writable_ = false;
        return static_cast<int>(sent);
      }
      const int err = errno;
      if (err == EINTR) continue;
      if (err != EAGAIN) return -1;
      s.writable_ = false;
    }
    BIO_set_retry_write(bio);
    return -1;
  }

  static long control(BIO* bio, int command, long, void*) {
    if (command == BIO_CTRL_FLUSH) return 1;
    if (command == BIO_CTRL_EOF) return session(bio).at_end_ ? 1 : 0;
    return 0;
  }

  // Made once, kept for the process's life. Null when memory is out.
  static const BIO_METHOD* method() {
    static const BIO_METHOD* const made = [] {
      BIO_METHOD* fresh = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "dlb socket");
      if (fresh == nullptr) return fresh;
      BIO_meth_set_read(fresh, read);
      BIO_meth_set_write(fresh, write);
      BIO_meth_set_ctrl(fresh, control);
      return fresh;
    }();
    return made;
  }
};

std::unique_ptr<TlsSession> TlsSession::make(const TlsContext& context, int fd) {
  const BIO_METHOD* const method = TlsSocketBio::method();
  SSL* const ssl = method != nullptr ? SSL_new(context.get()) : nullptr;
  if (ssl == nullptr) return nullptr;
  BIO* const bio = BIO_new(method);
  if (bio == nullptr) {
    SSL_free(ssl);
    return nullptr;
  }
  std::unique_ptr<TlsSession> session(new TlsSession(ssl, fd));
  BIO_set_data(bio, session.get());
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl, bio, bio);
  return session;
}

std::unique_ptr<TlsSession> TlsSession::accept(const TlsContext& context, int fd) {
  auto session = make(context, fd);
  if (session) SSL_set_accept_state(session->ssl_);
  return session;
}

std::unique_ptr<TlsSession> TlsSession::connect(const TlsContext& context, int fd, const std::string& host) {
  auto session = make(context, fd);
  if (!session) return nullptr;
  SSL* const ssl = session->ssl_;
  SSL_set_connect_state(ssl);
  // An address stands in the certificate as one, and is no server name.
  const bool is_address = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host.c_str()) == 1;
  if (!is_address &&
      (SSL_set_tlsext_host_name(ssl, host.c_str()) != 1 || SSL_set1_host(ssl, host.c_str()) != 1)) {
    return nullptr;
  }
  ERR_clear_error();
  return session;
}

TlsSession::~TlsSession() {
  SSL_free(ssl_);
  ERR_clear_error();
}

// What a call that did not succeed means. `own_want` is the direction that the call itself waits for; when
// it waits for the other one, *wants_other is set.
IoResult TlsSession::failed(int rc, bool* wants_other, int own_want) {
  const int err = errno;
  const int why = SSL_get_error(ssl_, rc);
  if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) {
    *wants_other = why != own_want;
    return {};
  }
  if (why == SSL_ERROR_ZERO_RETURN) return {IoStatus::Eof, 0, 0};
  broken_ = true;
  ERR_clear_error();
  if (why == SSL_ERROR_SYSCALL) return {IoStatus::Error, err != 0 ? err : ECONNRESET, 0};
  return {IoStatus::Error, EPROTO, 0};
}

IoResult TlsSession::handshake() {
  if (broken_) return {IoStatus::Error, EPROTO, 0};
  if (established_) return {IoStatus::Ok, 0, 0};
  errno = 0;
  const int rc = SSL_do_handshake(ssl_);
  if (rc == 1) {
    established_ = true;
    read_wants_write_ = false;
    return {IoStatus::Ok, 0, 0};
  }
  return failed(rc, &read_wants_write_, SSL_ERROR_WANT_READ);
}

IoResult TlsSession::read(std::span<char> into) {
  if (broken_) return {IoStatus::Error, EPROTO, 0};
  read_wants_write_ = false;
  errno = 0;
  std::size_t bytes = 0;
  const int rc = SSL_read_ex(ssl_, into.data(), into.size(), &bytes);
  if (rc == 1) return {IoStatus::Ok, 0, bytes};
  return failed(rc, &read_wants_write_, SSL_ERROR_WANT_READ);
}

IoResult TlsSession::write(const iovec* parts, int count) {
  if (broken_ || close_sent_) return {IoStatus::Error, EPIPE, 0};
  // Several parts become one record: a small head and the body behind it in one write.
  static thread_local std::array<char, kRecordBytes> scratch;
  const char* bytes = static_cast<const char*>(parts[0].iov_base);
  std::size_t size = std::min(parts[0].iov_len, kRecordBytes);
  if (count > 1 && size < kRecordBytes) {
    size = 0;
    for (int i = 0; i < count && size < kRecordBytes; ++i) {
      const std::size_t taken = std::min(parts[i].iov_len, kRecordBytes - size);
      std::memcpy(scratch.data() + size, parts[i].iov_base, taken);
      size += taken;
    }
    bytes = scratch.data();
  }
  write_wants_read_ = false;
  errno = 0;
  std::size_t sent = 0;
  const int rc = SSL_write_ex(ssl_, bytes, size, &sent);
  write_pending_ = rc != 1;
  if (rc == 1) return {IoStatus::Ok, 0, sent};
  return failed(rc, &write_wants_read_, SSL_ERROR_WANT_WRITE);
}

IoResult TlsSession::send_close() {
  if (broken_ || !established_ || write_pending_ || close_sent_) return {IoStatus::Ok, 0, 0};
  errno = 0;
  const int rc = SSL_shutdown(ssl_);
  if (rc >= 0) {
    close_sent_ = true;
    return {IoStatus::Ok, 0, 0};
  }
  bool wants_read = false;
  const IoResult result = failed(rc, &wants_read, SSL_ERROR_WANT_WRITE);
  if (result.status == IoStatus::WouldBlock && !wants_read) return result;
  close_sent_ = true;
  return {IoStatus::Ok, 0, 0};
}

bool TlsSession::may_have_input() const { return readable_ || SSL_has_pending(ssl_) == 1; }

std::string TlsSession::distrust() const {
  const long verdict = SSL_get_verify_result(ssl_);
  return verdict == X509_V_OK ? std::string() : X509_verify_cert_error_string(verdict);
}

std::int64_t TlsSession::peer_expires_at() const {
  const X509* const certificate = SSL_get0_peer_certificate(ssl_);
  std::tm when{};
  if (certificate == nullptr || ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &when) != 1) return 0;
  return ::timegm(&when);
}

TlsVersion TlsSession::version() const {
  return SSL_version(ssl_) == TLS1_3_VERSION ? TlsVersion::Tls13 : TlsVersion::Tls12;
}

bool TlsSession::resumed() const { return SSL_session_reused(ssl_) == 1; }

}  // namespace dlb
