// Self-signed certificates for tests, made in process and written as PEM. Two of the same name differ by key.
#pragma once

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <cstdio>
#include <string>

#include "common/check.h"

namespace dlb::test {

// Writes NAME.crt and NAME.key below `folder`. `days` may be negative: expired.
inline void make_certificate(const std::string& folder, const std::string& name, int days = 30) {
  EVP_PKEY* const key = EVP_EC_gen("P-256");
  X509* const certificate = X509_new();
  DLB_CHECK(key != nullptr && certificate != nullptr);
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
  const long day = 24L * 60 * 60;
  X509_gmtime_adj(X509_getm_notBefore(certificate), -400 * day);
  X509_gmtime_adj(X509_getm_notAfter(certificate), days * day);
  X509_set_pubkey(certificate, key);
  X509_NAME* const subject = X509_get_subject_name(certificate);
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("localhost"),
                             -1, -1, 0);
  X509_set_issuer_name(certificate, subject);
  DLB_CHECK(X509_sign(certificate, key, EVP_sha256()) > 0);

  std::FILE* const certificate_file = std::fopen((folder + "/" + name + ".crt").c_str(), "wb");
  std::FILE* const key_file = std::fopen((folder + "/" + name + ".key").c_str(), "wb");
  DLB_CHECK(certificate_file != nullptr && key_file != nullptr);
  DLB_CHECK(PEM_write_X509(certificate_file, certificate) == 1);
  DLB_CHECK(PEM_write_PrivateKey(key_file, key, nullptr, nullptr, 0, nullptr, nullptr) == 1);
  std::fclose(certificate_file);
  std::fclose(key_file);
  X509_free(certificate);
  EVP_PKEY_free(key);
}

}  // namespace dlb::test
