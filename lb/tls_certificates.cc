#include "lb/tls_certificates.h"

#include <utility>

namespace dlb::lb {

Result<void> TlsCertificates::load(std::vector<std::string>& warnings) {
  auto loaded = TlsContext::load(certificate_file_, key_file_, warnings);
  if (!loaded) return loaded.error();
  auto fresh = std::make_shared<const TlsContext>(std::move(*loaded));
  expires_at_.store(fresh->expires_at(), std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  current_.swap(fresh);
  return {};
}

void TlsCertificates::reload(Log& log) {
  std::vector<std::string> warnings;
  if (auto loaded = load(warnings); !loaded) {
    reload_failures_.fetch_add(1, std::memory_order_relaxed);
    log.error("the certificate in force stays: the new one can't be used", {{"error", loaded.error().text}});
    return;
  }
  reloads_.fetch_add(1, std::memory_order_relaxed);
  for (const std::string& warning : warnings) log.warn(warning);
  log.info("certificate read again", {{"file", certificate_file_}, {"expires", expires_at()}});
}

std::shared_ptr<const TlsContext> TlsCertificates::current() const {
  const std::lock_guard lock(mutex_);
  return current_;
}

}  // namespace dlb::lb
