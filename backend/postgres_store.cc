#include "backend/postgres_store.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <unordered_map>
#include <utility>

#include "backend/generation.h"
#include "backend/pg_schema.h"
#include "backend/pg_tags.h"
#include "common/check.h"

namespace dlb::backend {
namespace {

constexpr Duration kProbeInterval = std::chrono::seconds(1);
constexpr Duration kRepeatsLast = std::chrono::seconds(1);
constexpr Duration kReplyGrace = std::chrono::seconds(1);  // over the server's own statement_timeout

std::string milliseconds(Duration duration) {
  return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

std::string quote_identifier(std::string_view name) {
  std::string out = "\"";
  for (const char c : name) {
    out += c;
    if (c == '"') out += c;
  }
  return out + "\"";
}

std::uint64_t random_seed(const void* object) {
  return static_cast<std::uint64_t>(wall_now_us()) * 31 + reinterpret_cast<std::uintptr_t>(object);
}

}  // namespace

PostgresStore::PostgresStore(EventLoop& loop, Log& log, const StoreConfig& config, const KeyRing& ring,
                             const PgUrl& url)
    : StoreBase(loop, log, config, ring),
      writer_(loop, timers_, log, random_seed(&writer_), writer_config(url), *this),
      reader_(loop, timers_, log, random_seed(&reader_), reader_config(url), *this),
      listener_(loop, timers_, log, random_seed(&listener_), listener_config(url), *this),
      health_(loop, timers_, log, random_seed(&health_), health_config(url), *this),
      chat_reader_(loop, timers_, log, random_seed(&chat_reader_), chat_reader_config(url), *this),
      chat_writer_(loop, timers_, log, random_seed(&chat_writer_), chat_writer_config(url), *this),
      probe_timer_(timers_, *this) {}

PgConnectionConfig PostgresStore::connection_config(const PgUrl& url, const char* purpose) const {
  PgConnectionConfig out;
  out.url = url;
  out.purpose = purpose;
  out.application_name = "dlb " + config_.backend_id + " " + purpose;
  out.reply_timeout = config_.statement_timeout + kReplyGrace;
  out.settings = {{"statement_timeout", milliseconds(config_.statement_timeout)},
                  {"lock_timeout", milliseconds(config_.lock_timeout)},
                  {"default_transaction_isolation", "read\\ committed"},
                  {"jit", "off"}};
  return out;
}

// Every statement here is meant to run by index, whatever the planner believes about a table that was empty
// when the plan was made.
PgConnectionConfig PostgresStore::writer_config(const PgUrl& url) const {
  PgConnectionConfig out = connection_config(url, "writer");
  out.settings.insert(out.settings.end(), {{"enable_seqscan", "off"},
                                           {"enable_hashjoin", "off"},
                                           {"enable_mergejoin", "off"},
                                           {"plan_cache_mode", "force_generic_plan"}});
  out.setup = {
      pg_schema_setup(),
      // 201 means on disk, whatever the server's default.
      "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = "
      "'off'"};
  out.statements = {pg_insert_batch(), pg_insert_batch_with_repeats(), pg_find_rows(), pg_reserve_key()};
  return out;
}

PgConnectionConfig PostgresStore::reader_config(const PgUrl& url) const {
  PgConnectionConfig out = connection_config(url, "reader");
  out.settings.insert(out.settings.end(),
                      {{"enable_seqscan", "off"}, {"plan_cache_mode", "force_generic_plan"}});
  out.statements = {pg_read_rows(), pg_read_generation(), pg_renew_generation()};
  return out;
}

PgConnectionConfig PostgresStore::listener_config(const PgUrl& url) const {
  PgConnectionConfig out = connection_config(url, "listener");
  out.settings.emplace_back("synchronous_commit", "off");  // a hint needs no disk
  out.setup = {"LISTEN " + quote_identifier(config_.event_channel)};
  out.statements = {{"notify", "SELECT pg_notify($1, $2)", {PgType::Text, PgType::Text}}};
  return out;
}

PgConnectionConfig PostgresStore::health_config(const PgUrl& url) const {
  PgConnectionConfig out = connection_config(url, "health");
  out.connect_timeout = out.reply_timeout = config_.db_health_timeout;
  out.statements = {{"probe", "SELECT pg_is_in_recovery()", {}}, pg_end_silent_lock_holders()};
  return out;
}

PgConnectionConfig PostgresStore::chat_reader_config(const PgUrl& url) const {
  PgConnectionConfig out = connection_config(url, "chat-reader");
  out.settings.insert(out.settings.end(),
                      {{"enable_seqscan", "off"}, {"plan_cache_mode", "force_generic_plan"}});
  out.statements = {pg_read_rows(), pg_read_rows_down(), pg_find_key(), pg_list_present()};
  return out;
}

PgConnectionConfig PostgresStore::chat_writer_config(const PgUrl& url) const {
  PgConnectionConfig out = connection_config(url, "chat-writer");
  out.statements = {pg_claim_name(), pg_write_present()};
  return out;
}

void PostgresStore::start(MessageStoreClient& client) {
  answers_.set_client(client);
  writer_.start();
  if (config_.cluster_events) listener_.start();
  health_.start();
}

bool PostgresStore::healthy() const {
  if (!probed_ || health_.away() || writer_.away() || reader_.away() || !reader_started_) return false;
  return loop_.now() - last_probe_ok_ <= kProbeInterval + config_.db_health_timeout;
}

MessageStoreStats PostgresStore::stats() const {
  MessageStoreStats out = StoreBase::stats();
  out.reconnects = writer_.reconnects() + reader_.reconnects() + listener_.reconnects() +
                   health_.reconnects() + chat_reader_.reconnects() + chat_writer_.reconnects();
  return out;
}

void PostgresStore::on_pg_ready(PgConnection& connection) {
  if (&connection == &writer_) {
    if (!std::exchange(reader_started_, true)) {  // the others' statements need the tables
      reader_.start();
      if (config_.chat) {
        chat_reader_.start();
        chat_writer_.start();
      }
    }
    feeds_.forget_own();
    writes_.on_driver_change();
  } else if (&connection == &reader_) {
    reader_.send(make_tag(Tag::Generation), "read_generation", {{PgType::Int8, pg_int8(0)}});
  } else if (&connection == &listener_) {
    feeds_.hint();  // what was announced while nobody listened
    notify();
  } else if (&connection == &health_) {
    on_heap_timer(probe_timer_);
  } else {
    on_chat_change();
  }
}

void PostgresStore::on_pg_connect_failed(PgConnection&) {
  writes_.on_driver_change();
  feeds_.on_driver_change();
  on_chat_change();
}

void PostgresStore::on_pg_reply(PgConnection& connection, std::uint64_t tag, const PgReply& reply) {
  if (&connection == &writer_) {
    on_writer_reply(tag, reply);
  } else if (&connection == &reader_) {
    on_reader_reply(tag, reply);
  } else if (&connection == &listener_) {
    if (!reply.ok()) log_.warn("notify failed", {{"why", reply.text()}});
    notifying_ = false;
    notify();
  } else if (&connection == &health_) {
    on_health_reply(tag, reply);
  } else {
    on_chat_reply(connection, tag, reply);
  }
}

void PostgresStore::on_pg_lost(PgConnection& connection, const std::vector<std::uint64_t>& unanswered) {
  if (&connection == &writer_) {
    for (const std::uint64_t tag : unanswered) {
      const std::uint64_t batch_id = id_of(tag);
      switch (kind_of(tag)) {
        case Tag::Insert:
          writing_.erase(batch_id);
          writes_.on_batch_failed(batch_id, BatchFailure::Lost, "connection lost");
          break;
        case Tag::Find:
          on_found(batch_id, nullptr);
          break;
        default:
          writes_.on_reserve_failed();
      }
    }
    feeds_.forget_own();
    writes_.on_driver_change();
  } else if (&connection == &reader_) {
    generation_known_ = false;
    const bool reading = std::any_of(unanswered.begin(), unanswered.end(),
                                     [](std::uint64_t tag) { return kind_of(tag) != Tag::Generation; });
    if (reading) {
      feeds_.on_read_failed();
    } else {
      feeds_.on_driver_change();
    }
  } else if (&connection == &listener_) {
    notifying_ = false;
  } else if (&connection == &health_) {
    probe_timer_.cancel();
  } else {
    for (const std::uint64_t tag : unanswered) on_chat_failed(tag);
    on_chat_change();
  }
}

// --- writing ---

void PostgresStore::send_batch(std::uint64_t batch_id, const WriteBatch& batch) {
  const std::size_t count = batch.size();
  PgArray ids(PgType::Text, count);
  PgArray names(PgType::Text, count);
  PgArray keys(PgType::Bytea, count);
  PgArray nonces(PgType::Bytea, count);
  PgArray texts(PgType::Bytea, count);
  PgArray sources(PgType::Int2, count);
  PgArray signatures(PgType::Text, count);
  bool repeats = loop_.now() < repeats_until_;
  for (const auto& row : batch) {
    repeats = repeats || recent_ids_.has(row->message.id);
    ids.add(row->message.id);
    names.add(row->message.client_name);
    keys.add(as_bytes(row->sealed->key_id));
    nonces.add(row->sealed->nonce_bytes());
    texts.add(row->sealed->ciphertext);
    sources.add_int2(static_cast<std::int16_t>(row->message.source));
    if (row->message.signature.empty()) {
      signatures.add_null();
    } else {
      signatures.add(row->message.signature);
    }
  }
  writing_[batch_id].batch = &batch;
  writer_.send(make_tag(Tag::Insert, batch_id), repeats ? "insert_batch_with_repeats" : "insert_batch",
               {{PgType::TextArray, ids.bytes()},
                {PgType::TextArray, names.bytes()},
                {PgType::ByteaArray, keys.bytes()},
                {PgType::ByteaArray, nonces.bytes()},
                {PgType::ByteaArray, texts.bytes()},
                {PgType::Int2Array, sources.bytes()},
                {PgType::TextArray, signatures.bytes()}});
}

void PostgresStore::send_reserve(const KeyId& key) {
  writer_.send(make_tag(Tag::Reserve), "reserve_key",
               {{PgType::Bytea, as_bytes(key)},
                {PgType::Int8, pg_int8(KeyBudget::kBlock)},
                {PgType::Int8, pg_int8(KeyBudget::kLimit)}});
}

void PostgresStore::on_writer_reply(std::uint64_t tag, const PgReply& reply) {
  const std::uint64_t batch_id = id_of(tag);
  const PgVerdict verdict = reply.ok() ? PgVerdict{} : judge_sqlstate(reply.sqlstate());
  if (!reply.ok() && verdict.reconnect) writer_.reconnect_soon(reply.text());
  switch (kind_of(tag)) {
    case Tag::Insert:
      if (reply.ok()) return on_inserted(batch_id, reply);
      if (reply.sqlstate() == "55P03" && health_.ready()) {
        health_.send(make_tag(Tag::Watchdog), "end_silent_lock_holders", {});
      }
      writing_.erase(batch_id);
      return writes_.on_batch_failed(batch_id, verdict.failure, reply.text());
    case Tag::Find:
      return on_found(batch_id, reply.ok() ? &reply : nullptr);
    default:
      if (!reply.ok()) {
        log_.warn("no encryptions reserved", {{"why", reply.text()}});
        return writes_.on_reserve_failed();
      }
      return writes_.on_reserved(reply.rows() > 0 ? pg_integer(reply.value(0, 0)) : -1);
  }
}

// Inserted rows come back in the batch's order; those left out met a conflict.
void PostgresStore::on_inserted(std::uint64_t batch_id, const PgReply& reply) {
  const auto found = writing_.find(batch_id);
  DLB_CHECK(found != writing_.end());
  Writing& writing = found->second;
  const WriteBatch& batch = *writing.batch;
  writing.replies.resize(batch.size());
  int next = 0;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (next < reply.rows() && reply.value(next, 0) == batch[i]->message.id) {
      writing.replies[i].kind = RowReply::Kind::Created;
      writing.replies[i].sequence = pg_integer(reply.value(next, 1));
      writing.replies[i].timestamp_us = pg_timestamp_us(reply.value(next, 2));
      ++next;
    } else {
      writing.conflicts.push_back(i);
    }
  }
  if (writing.conflicts.empty()) {
    const std::vector<RowReply> replies = std::move(writing.replies);
    writing_.erase(found);
    return writes_.on_batch_replies(batch_id, replies);
  }
  repeats_until_ = loop_.now() + kRepeatsLast;
  PgArray conflicting(PgType::Text, writing.conflicts.size());
  for (const std::size_t place : writing.conflicts) conflicting.add(batch[place]->message.id);
  // A statement of its own: its snapshot sees what the insert ran into.
  writer_.send(make_tag(Tag::Find, batch_id), "find_rows", {{PgType::TextArray, conflicting.bytes()}});
}

// Null: the look-up failed. What was inserted stands; the others are missing, so they are inserted again.
void PostgresStore::on_found(std::uint64_t batch_id, const PgReply* reply) {
  const auto found = writing_.find(batch_id);
  DLB_CHECK(found != writing_.end());
  Writing writing = std::move(found->second);
  writing_.erase(found);
  std::unordered_map<std::string_view, int> rows;
  for (int row = 0; reply != nullptr && row < reply->rows(); ++row) rows.emplace(reply->value(row, 2), row);
  for (const std::size_t place : writing.conflicts) {
    const auto row = rows.find((*writing.batch)[place]->message.id);
    if (row == rows.end()) continue;
    writing.replies[place].kind = RowReply::Kind::Existing;
    writing.replies[place].existing = pg_stored_row(*reply, row->second);
  }
  writes_.on_batch_replies(batch_id, writing.replies);
}

// --- reading ---

void PostgresStore::send_read(const RowsRequest& request) {
  reader_.send(make_tag(Tag::ReadGeneration), "read_generation", {{PgType::Int8, pg_int8(request.anchor)}});
  reader_.send(make_tag(Tag::Read), "read_rows",
               {{PgType::Int8, pg_int8(request.from)},
                {PgType::Int8, pg_int8(request.max_rows)},
                {PgType::Int8, pg_int8(request.max_bytes)}});
  rows_asked_ = request.max_rows;
  bytes_asked_ = request.max_bytes;
}

void PostgresStore::send_renew_generation(std::string_view seen) {
  reader_.send(make_tag(Tag::Renew), "renew_generation",
               {{PgType::Text, seen}, {PgType::Text, new_generation()}});
  // Whoever renewed it first: what stands now is what counts.
  reader_.send(make_tag(Tag::RenewedGeneration), "read_generation", {{PgType::Int8, pg_int8(0)}});
}

void PostgresStore::on_reader_reply(std::uint64_t tag, const PgReply& reply) {
  const Tag kind = kind_of(tag);
  if (!reply.ok()) {
    log_.warn("feed read failed", {{"why", reply.text()}});
    if (kind == Tag::Generation || judge_sqlstate(reply.sqlstate()).reconnect)
      reader_.reconnect_soon(reply.text());
    if (kind == Tag::ReadGeneration) generation_read_.reset();
    if (kind == Tag::Read || kind == Tag::RenewedGeneration) feeds_.on_read_failed();
    return;
  }
  switch (kind) {
    case Tag::Read: {
      if (!generation_read_.has_value()) return feeds_.on_read_failed();
      const PgPage page = pg_page(reply, rows_asked_, bytes_asked_);
      return feeds_.on_rows(*generation_read_, page.rows, page.complete, anchor_read_);
    }
    case Tag::ReadGeneration:
      generation_read_.reset();
      if (reply.rows() > 0) {
        generation_read_ = std::string(reply.value(0, 0));
        anchor_read_ = reply.value(0, 1);
      } else {
        make_generation();
      }
      return;
    case Tag::Generation:
    case Tag::RenewedGeneration:
      if (reply.rows() == 0) {
        if (kind == Tag::RenewedGeneration) feeds_.on_read_failed();
        return make_generation();
      }
      if (kind == Tag::RenewedGeneration) return feeds_.on_generation(reply.value(0, 0));
      generation_known_ = true;
      return feeds_.on_reader_up(reply.value(0, 0));
    default:
      return;
  }
}

// The row was deleted: the writer's set-up makes one.
void PostgresStore::make_generation() {
  for (PgConnection* connection : {&writer_, &reader_}) {
    connection->reconnect_soon("the table chat_meta has no generation");
  }
}

// --- hints and health ---

void PostgresStore::stored(const PendingWrite& row, const RowReply& reply) {
  recent_ids_.add(row.message.id);
  feeds_.add_own(row.message, row.sealed->nonce_bytes(), reply.sequence, reply.timestamp_us);
}

void PostgresStore::announce(std::int64_t first_sequence, std::int64_t last_sequence) {
  feeds_.hint_own(last_sequence);
  if (!config_.cluster_events) return;
  notify_first_ = notify_first_ == 0 ? first_sequence : std::min(notify_first_, first_sequence);
  notify_last_ = std::max(notify_last_, last_sequence);
  notify();
}

void PostgresStore::notify() {
  if (notify_first_ == 0 || notifying_ || !listener_.ready()) return;
  notifying_ = true;
  const std::string range = std::to_string(notify_first_) + "-" + std::to_string(notify_last_);
  notify_first_ = notify_last_ = 0;
  listener_.send(make_tag(Tag::Notify), "notify",
                 {{PgType::Text, config_.event_channel}, {PgType::Text, range}});
}

void PostgresStore::on_pg_drained(PgConnection& connection) {
  if (&connection == &writer_) writes_.on_driver_change();
}

void PostgresStore::on_pg_notification(PgConnection& connection, int sender_pid) {
  if (sender_pid != connection.server_pid()) feeds_.hint();
}

void PostgresStore::on_heap_timer(HeapTimer&) {
  if (!health_.ready()) return;  // probes again when it is up
  health_.send(make_tag(Tag::Probe), "probe", {});
}

void PostgresStore::on_health_reply(std::uint64_t tag, const PgReply& reply) {
  if (kind_of(tag) == Tag::Watchdog) {
    if (!reply.ok()) {
      log_.warn("cannot end the session that holds up all writers", {{"why", reply.text()}});
    } else if (reply.rows() > 0) {
      log_.warn("ended sessions that held up all writers while their clients were silent",
                {{"sessions", reply.rows()}});
    }
    return;
  }
  probe_timer_.arm_at(loop_.now() + kProbeInterval);
  if (!reply.ok()) {
    log_.warn("database health probe failed", {{"why", reply.text()}});
  } else if (reply.rows() == 1 && reply.value(0, 0) == std::string_view("\0", 1)) {
    last_probe_ok_ = loop_.now();
    probed_ = true;
  } else {
    // A standby: the primary has moved.
    for (PgConnection* connection :
         {&health_, &writer_, &reader_, &listener_, &chat_reader_, &chat_writer_}) {
      connection->reconnect_soon("the server has become a standby");
    }
  }
}

}  // namespace dlb::backend
