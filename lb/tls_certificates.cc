#include "lb/tls_certificates.h"

#include <utility>

#include "lb/options.h"

namespace dlb::lb {

Result<std::shared_ptr<const TlsContext>> TlsCertificates::read(const Options& options,
                                                                const LoadedOptions& loaded,
                                                                std::vector<std::string>& warnings) {
  auto context = TlsContext::load(options.tls_cert, options.tls_key, warnings);
  if (context) return std::make_shared<const TlsContext>(std::move(*context));
  const std::string& text = context.error().text;  // begins with the file's name
  return loaded.at(text.starts_with(options.tls_key) ? "tls-key" : "tls-cert", text);
}

void TlsCertificates::use(std::shared_ptr<const TlsContext> context) {
  expires_at_.store(context->expires_at(), std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  current_.swap(context);
  if (context != nullptr) reloads_.fetch_add(1, std::memory_order_relaxed);
}

std::shared_ptr<const TlsContext> TlsCertificates::current() const {
  const std::lock_guard lock(mutex_);
  return current_;
}

}  // namespace dlb::lb
