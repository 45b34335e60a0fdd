// ChatDriver: what a database does for the chat. Reads and writes are apart: a write may have to wait for
// another backend's, a read never has to. Answers come later, never inside these calls, to the paths that
// asked: RowsPath, NamesPath, PresencePath.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "backend/stored_row.h"

namespace dlb::backend {

// Rows from `from` on, upwards or downwards, `from` included: at most `max_rows`, cut after about `max_bytes`
// of ciphertext.
struct PageRequest {
  bool down = false;
  std::int64_t from = 0;
  std::int64_t max_rows = 0;
  std::int64_t max_bytes = 0;
};

class ChatDriver {
 public:
  // Connected; what is sent is answered. Away: not connected, and trying has failed.
  virtual bool chat_reads_ready() const = 0;
  virtual bool chat_reads_away() const = 0;
  virtual bool chat_writes_ready() const = 0;
  virtual bool chat_writes_away() const = 0;

  // Require chat_reads_ready().
  virtual void send_page(const PageRequest& request) = 0;  // RowsPath::on_page, on_page_failed
  virtual void send_find_key(std::uint64_t id, std::string_view name) = 0;  // NamesPath::on_key, on_failed
  // The lists of all but `instance` whose leases hold. PresencePath::on_listed, on_list_failed.
  virtual void send_list_present(std::string_view instance) = 0;

  // Require chat_writes_ready().
  // NamesPath::on_key with whose it is now; without a key when another took it at this very moment: ask
  // again.
  virtual void send_claim(std::uint64_t id, std::string_view name, std::string_view public_key) = 0;
  // Replaces this process's list and its lease; removes what is long overdue of others.
  // PresencePath::on_written, on_write_failed.
  virtual void send_present(std::string_view instance, std::string_view names,
                            std::int64_t lease_seconds) = 0;

 protected:
  ~ChatDriver() = default;
};

}  // namespace dlb::backend
