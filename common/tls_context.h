// TlsContext: what the TLS connections of a listener have in common: certificate, key, protocol versions,
// ciphers, the keys of session tickets. Immutable and shared by all workers; a reload makes a new one, and
// sessions that run keep the one they began with.
//
// Settings: Mozilla's "intermediate" (TLS 1.2 and 1.3) without its finite-field DHE suites, which cost a
// server much for a client's small effort, and which no client since 2014 needs. Sessions are resumed by
// tickets only, sealed under keys of this object: any worker opens them, nothing is kept per client, and a
// reload renews the keys. No early data, no renegotiation, no compression.
//
// client() makes the other side's: peers are verified, by name too, unless told not to.
//
// Which connection is at which step: tls_session.h. OpenSSL's headers stay in the .cc files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/result.h"

struct ssl_ctx_st;

namespace dlb {

class TlsContext {
 public:
  // Reads a PEM certificate, with its chain behind it, and its unencrypted PEM key. The error is one line
  // that names the file. What is odd but works (expired, a key that everyone may read) is appended to
  // `warnings`, one line each.
  static Result<TlsContext> load(const std::string& certificate_file, const std::string& key_file,
                                 std::vector<std::string>& warnings);

  // Whom a client believes.
  struct Trust {
    bool verify = true;
    std::string ca_file{};    // PEM certificates to believe instead of the system's
    bool offer_http = false;  // by ALPN: http/1.1
  };
  // For connections that we open. The error is one line that names the file.
  static Result<TlsContext> client(const Trust& trust);

  TlsContext(TlsContext&& other) noexcept : context_(other.context_) { other.context_ = nullptr; }
  TlsContext& operator=(TlsContext&& other) noexcept;
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;
  ~TlsContext();

  ssl_ctx_st* get() const { return context_; }
  // When the certificate expires, in seconds since 1970.
  std::int64_t expires_at() const;

 private:
  explicit TlsContext(ssl_ctx_st* context) : context_(context) {}

  ssl_ctx_st* context_;
};

}  // namespace dlb
