#include "common/tls_context.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <ctime>
#include <utility>

namespace dlb {
namespace {

constexpr char kCiphers12[] =
    "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:"
    "ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305";
constexpr char kCiphers13[] = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";
constexpr char kGroups[] = "X25519:P-256:P-384";
constexpr long kTicketSeconds = 2 * 60 * 60;
constexpr unsigned char kSessionContext[] = "dlb";
// In the order of our preference, each behind its length.
constexpr unsigned char kProtocols[] = "\x08http/1.1\x08http/1.0";

// The newest cause in OpenSSL's queue, as text; leaves the queue empty.
std::string take_reason() {
  const unsigned long code = ERR_peek_last_error();
  const char* text = ERR_reason_error_string(code);
  if (text == nullptr && ERR_SYSTEM_ERROR(code)) text = "it can't be read";
  std::string reason = text != nullptr ? text : "unknown reason";
  ERR_clear_error();
  return reason;
}

// A client that offers protocols, but none that is served here, is refused at once, as nginx does: it would
// only find out later that nobody understands it.
int choose_protocol(SSL*, const unsigned char** out, unsigned char* out_size, const unsigned char* offered,
                    unsigned int offered_size, void*) {
  unsigned char* chosen = nullptr;
  if (SSL_select_next_proto(&chosen, out_size, kProtocols, sizeof kProtocols - 1, offered, offered_size) !=
      OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  }
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

// Never asks a terminal.
int no_passphrase(char*, int, int, void*) { return 0; }

Error unreadable(const std::string& file, int err) {
  return Error{fmt::format("{}: {}", file, errno_error("open", err).text)};
}

// Why a file can't even be opened, before OpenSSL says less.
Result<void> check_readable(const std::string& file) {
  std::FILE* const opened = std::fopen(file.c_str(), "rb");
  if (opened == nullptr) return unreadable(file, errno);
  std::fclose(opened);
  return {};
}

Result<void> load_files(SSL_CTX* context, const std::string& certificate_file, const std::string& key_file) {
  for (const std::string* file : {&certificate_file, &key_file}) {
    if (auto readable = check_readable(*file); !readable) return readable;
  }
  if (SSL_CTX_use_certificate_chain_file(context, certificate_file.c_str()) != 1) {
    return Error{fmt::format("{}: no usable PEM certificate: {}", certificate_file, take_reason())};
  }
  if (SSL_CTX_use_PrivateKey_file(context, key_file.c_str(), SSL_FILETYPE_PEM) != 1) {
    const int reason = ERR_GET_REASON(ERR_peek_last_error());
    if (reason == X509_R_KEY_VALUES_MISMATCH || reason == X509_R_KEY_TYPE_MISMATCH) {
      ERR_clear_error();
      return Error{fmt::format("{}: is not the key of the certificate in {}", key_file, certificate_file)};
    }
    return Error{
        fmt::format("{}: no usable PEM key (it must have no passphrase): {}", key_file, take_reason())};
  }
  if (SSL_CTX_check_private_key(context) != 1) {
    ERR_clear_error();
    return Error{fmt::format("{}: is not the key of the certificate in {}", key_file, certificate_file)};
  }
  return {};
}

// What both sides have in common.
bool configure_any(SSL_CTX* context) {
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                   // A FIN without close_notify is an end like any other: what may not be cut
                                   // short is framed by HTTP.
                                   SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_read_ahead(context, 1);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  return SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1 &&
         SSL_CTX_set_cipher_list(context, kCiphers12) == 1 &&
         SSL_CTX_set_ciphersuites(context, kCiphers13) == 1 &&
         SSL_CTX_set1_groups_list(context, kGroups) == 1;
}

bool configure(SSL_CTX* context) {
  SSL_CTX_set_timeout(context, kTicketSeconds);
  SSL_CTX_set_alpn_select_cb(context, choose_protocol, nullptr);
  SSL_CTX_set_default_passwd_cb(context, no_passphrase);
  return configure_any(context) &&
         SSL_CTX_set_session_id_context(context, kSessionContext, sizeof kSessionContext - 1) == 1;
}

void note_oddities(SSL_CTX* context, const std::string& certificate_file, const std::string& key_file,
                   std::vector<std::string>& warnings) {
  const X509* certificate = SSL_CTX_get0_certificate(context);
  if (X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0) {
    warnings.push_back(fmt::format("{}: the certificate has expired", certificate_file));
  }
  if (X509_cmp_current_time(X509_get0_notBefore(certificate)) > 0) {
    warnings.push_back(fmt::format("{}: the certificate is not valid yet", certificate_file));
  }
  struct stat status {};
  if (::stat(key_file.c_str(), &status) == 0 && (status.st_mode & (S_IROTH | S_IWOTH)) != 0) {
    warnings.push_back(fmt::format("{}: everyone can read or write the key; use chmod 600", key_file));
  }
}

}  // namespace

Result<TlsContext> TlsContext::load(const std::string& certificate_file, const std::string& key_file,
                                    std::vector<std::string>& warnings) {
  ERR_clear_error();
  TlsContext made(SSL_CTX_new(TLS_server_method()));
  if (made.get() == nullptr || !configure(made.get())) {
    return Error{fmt::format("TLS can't be set up: {}", take_reason())};
  }
  if (auto loaded = load_files(made.get(), certificate_file, key_file); !loaded) return loaded.error();
  note_oddities(made.get(), certificate_file, key_file, warnings);
  ERR_clear_error();
  return made;
}

Result<TlsContext> TlsContext::client(const Trust& trust) {
  ERR_clear_error();
  TlsContext made(SSL_CTX_new(TLS_client_method()));
  if (made.get() == nullptr || !configure_any(made.get())) {
    return Error{fmt::format("TLS can't be set up: {}", take_reason())};
  }
  static constexpr unsigned char kHttp[] = "\x08http/1.1";
  if (trust.offer_http && SSL_CTX_set_alpn_protos(made.get(), kHttp, sizeof kHttp - 1) != 0) {
    return Error{fmt::format("TLS can't be set up: {}", take_reason())};
  }
  SSL_CTX_set_verify(made.get(), trust.verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nullptr);
  if (!trust.ca_file.empty()) {
    if (auto readable = check_readable(trust.ca_file); !readable) return readable.error();
    if (SSL_CTX_load_verify_file(made.get(), trust.ca_file.c_str()) != 1) {
      return Error{fmt::format("{}: no usable PEM certificates: {}", trust.ca_file, take_reason())};
    }
  } else if (trust.verify && SSL_CTX_set_default_verify_paths(made.get()) != 1) {
    return Error{fmt::format("the system's certificates can't be read: {}", take_reason())};
  }
  ERR_clear_error();
  return made;
}

std::int64_t TlsContext::expires_at() const {
  std::tm when{};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(SSL_CTX_get0_certificate(context_)), &when) != 1) return 0;
  return ::timegm(&when);
}

TlsContext& TlsContext::operator=(TlsContext&& other) noexcept {
  std::swap(context_, other.context_);
  return *this;
}

TlsContext::~TlsContext() { SSL_CTX_free(context_); }

}  // namespace dlb
