// The tables in PostgreSQL, every statement that touches them, and what an SQLSTATE means for a batch. Text
// and rules only; the connections are PostgresStore's.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backend/pg_connection.h"
#include "backend/stored_row.h"

namespace dlb::backend {

// One command that makes what is missing and touches nothing else, so that a role without CREATE can run it
// on tables that are there. Safe when any number of backends run it at once.
std::string pg_schema_setup();

// For the writer: inserts a batch in the order given, skipping ids that are there.
// $1.. message ids, client names, key ids, nonces, ciphertexts, sources, signatures (arrays).
// Answers message_id, sequence, created_at of the rows that were inserted, in order.
PgStatement pg_insert_batch();
// The same where repeats are frequent: they cost no sequence values.
PgStatement pg_insert_batch_with_repeats();
// $1 message ids (array). Answers rows in pg_stored_row()'s columns.
PgStatement pg_find_rows();
// $1 key id, $2 block, $3 limit. Answers the counter, or no row when the limit is reached.
PgStatement pg_reserve_key();

// For the reader: rows with sequence >= $1, at most $2, cut after about $3 bytes of ciphertext. Answers
// pg_page().
PgStatement pg_read_rows();
// $1 a sequence. Answers the generation and that row's nonce (null: there is none).
PgStatement pg_read_generation();
// $1 the generation seen, $2 a new one.
PgStatement pg_renew_generation();

// For the chat's reader: rows with sequence <= $1 downwards; otherwise as pg_read_rows().
PgStatement pg_read_rows_down();
// $1 a name. Answers its key, or no row.
PgStatement pg_find_key();
// $1 an instance. Answers the lists of names of all others whose leases hold.
PgStatement pg_list_present();

// For the chat's writer.
// $1 a name, $2 a key. Answers the key that has the name; no row when another took it at this very moment.
PgStatement pg_claim_name();
// $1 an instance, $2 its names, $3 the seconds of its lease.
PgStatement pg_write_present();

// For the health connection. Ends sessions that hold the writers' lock while their client has been silent
// over 2 s; answers their pids.
PgStatement pg_end_silent_lock_holders();

StoredRow pg_stored_row(const PgReply& reply, int row);

struct PgPage {
  std::vector<StoredRow> rows;
  bool complete = false;  // neither bound was reached: there are no rows behind the last of these
};
// Views into the reply.
PgPage pg_page(const PgReply& reply, std::int64_t max_rows, std::int64_t max_bytes);

struct PgVerdict {
  BatchFailure failure = BatchFailure::Down;
  bool reconnect = false;  // the session is of no use any more, or the schema must be set up again
};
PgVerdict judge_sqlstate(std::string_view sqlstate);

}  // namespace dlb::backend
