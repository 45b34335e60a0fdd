#include "common/rsa_pss.h"

#include <openssl/bio.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/sha.h>
#include <openssl/x509.h>

#include <array>
#include <utility>

#include "common/base64.h"

namespace dlb {
namespace {

constexpr int kSaltBytes = 32;
constexpr std::size_t kMaxDerBytes = 1024;  // of a 4096-bit key: 550
constexpr std::size_t kMaxPemBytes = 4096;
constexpr int kMaxExponentBits = 32;

using Digest = std::array<unsigned char, SHA256_DIGEST_LENGTH>;

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

Digest sha256(std::string_view message) {
  Digest digest{};
  SHA256(bytes_of(message), message.size(), digest.data());
  return digest;
}

struct FreeBignum {
  void operator()(BIGNUM* number) const { BN_free(number); }
};
struct FreeBio {
  void operator()(BIO* bio) const { BIO_free(bio); }
};

std::string public_der_of(evp_pkey_st* key) {
  unsigned char* bytes = nullptr;
  const int length = i2d_PUBKEY(key, &bytes);
  std::string der;
  if (length > 0) der.assign(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(length));
  OPENSSL_free(bytes);
  return der;
}

bool pin_pss(EVP_PKEY_CTX* context) {
  return EVP_PKEY_CTX_set_rsa_padding(context, RSA_PKCS1_PSS_PADDING) == 1 &&
         EVP_PKEY_CTX_set_signature_md(context, EVP_sha256()) == 1 &&
         EVP_PKEY_CTX_set_rsa_mgf1_md(context, EVP_sha256()) == 1 &&
         EVP_PKEY_CTX_set_rsa_pss_saltlen(context, kSaltBytes) == 1;
}

// Null, or what is wrong with the key.
const char* fault_of(const EVP_PKEY* key) {
  if (EVP_PKEY_get_base_id(key) != EVP_PKEY_RSA) return "is not an RSA key";
  const int bits = EVP_PKEY_get_bits(key);
  if (bits < kRsaMinBits || bits > kRsaMaxBits) return "must have 2048 to 4096 bits";
  BIGNUM* number = nullptr;
  if (EVP_PKEY_get_bn_param(key, OSSL_PKEY_PARAM_RSA_E, &number) != 1) return "has no exponent";
  const std::unique_ptr<BIGNUM, FreeBignum> exponent(std::exchange(number, nullptr));
  if (BN_num_bits(exponent.get()) > kMaxExponentBits) return "must have an exponent under 2^32";
  if (BN_is_odd(exponent.get()) == 0 || BN_is_one(exponent.get()) == 1) return "has an unusable exponent";
  if (EVP_PKEY_get_bn_param(key, OSSL_PKEY_PARAM_RSA_N, &number) != 1) return "has no modulus";
  const std::unique_ptr<BIGNUM, FreeBignum> modulus(number);
  if (BN_is_odd(modulus.get()) == 0) return "has an unusable modulus";
  return nullptr;
}

evp_pkey_st* read_public_key(std::string_view der_or_pem) {
  if (der_or_pem.substr(0, 11) != "-----BEGIN ") {
    if (der_or_pem.empty() || der_or_pem.size() > kMaxDerBytes) return nullptr;
    const unsigned char* at = bytes_of(der_or_pem);
    return d2i_PUBKEY(nullptr, &at, static_cast<long>(der_or_pem.size()));
  }
  if (der_or_pem.size() > kMaxPemBytes) return nullptr;
  const std::unique_ptr<BIO, FreeBio> bio(
      BIO_new_mem_buf(der_or_pem.data(), static_cast<int>(der_or_pem.size())));
  if (bio == nullptr) return nullptr;
  // No passphrase is ever asked for.
  return PEM_read_bio_PUBKEY(
      bio.get(), nullptr, [](char*, int, int, void*) { return -1; }, nullptr);
}

}  // namespace

void FreeRsaKey::operator()(evp_pkey_st* key) const { EVP_PKEY_free(key); }
void FreeRsaKey::operator()(evp_pkey_ctx_st* context) const { EVP_PKEY_CTX_free(context); }

Result<RsaPublicKey> RsaPublicKey::parse(std::string_view der_or_pem) {
  RsaPublicKey out;
  out.key_.reset(read_public_key(der_or_pem));
  ERR_clear_error();
  if (out.key_ == nullptr) return Error{"is not a public key (SubjectPublicKeyInfo) in DER or PEM"};
  if (const char* fault = fault_of(out.key_.get())) return Error{fault};
  out.der_ = public_der_of(out.key_.get());
  const bool is_pem = der_or_pem.substr(0, 1) == "-";
  // One key, one text: its fingerprint is signed.
  if (!is_pem && out.der_ != der_or_pem) return Error{"is not in DER, or has bytes behind it"};
  out.bits_ = EVP_PKEY_get_bits(out.key_.get());
  out.verifier_.reset(EVP_PKEY_CTX_new(out.key_.get(), nullptr));
  if (out.verifier_ == nullptr || EVP_PKEY_verify_init(out.verifier_.get()) != 1 ||
      !pin_pss(out.verifier_.get())) {
    ERR_clear_error();
    return Error{"cannot be used for RSA-PSS"};
  }
  return out;
}

bool RsaPublicKey::verify(std::string_view message, std::string_view signature) const {
  const Digest digest = sha256(message);
  const bool good = EVP_PKEY_verify(verifier_.get(), bytes_of(signature), signature.size(), digest.data(),
                                    digest.size()) == 1;
  if (!good) ERR_clear_error();
  return good;
}

std::string RsaPublicKey::fingerprint() const {
  const Digest digest = sha256(der_);
  return base64_encode({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

Result<RsaPrivateKey> RsaPrivateKey::of(evp_pkey_st* key) {
  RsaPrivateKey out;
  out.key_.reset(key);
  if (key == nullptr) {
    ERR_clear_error();
    return Error{"no RSA key"};
  }
  if (const char* fault = fault_of(key)) return Error{fault};
  out.public_der_ = public_der_of(key);
  out.signer_.reset(EVP_PKEY_CTX_new(key, nullptr));
  if (out.signer_ == nullptr || EVP_PKEY_sign_init(out.signer_.get()) != 1 || !pin_pss(out.signer_.get())) {
    ERR_clear_error();
    return Error{"cannot be used for RSA-PSS"};
  }
  return out;
}

Result<RsaPrivateKey> RsaPrivateKey::generate(int bits) {
  return of(EVP_RSA_gen(static_cast<unsigned int>(bits)));
}

Result<RsaPrivateKey> RsaPrivateKey::parse_pem(std::string_view pem) {
  const std::unique_ptr<BIO, FreeBio> bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  return of(PEM_read_bio_PrivateKey(
      bio.get(), nullptr, [](char*, int, int, void*) { return -1; }, nullptr));
}

std::string RsaPrivateKey::to_pem() const {
  const std::unique_ptr<BIO, FreeBio> bio(BIO_new(BIO_s_mem()));
  if (bio == nullptr ||
      PEM_write_bio_PKCS8PrivateKey(bio.get(), key_.get(), nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    ERR_clear_error();
    return {};
  }
  char* bytes = nullptr;
  const long length = BIO_get_mem_data(bio.get(), &bytes);
  return std::string(bytes, static_cast<std::size_t>(length));
}

std::string RsaPrivateKey::sign(std::string_view message) const {
  const Digest digest = sha256(message);
  std::size_t length = 0;
  if (EVP_PKEY_sign(signer_.get(), nullptr, &length, digest.data(), digest.size()) != 1) return {};
  std::string signature(length, '\0');
  if (EVP_PKEY_sign(signer_.get(), reinterpret_cast<unsigned char*>(signature.data()), &length, digest.data(),
                    digest.size()) != 1) {
    ERR_clear_error();
    return {};
  }
  signature.resize(length);
  return signature;
}

}  // namespace dlb
