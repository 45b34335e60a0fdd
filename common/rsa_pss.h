// RSA-PSS signatures as the chat has them: SHA-256, MGF1 with SHA-256, salt of exactly 32 bytes on both sides
// (OpenSSL by itself would sign with the longest salt and verify any). Keys of 2048 to 4096 bits with an
// exponent under 2^32, so that the cost of a verification has a bound: 30 µs for 2048 bits, 100 µs for 4096.
// Verifying allocates little and has no state besides the key's own, so a key belongs to one thread at a
// time.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "common/result.h"

struct evp_pkey_st;
struct evp_pkey_ctx_st;

namespace dlb {

inline constexpr int kRsaMinBits = 2048;
inline constexpr int kRsaMaxBits = 4096;

struct FreeRsaKey {
  void operator()(evp_pkey_st* key) const;
  void operator()(evp_pkey_ctx_st* context) const;
};

class RsaPublicKey {
 public:
  // A SubjectPublicKeyInfo, as DER or as PEM. The error is what is wrong with it: "has 1024 bits, ...".
  static Result<RsaPublicKey> parse(std::string_view der_or_pem);

  // Whether `signature` (raw bytes) is this key's for `message`.
  bool verify(std::string_view message, std::string_view signature) const;

  // The SubjectPublicKeyInfo, the same bytes however it came.
  const std::string& der() const { return der_; }
  // base64(SHA-256(der)).
  std::string fingerprint() const;
  int bits() const { return bits_; }

 private:
  RsaPublicKey() = default;

  std::unique_ptr<evp_pkey_st, FreeRsaKey> key_;
  std::unique_ptr<evp_pkey_ctx_st, FreeRsaKey> verifier_;  // set up once, used for each signature
  std::string der_;
  int bits_ = 0;
};

// For clients of the chat: the load generator, tests.
class RsaPrivateKey {
 public:
  // Takes tens of milliseconds to seconds.
  static Result<RsaPrivateKey> generate(int bits = kRsaMinBits);
  // PKCS#8 or traditional PEM, without a passphrase.
  static Result<RsaPrivateKey> parse_pem(std::string_view pem);

  // PKCS#8 in PEM, without a passphrase.
  std::string to_pem() const;
  // The raw signature; empty when OpenSSL fails.
  std::string sign(std::string_view message) const;
  const std::string& public_der() const { return public_der_; }

 private:
  static Result<RsaPrivateKey> of(evp_pkey_st* key);
  RsaPrivateKey() = default;

  std::unique_ptr<evp_pkey_st, FreeRsaKey> key_;
  std::unique_ptr<evp_pkey_ctx_st, FreeRsaKey> signer_;
  std::string public_der_;
};

}  // namespace dlb
