#include "backend/pg_schema.h"

#include <algorithm>
#include <array>
#include <utility>

namespace dlb::backend {
namespace {

// The first half of the writers' lock (pg_locks.classid); the second is the table's oid.
constexpr std::string_view kLockClass = "1684824321";

constexpr std::string_view kRowColumns =
    "sequence, created_at, message_id, client_name, key_id, nonce, ciphertext, source, signature";

std::vector<PgType> insert_types() {
  return {PgType::TextArray,  PgType::TextArray, PgType::ByteaArray, PgType::ByteaArray,
          PgType::ByteaArray, PgType::Int2Array, PgType::TextArray};
}

}  // namespace

// Commit order must equal sequence order for every writer, ours or not. The trigger fires before the first
// row is fetched, so before nextval, and the lock is held to the end of the transaction. It is taken only
// when the whole statement has arrived: a stalled client never holds it for the time of its upload.
std::string pg_schema_setup() {
  std::string sql = R"sql(DO $setup$
BEGIN
  IF to_regclass('chat_messages') IS NOT NULL AND to_regclass('chat_meta') IS NOT NULL
     AND to_regclass('chat_key_usage') IS NOT NULL AND to_regclass('chat_users') IS NOT NULL
     AND to_regclass('chat_presence') IS NOT NULL
     AND EXISTS (SELECT FROM pg_trigger WHERE tgrelid = to_regclass('chat_messages')
                 AND tgname = 'chat_messages_in_order' AND tgenabled IN ('O', 'A')) THEN
    IF EXISTS (SELECT FROM chat_meta WHERE name = 'generation') THEN
      RETURN;
    END IF;
  END IF;
  PERFORM pg_advisory_xact_lock((LOCK_CLASS::bigint << 32) | 1);
  CREATE TABLE IF NOT EXISTS chat_messages (
    sequence    bigint GENERATED ALWAYS AS IDENTITY (CACHE 1) PRIMARY KEY,
    message_id  text COLLATE "C" NOT NULL UNIQUE,
    client_name text COLLATE "C" NOT NULL,
    key_id      bytea NOT NULL,
    nonce       bytea NOT NULL,
    ciphertext  bytea NOT NULL,
    source      smallint NOT NULL DEFAULT 0,
    signature   text,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp()
  );
  ALTER TABLE chat_messages ALTER COLUMN ciphertext SET STORAGE EXTERNAL;
  CREATE TABLE IF NOT EXISTS chat_meta (name text PRIMARY KEY, value text NOT NULL);
  CREATE TABLE IF NOT EXISTS chat_key_usage (key_id bytea PRIMARY KEY, reserved bigint NOT NULL);
  CREATE TABLE IF NOT EXISTS chat_users (
    username   text COLLATE "C" PRIMARY KEY,
    public_key bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
  );
  CREATE TABLE IF NOT EXISTS chat_presence (
    instance text COLLATE "C" PRIMARY KEY, names text NOT NULL, expires_at timestamptz NOT NULL
  );
  INSERT INTO chat_meta (name, value) VALUES ('generation', gen_random_uuid()::text) ON CONFLICT DO NOTHING;
  CREATE OR REPLACE FUNCTION chat_messages_in_order() RETURNS trigger LANGUAGE plpgsql AS $body$
  BEGIN
    PERFORM pg_advisory_xact_lock((LOCK_CLASS::bigint << 32) | TG_RELID::bigint);
    RETURN NULL;
  END
  $body$;
  IF NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = to_regclass('chat_messages')
                 AND tgname = 'chat_messages_in_order') THEN
    CREATE TRIGGER chat_messages_in_order BEFORE INSERT ON chat_messages
      FOR EACH STATEMENT EXECUTE FUNCTION chat_messages_in_order();
  END IF;
  ALTER TABLE chat_messages ENABLE ALWAYS TRIGGER chat_messages_in_order;
END
$setup$)sql";
  constexpr std::string_view kPlace = "LOCK_CLASS";
  for (std::size_t at = sql.find(kPlace); at != std::string::npos; at = sql.find(kPlace)) {
    sql.replace(at, kPlace.size(), kLockClass);
  }
  return sql;
}

