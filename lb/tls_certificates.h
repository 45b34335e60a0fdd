// TlsCertificates: what tls-listen presents: read at start, read again on SIGHUP, lent to workers. A
// certificate or key that can't be used leaves the one in force as it is.
//
// Loaded and reloaded on the main thread; current() and the figures from any. The lock is taken once a
// handshake, which costs ten thousand times as much.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "common/log.h"
#include "common/result.h"
#include "common/tls_context.h"

namespace dlb::lb {

class TlsCertificates {
 public:
  TlsCertificates(std::string certificate_file, std::string key_file)
      : certificate_file_(std::move(certificate_file)), key_file_(std::move(key_file)) {}

  // Reads both files. On an error, one line that names the file, current() stays what it was. `warnings` gets
  // what is odd but works.
  Result<void> load(std::vector<std::string>& warnings);
  // load(), with its outcome logged and counted.
  void reload(Log& log);

  // For a new connection; null before the first load().
  std::shared_ptr<const TlsContext> current() const;

  std::uint64_t reloads() const { return reloads_.load(std::memory_order_relaxed); }
  std::uint64_t reload_failures() const { return reload_failures_.load(std::memory_order_relaxed); }
  // When the certificate in force expires, in seconds since 1970.
  std::int64_t expires_at() const { return expires_at_.load(std::memory_order_relaxed); }

 private:
  const std::string certificate_file_;
  const std::string key_file_;
  mutable std::mutex mutex_;
  std::shared_ptr<const TlsContext> current_;  // under mutex_
  std::atomic<std::uint64_t> reloads_{0};
  std::atomic<std::uint64_t> reload_failures_{0};
  std::atomic<std::int64_t> expires_at_{0};
};

}  // namespace dlb::lb
