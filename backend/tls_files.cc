#include "backend/tls_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>

#include "common/fd.h"

namespace dlb::backend {
namespace {

constexpr long kDaySeconds = 24L * 60 * 60;
constexpr long kDays = 3650;  // a system that nobody looks after must not end with its certificate

template <auto Free>
struct Freer {
  template <class T>
  void operator()(T* object) const {
    Free(object);
  }
};
using Key = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Freer<X509_free>>;
using Memory = std::unique_ptr<BIO, Freer<BIO_free_all>>;

struct Pems {
  std::string certificate;
  std::string key;
};

bool add_extension(X509* certificate, int id, const char* value) {
  X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, nullptr, id, value);
  if (extension == nullptr) return false;
  const bool added = X509_add_ext(certificate, extension, -1) == 1;
  X509_EXTENSION_free(extension);
  return added;
}

std::string take_text(BIO* memory) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(memory, &data);
  return size > 0 ? std::string(data, static_cast<std::size_t>(size)) : std::string();
}

Result<Pems> make_pems() {
  ERR_clear_error();
  const Error failed{"the self-signed certificate of ws-port can't be made; give tls-cert and tls-key"};
  const Key key(EVP_EC_gen("P-256"));
  const Certificate certificate(X509_new());
  if (!key || !certificate) return failed;
  std::array<unsigned char, 8> serial{};
  if (RAND_bytes(serial.data(), static_cast<int>(serial.size())) != 1) return failed;
  serial[0] = static_cast<unsigned char>((serial[0] & 0x3F) | 0x40);  // positive, and always as long
  ASN1_INTEGER* const number = X509_get_serialNumber(certificate.get());
  ASN1_STRING_set(number, serial.data(), static_cast<int>(serial.size()));
  X509_set_version(certificate.get(), 2);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -kDaySeconds);  // clocks differ
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), kDays * kDaySeconds);
  X509_NAME* const subject = X509_get_subject_name(certificate.get());
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("localhost"),
                             -1, -1, 0);
  X509_set_issuer_name(certificate.get(), subject);
  if (X509_set_pubkey(certificate.get(), key.get()) != 1 ||
      !add_extension(certificate.get(), NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1,IP:::1") ||
      !add_extension(certificate.get(), NID_basic_constraints, "critical,CA:TRUE") ||
      X509_sign(certificate.get(), key.get(), EVP_sha256()) == 0) {
    return failed;
  }
  const Memory certificate_text(BIO_new(BIO_s_mem()));
  const Memory key_text(BIO_new(BIO_s_secmem()));
  if (!certificate_text || !key_text || PEM_write_bio_X509(certificate_text.get(), certificate.get()) != 1 ||
      PEM_write_bio_PrivateKey(key_text.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return failed;
  }
  return Pems{take_text(certificate_text.get()), take_text(key_text.get())};
}

Result<void> write_file(const std::string& path, const std::string& text) {
  const Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) {
    const int err = errno;
    return errno_error("create " + path, err);
  }
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t wrote = ::write(fd.get(), text.data() + done, text.size() - done);
    const int err = wrote < 0 ? errno : 0;
    if (err == EINTR) continue;
    if (wrote < 0) return errno_error("write " + path, err);
    done += static_cast<std::size_t>(wrote);
  }
  if (::fsync(fd.get()) != 0) {
    const int err = errno;
    return errno_error("fsync " + path, err);
  }
  return {};
}

void sync_folder(const std::string& folder) {
  const Fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd) ::fsync(fd.get());
}

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

void remove_folder(const TlsFiles& files, const std::string& folder) {
  ::unlink(files.certificate.c_str());
  ::unlink(files.key.c_str());
  ::rmdir(folder.c_str());
}

}  // namespace

TlsFiles made_tls_files(const std::string& data_dir) {
  return {data_dir + "/tls/tls.crt", data_dir + "/tls/tls.key"};
}

Result<TlsFiles> make_tls_files(const std::string& data_dir) {
  TlsFiles files = made_tls_files(data_dir);
  if (exists(files.certificate) && exists(files.key)) return files;
  if (::mkdir(data_dir.c_str(), 0700) != 0) {
    const int err = errno;
    if (err != EEXIST) return errno_error("make folder " + data_dir, err);
  }
  std::string beside = data_dir + "/.tls-XXXXXX";
  if (::mkdtemp(beside.data()) == nullptr) {
    const int err = errno;
    return errno_error("make folder " + beside, err);
  }
  const TlsFiles fresh{beside + "/tls.crt", beside + "/tls.key"};
  auto pems = make_pems();
  Result<void> made = pems ? Result<void>{} : Result<void>(pems.error());
  if (made) made = write_file(fresh.certificate, pems->certificate);
  if (made) made = write_file(fresh.key, pems->key);
  sync_folder(beside);
  // A folder takes the place of an empty one only: whoever is first decides for all.
  const std::string folder = data_dir + "/tls";
  if (made && ::rename(beside.c_str(), folder.c_str()) != 0) {
    const int err = errno;
    if (err != EEXIST && err != ENOTEMPTY) made = errno_error("rename " + beside + " to " + folder, err);
  }
  remove_folder(fresh, beside);
  sync_folder(data_dir);
  if (!made) return made.error();
  if (!exists(files.certificate) || !exists(files.key)) {
    return Error{folder +
                 ": must hold tls.crt and tls.key, or not be there; give tls-cert and tls-key for others"};
  }
  return files;
}

}  // namespace dlb::backend