// Rows are inserted in the order in which the arrays have them, so sequences follow it.
PgStatement pg_insert_batch() {
  return {"insert_batch",
          "INSERT INTO chat_messages (message_id, client_name, key_id, nonce, ciphertext, source, signature) "
          "SELECT * FROM unnest($1::text[], $2::text[], $3::bytea[], $4::bytea[], $5::bytea[], "
          "$6::smallint[], $7::text[]) "
          "ON CONFLICT (message_id) DO NOTHING RETURNING message_id, sequence, created_at",
          insert_types()};
}

// NOT EXISTS keeps repeats from burning sequence values; what its snapshot can't see yet, ON CONFLICT
// catches. It costs a quarter of the insert, so it is for the time in which repeats are seen.
PgStatement pg_insert_batch_with_repeats() {
  return {
      "insert_batch_with_repeats",
      "INSERT INTO chat_messages (message_id, client_name, key_id, nonce, ciphertext, source, signature) "
      "SELECT u.message_id, u.client_name, u.key_id, u.nonce, u.ciphertext, u.source, u.signature "
      "FROM unnest($1::text[], $2::text[], $3::bytea[], $4::bytea[], $5::bytea[], $6::smallint[], "
      "$7::text[]) "
      "WITH ORDINALITY AS u(message_id, client_name, key_id, nonce, ciphertext, source, signature, place) "
      "WHERE NOT EXISTS (SELECT FROM chat_messages m WHERE m.message_id = u.message_id) "
      "ORDER BY u.place ON CONFLICT (message_id) DO NOTHING RETURNING message_id, sequence, created_at",
      insert_types()};
}

PgStatement pg_find_rows() {
  return {"find_rows",
          "SELECT " + std::string(kRowColumns) + " FROM chat_messages WHERE message_id = ANY ($1::text[])",
          {PgType::TextArray}};
}

PgStatement pg_reserve_key() {
  return {"reserve_key",
          "INSERT INTO chat_key_usage AS k (key_id, reserved) VALUES ($1, $2) ON CONFLICT (key_id) DO UPDATE "
          "SET reserved = k.reserved + $2 WHERE k.reserved + $2 <= $3 RETURNING reserved",
          {PgType::Bytea, PgType::Int8, PgType::Int8}};
}

namespace {

// The cut by bytes costs a running sum and no more: whether there is one is seen by who reads the rows.
PgStatement page_statement(const char* name, bool down) {
  const std::string columns(kRowColumns);
  const std::string order = down ? "sequence DESC" : "sequence";
  return {name,
          "SELECT " + columns + " FROM (SELECT " + columns +
              ", sum(octet_length(ciphertext)) OVER (ORDER BY " + order +
              " ROWS UNBOUNDED PRECEDING) - octet_length(ciphertext) AS before FROM (SELECT " + columns +
              " FROM chat_messages WHERE sequence " + (down ? "<=" : ">=") + " $1 ORDER BY " + order +
              " LIMIT $2) AS page) AS sized WHERE before < $3 ORDER BY " + order,
          {PgType::Int8, PgType::Int8, PgType::Int8}};
}

}  // namespace

PgStatement pg_read_rows() { return page_statement("read_rows", false); }
PgStatement pg_read_rows_down() { return page_statement("read_rows_down", true); }

PgStatement pg_find_key() {
  return {"find_key", "SELECT public_key FROM chat_users WHERE username = $1", {PgType::Text}};
}

PgStatement pg_claim_name() {
  return {
      "claim_name",
      "WITH mine AS (INSERT INTO chat_users (username, public_key) VALUES ($1, $2) ON CONFLICT (username) DO "
      "NOTHING RETURNING public_key) SELECT public_key FROM mine UNION ALL SELECT public_key FROM chat_users "
      "WHERE username = $1 AND NOT EXISTS (SELECT FROM mine)",
      {PgType::Text, PgType::Bytea}};
}

PgStatement pg_list_present() {
  return {"list_present",
          "SELECT names FROM chat_presence WHERE expires_at > clock_timestamp() AND instance <> $1",
          {PgType::Text}};
}

