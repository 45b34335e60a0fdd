// RSA-PSS as the chat pins it, and the strict base64 that keys and signatures travel in.
#include "common/rsa_pss.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>

#include <string>

#include "common/base64.h"
#include "common/clock.h"
#include "test/support/catch.h"

namespace dlb {
namespace {

std::string der_of(EVP_PKEY* key) {
  unsigned char* bytes = nullptr;
  const int length = i2d_PUBKEY(key, &bytes);
  std::string der(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(length));
  OPENSSL_free(bytes);
  return der;
}

std::string pem_of(EVP_PKEY* key, bool with_private) {
  BIO* bio = BIO_new(BIO_s_mem());
  if (with_private) {
    PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
  } else {
    PEM_write_bio_PUBKEY(bio, key);
  }
  char* text = nullptr;
  const long length = BIO_get_mem_data(bio, &text);
  std::string pem(text, static_cast<std::size_t>(length));
  BIO_free(bio);
  return pem;
}

EVP_PKEY* rsa_key(int bits, const char* exponent = nullptr, const char* type = "RSA") {
  EVP_PKEY_CTX* context = EVP_PKEY_CTX_new_from_name(nullptr, type, nullptr);
  EVP_PKEY_keygen_init(context);
  EVP_PKEY_CTX_set_rsa_keygen_bits(context, bits);
  if (exponent != nullptr) {
    BIGNUM* number = nullptr;
    BN_dec2bn(&number, exponent);
    EVP_PKEY_CTX_set1_rsa_keygen_pubexp(context, number);
    BN_free(number);
  }
  EVP_PKEY* key = nullptr;
  EVP_PKEY_generate(context, &key);
  EVP_PKEY_CTX_free(context);
  return key;
}

std::string sign_with_salt(EVP_PKEY* key, std::string_view message, int salt) {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  EVP_PKEY_CTX* settings = nullptr;
  EVP_DigestSignInit(context, &settings, EVP_sha256(), nullptr, key);
  EVP_PKEY_CTX_set_rsa_padding(settings, RSA_PKCS1_PSS_PADDING);
  EVP_PKEY_CTX_set_rsa_pss_saltlen(settings, salt);
  std::size_t length = 1024;
  std::string signature(length, '\0');
  EVP_DigestSign(context, reinterpret_cast<unsigned char*>(signature.data()), &length,
                 reinterpret_cast<const unsigned char*>(message.data()), message.size());
  EVP_MD_CTX_free(context);
  signature.resize(length);
  return signature;
}

}  // namespace

TEST_CASE("a signature holds for its message and key only", "[rsa]") {
  const auto alice = RsaPrivateKey::generate();
  const auto bob = RsaPrivateKey::generate();
  REQUIRE(alice);
  REQUIRE(bob);
  const auto key = RsaPublicKey::parse(alice->public_der());
  REQUIRE(key);
  CHECK(key->bits() == 2048);
  CHECK(key->der() == alice->public_der());
  CHECK(key->fingerprint().size() == 44);

  const std::string signature = alice->sign("hello");
  REQUIRE(signature.size() == 256);
  CHECK(key->verify("hello", signature));
  CHECK(key->verify("hello", alice->sign("hello")));
  CHECK_FALSE(key->verify("hellO", signature));
  CHECK_FALSE(key->verify("", signature));
  CHECK_FALSE(key->verify("hello", bob->sign("hello")));
  CHECK_FALSE(key->verify("hello", ""));
  CHECK_FALSE(key->verify("hello", signature.substr(1)));
  CHECK_FALSE(key->verify("hello", signature + "x"));
  std::string flipped = signature;
  flipped[100] = static_cast<char>(flipped[100] ^ 1);
  CHECK_FALSE(key->verify("hello", flipped));
  CHECK(key->verify("hello", signature));  // after failures it is as good as before
}

TEST_CASE("a salt of another length is no signature", "[rsa]") {
  EVP_PKEY* raw = rsa_key(2048);
  const auto key = RsaPublicKey::parse(der_of(raw));
  REQUIRE(key);
  CHECK(key->verify("hello", sign_with_salt(raw, "hello", 32)));
  for (const int salt : {0, 20, 31, 33, static_cast<int>(RSA_PSS_SALTLEN_MAX)}) {
    CHECK_FALSE(key->verify("hello", sign_with_salt(raw, "hello", salt)));
  }
  const auto again = RsaPrivateKey::parse_pem(pem_of(raw, true));
  REQUIRE(again);
  CHECK(key->verify("hello", again->sign("hello")));
  const auto from_pem = RsaPublicKey::parse(pem_of(raw, false));
  REQUIRE(from_pem);
  CHECK(from_pem->der() == key->der());
  CHECK(from_pem->fingerprint() == key->fingerprint());
  EVP_PKEY_free(raw);
}

TEST_CASE("keys outside the limits are refused", "[rsa]") {
  const auto refused = [](EVP_PKEY* key) {
    const std::string der = der_of(key);
    EVP_PKEY_free(key);
    return !RsaPublicKey::parse(der).has_value();
  };
  CHECK(refused(rsa_key(1024)));
  CHECK(refused(rsa_key(2048, "4294967297")));  // 2^32 + 1
  CHECK_FALSE(refused(rsa_key(2048, "3")));
  CHECK(refused(EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256")));
  CHECK(refused(rsa_key(2048, nullptr, "RSA-PSS")));

  CHECK_FALSE(RsaPublicKey::parse(""));
  CHECK_FALSE(RsaPublicKey::parse("hello"));
  CHECK_FALSE(RsaPublicKey::parse("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"));
  CHECK_FALSE(RsaPublicKey::parse(std::string(100000, '\x30')));
  EVP_PKEY* good = rsa_key(2048);
  const std::string der = der_of(good);
  CHECK_FALSE(RsaPublicKey::parse(der + "x"));
  CHECK_FALSE(RsaPublicKey::parse(der.substr(0, der.size() - 1)));
  CHECK_FALSE(RsaPublicKey::parse(pem_of(good, true)));
  EVP_PKEY_free(good);
}

TEST_CASE("base64 is strict", "[base64]") {
  CHECK(base64_encode("") == "");
  CHECK(base64_encode("f") == "Zg==");
  CHECK(base64_encode("fo") == "Zm8=");
  CHECK(base64_encode("foo") == "Zm9v");
  CHECK(base64_decode("") == std::string());
  CHECK(base64_decode("Zg==") == std::string("f"));
  CHECK(base64_decode("Zm8=") == std::string("fo"));
  CHECK(base64_decode("Zm9v") == std::string("foo"));
  CHECK(base64_decode("AAAA") == std::string(3, '\0'));
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  CHECK(base64_decode(base64_encode(all)) == all);
  for (const char* bad : {"Z", "Zg", "Zg=", "Zg===", "====", "=", "Zh==", "Zm9=", " Zg==", "Zg==\n",
                          "Zg==Zg==", "Zm-v", "Zm_v", "Zm9v\n", "Z===", "Zm9v====", "Zg=a", "Zm9\xc3"}) {
    INFO(bad);
    CHECK_FALSE(base64_decode(bad).has_value());
  }
  CHECK_FALSE(base64_decode(std::string_view("Zm9\0", 4)).has_value());
}

}  // namespace dlb
