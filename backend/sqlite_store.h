// SqliteStore: the message store in one file of the data folder, shared by the processes of one machine. Two
// workers, each a thread with its own connection: a writer that may have to wait for another process's
// transaction, and a reader that never does. The chat's reads are bounded and few at a time, so they share
// the reader with the feed. Nothing here touches the file; the loop is never blocked.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "backend/peer_signal.h"
#include "backend/sqlite_worker.h"
#include "backend/store_base.h"
#include "common/mailbox.h"

namespace dlb::backend {

class SqliteStore final : public StoreBase, MailboxHandler<std::unique_ptr<SqliteResult>>, HeapTimerHandler {
 public:
  SqliteStore(EventLoop& loop, Log& log, const StoreConfig& config, const KeyRing& ring);
  ~SqliteStore() override;

  void start(MessageStoreClient& client) override;
  bool healthy() const override;

 private:
  enum class Link : std::uint8_t {
    Opening,  // being opened, for the first time or after a fault
    Away,     // could not be opened; tried again with back-off
    Up,
  };

  // WriteDriver
  bool write_ready() const override { return writer_link_ == Link::Up; }
  bool write_away() const override { return writer_link_ == Link::Away; }
  void send_batch(std::uint64_t batch_id, const WriteBatch& batch) override;
  void send_reserve(const KeyId& key) override;
  void announce(std::int64_t first_sequence, std::int64_t last_sequence) override;

  // ReadDriver
  bool read_ready() const override { return reader_link_ == Link::Up; }
  bool read_away() const override { return reader_link_ == Link::Away; }
  void send_read(const RowsRequest& request) override;
  void send_renew_generation(std::string_view seen) override;

  // ChatDriver
  bool chat_reads_ready() const override { return read_ready(); }
  bool chat_reads_away() const override { return read_away(); }
  bool chat_writes_ready() const override { return write_ready(); }
  bool chat_writes_away() const override { return write_away(); }
  void send_page(const PageRequest& request) override;
  void send_find_key(std::uint64_t id, std::string_view name) override;
  void send_list_present(std::string_view instance) override;
  void send_claim(std::uint64_t id, std::string_view name, std::string_view public_key) override;
  void send_present(std::string_view instance, std::string_view names, std::int64_t lease_seconds) override;

  void on_mail(std::unique_ptr<SqliteResult> result) override;
  void on_writer_result(SqliteResult& result);
  void on_reader_result(SqliteResult& result);
  bool on_chat_result(SqliteResult& result);
  void on_chat_change();
  void on_opened(SqliteResult& result, Link& link, HeapTimer& retry, Duration& pause);
  void on_heap_timer(HeapTimer& timer) override;

  Mailbox<std::unique_ptr<SqliteResult>> results_;
  PeerSignal signal_;
  Link writer_link_ = Link::Opening;
  Link reader_link_ = Link::Opening;
  HeapTimer writer_retry_;
  HeapTimer reader_retry_;
  HeapTimer probe_timer_;
  Duration writer_pause_{};
  Duration reader_pause_{};
  bool probing_ = false;
  TimePoint probe_sent_{};
  std::int64_t data_version_ = 0;
  std::unique_ptr<SqliteWorker> writer_;
  std::unique_ptr<SqliteWorker> reader_;
};

}  // namespace dlb::backend
