// PostgresStore: the message store on PostgreSQL, with up to six connections, none of which can hold up
// another's purpose:
//
//   writer       batches in a pipeline, look-ups of ids that met a conflict, blocks of the key's budget; sets
//   up
//                the tables
//   reader       the feed
//   listener     LISTEN for other backends' hints, and our own NOTIFY (its commit takes a database-wide lock)
//   health       one probe a second; ends sessions that sit on the writers' lock
//   chat reader  history, replays, keys, who is present       chat writer  names, presence
//
// A NOTIFY is only a hint to refresh: one at a time, with the range of sequences that came up meanwhile.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "backend/pg_connection.h"
#include "backend/recent_ids.h"
#include "backend/store_base.h"

namespace dlb::backend {

class PostgresStore final : public StoreBase, PgConnectionClient, HeapTimerHandler {
 public:
  PostgresStore(EventLoop& loop, Log& log, const StoreConfig& config, const KeyRing& ring, const PgUrl& url);

  void start(MessageStoreClient& client) override;
  bool healthy() const override;
  MessageStoreStats stats() const override;

 private:
  // A batch between its insert and its answer.
  struct Writing {
    const WriteBatch* batch = nullptr;
    std::vector<RowReply> replies;
    std::vector<std::size_t> conflicts;  // places of the rows that were not inserted
  };

  // WriteDriver
  bool write_ready() const override { return writer_.ready() && !writer_.congested(); }
  bool write_away() const override { return writer_.away(); }
  void send_batch(std::uint64_t batch_id, const WriteBatch& batch) override;
  void send_reserve(const KeyId& key) override;
  void stored(const PendingWrite& row, const RowReply& reply) override;
  void announce(std::int64_t first_sequence, std::int64_t last_sequence) override;

  // ReadDriver
  bool read_ready() const override { return reader_.ready() && generation_known_; }
  bool read_away() const override { return reader_.away() || never_up(); }
  void send_read(const RowsRequest& request) override;
  void send_renew_generation(std::string_view seen) override;

  // ChatDriver
  bool chat_reads_ready() const override { return chat_reader_.ready(); }
  bool chat_reads_away() const override { return !config_.chat || chat_reader_.away() || never_up(); }
  bool chat_writes_ready() const override { return chat_writer_.ready(); }
  bool chat_writes_away() const override { return !config_.chat || chat_writer_.away() || never_up(); }
  void send_page(const PageRequest& request) override;
  void send_find_key(std::uint64_t id, std::string_view name) override;
  void send_list_present(std::string_view instance) override;
  void send_claim(std::uint64_t id, std::string_view name, std::string_view public_key) override;
  void send_present(std::string_view instance, std::string_view names, std::int64_t lease_seconds) override;
  bool never_up() const { return !reader_started_ && writer_.away(); }

  // PgConnectionClient
  void on_pg_ready(PgConnection& connection) override;
  void on_pg_reply(PgConnection& connection, std::uint64_t tag, const PgReply& reply) override;
  void on_pg_drained(PgConnection& connection) override;
  void on_pg_notification(PgConnection& connection, int sender_pid) override;
  void on_pg_lost(PgConnection& connection, const std::vector<std::uint64_t>& unanswered) override;
  void on_pg_connect_failed(PgConnection& connection) override;

  void on_writer_reply(std::uint64_t tag, const PgReply& reply);
  void on_inserted(std::uint64_t batch_id, const PgReply& reply);
  void on_found(std::uint64_t batch_id, const PgReply* reply);
  void on_reader_reply(std::uint64_t tag, const PgReply& reply);
  void on_health_reply(std::uint64_t tag, const PgReply& reply);
  void on_chat_reply(PgConnection& connection, std::uint64_t tag, const PgReply& reply);
  void on_chat_failed(std::uint64_t tag);
  void on_chat_change();
  void on_heap_timer(HeapTimer& timer) override;
  void notify();
  void make_generation();
  PgConnectionConfig connection_config(const PgUrl& url, const char* purpose) const;
  PgConnectionConfig writer_config(const PgUrl& url) const;
  PgConnectionConfig reader_config(const PgUrl& url) const;
  PgConnectionConfig listener_config(const PgUrl& url) const;
  PgConnectionConfig health_config(const PgUrl& url) const;
  PgConnectionConfig chat_reader_config(const PgUrl& url) const;
  PgConnectionConfig chat_writer_config(const PgUrl& url) const;

  PgConnection writer_;
  PgConnection reader_;
  PgConnection listener_;
  PgConnection health_;
  PgConnection chat_reader_;
  PgConnection chat_writer_;
  std::int64_t chat_rows_asked_ = 0;
  std::int64_t chat_bytes_asked_ = 0;
  bool reader_started_ = false;
  bool generation_known_ = false;
  std::int64_t rows_asked_ = 0;
  std::int64_t bytes_asked_ = 0;
  std::optional<std::string> generation_read_;  // just before the rows that are awaited
  std::string anchor_read_;                     // likewise
  std::unordered_map<std::uint64_t, Writing> writing_;
  RecentIds recent_ids_;       // stored here
  TimePoint repeats_until_{};  // others have been repeated: more of them are likely

  std::int64_t notify_first_ = 0;  // committed here and not announced yet; 0: nothing
  std::int64_t notify_last_ = 0;
  bool notifying_ = false;

  HeapTimer probe_timer_;
  TimePoint last_probe_ok_{};
  bool probed_ = false;  // last_probe_ok_ holds
};

}  // namespace dlb::backend
