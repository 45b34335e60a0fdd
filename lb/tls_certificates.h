// TlsCertificates: what tls-listen presents: read at start and by each reload, lent to workers. A certificate
// or key that can't be used leaves the one in force as it is.
//
// Thread-safe. The lock is taken once a
// handshake, which costs ten thousand times as much.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "common/option.h"
#include "common/result.h"
#include "common/tls_context.h"

namespace dlb::lb {

struct Options;

class TlsCertificates {
 public:
  // Reads tls-cert and tls-key. The error names option, file and reason; `warnings` gets what is odd but
  // works. Blocks.
  static Result<std::shared_ptr<const TlsContext>> read(const Options& options, const LoadedOptions& loaded,
                                                        std::vector<std::string>& warnings);
  // Any thread: in force from now on.
  void use(std::shared_ptr<const TlsContext> context);
  // A reload could not use what it read.
  void note_refused() { reload_failures_.fetch_add(1, std::memory_order_relaxed); }

  // For a new connection; null before the first use().
  std::shared_ptr<const TlsContext> current() const;

  // Times that use() took the place of another one; times that it could not.
  std::uint64_t reloads() const { return reloads_.load(std::memory_order_relaxed); }
  std::uint64_t reload_failures() const { return reload_failures_.load(std::memory_order_relaxed); }
  // When the certificate in force expires, in seconds since 1970.
  std::int64_t expires_at() const { return expires_at_.load(std::memory_order_relaxed); }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const TlsContext> current_;  // under mutex_
  std::atomic<std::uint64_t> reloads_{0};
  std::atomic<std::uint64_t> reload_failures_{0};
  std::atomic<std::int64_t> expires_at_{0};
};

}  // namespace dlb::lb