PgStatement pg_write_present() {
  return {"write_present",
          "WITH gone AS (DELETE FROM chat_presence WHERE expires_at < clock_timestamp() - interval '1 "
          "minute' AND "
          "instance <> $1) INSERT INTO chat_presence (instance, names, expires_at) VALUES ($1, $2, "
          "clock_timestamp() + $3 * interval '1 second') ON CONFLICT (instance) DO UPDATE SET names = "
          "EXCLUDED.names, expires_at = EXCLUDED.expires_at",
          {PgType::Text, PgType::Text, PgType::Int8}};
}

PgStatement pg_read_generation() {
  return {"read_generation",
          "SELECT value, (SELECT nonce FROM chat_messages WHERE sequence = $1) FROM chat_meta WHERE name = "
          "'generation'",
          {PgType::Int8}};
}

PgStatement pg_renew_generation() {
  return {"renew_generation",
          "UPDATE chat_meta SET value = $2 WHERE name = 'generation' AND value = $1",
          {PgType::Text, PgType::Text}};
}

PgStatement pg_end_silent_lock_holders() {
  return {
      "end_silent_lock_holders",
      "SELECT h.pid, pg_terminate_backend(h.pid) FROM (SELECT l.pid FROM pg_locks l JOIN pg_stat_activity a "
      "ON a.pid = l.pid WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 AND l.classid = " +
          std::string(kLockClass) +
          " AND l.objid = to_regclass('chat_messages')::oid AND l.database = (SELECT oid FROM pg_database "
          "WHERE "
          "datname = current_database()) AND a.wait_event = 'ClientRead' AND a.state_change < "
          "clock_timestamp() - "
          "interval '2 seconds') AS h",
      {}};
}

StoredRow pg_stored_row(const PgReply& reply, int row) {
  StoredRow out;
  out.sequence = pg_integer(reply.value(row, 0));
  out.timestamp_us = pg_timestamp_us(reply.value(row, 1));
  out.message_id = reply.value(row, 2);
  out.client_name = reply.value(row, 3);
  out.key_id = reply.value(row, 4);
  out.nonce = reply.value(row, 5);
  out.ciphertext = reply.value(row, 6);
  out.source = pg_integer(reply.value(row, 7)) == 1 ? MessageSource::Wss : MessageSource::Http;
  out.signature = reply.value(row, 8);
  return out;
}

PgPage pg_page(const PgReply& reply, std::int64_t max_rows, std::int64_t max_bytes) {
  PgPage out;
  out.rows.reserve(static_cast<std::size_t>(reply.rows()));
  std::size_t bytes = 0;
  for (int row = 0; row < reply.rows(); ++row) {
    out.rows.push_back(pg_stored_row(reply, row));
    bytes += out.rows.back().ciphertext.size();
  }
  out.complete = std::ssize(out.rows) < max_rows && std::cmp_less(bytes, max_bytes);
  return out;
}

PgVerdict judge_sqlstate(std::string_view sqlstate) {
  constexpr std::array<std::string_view, 4> kPassing{"40P01", "40001", "55P03", "57014"};
  // Shutting down, a server that has become a standby, tables or plans that are not those we prepared for.
  constexpr std::array<std::string_view, 10> kStale{"57P01", "57P02", "57P03", "57P04", "25006",
                                                    "42P01", "42703", "42883", "26000", "0A000"};
  const auto among = [sqlstate](const auto& list) {
    return std::find(list.begin(), list.end(), sqlstate) != list.end();
  };
  if (among(kPassing)) return {BatchFailure::Retry, false};
  if (among(kStale)) return {BatchFailure::Retry, true};
  const std::string_view kind = sqlstate.substr(0, 2);
  if (kind == "08") return {BatchFailure::Lost, true};
  constexpr std::array<std::string_view, 7> kOfARow{"21", "22", "23", "44", "54", "P0", "XX"};
  if (std::find(kOfARow.begin(), kOfARow.end(), kind) != kOfARow.end()) return {BatchFailure::Poison, false};
  return {BatchFailure::Down, sqlstate.empty()};
}

}  // namespace dlb::backend
