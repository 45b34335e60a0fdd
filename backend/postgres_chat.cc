// PostgresStore's part as the chat's driver: two more connections, one for reads and one for writes.
#include <string>
#include <vector>

#include "backend/pg_schema.h"
#include "backend/pg_tags.h"
#include "backend/postgres_store.h"

namespace dlb::backend {

void PostgresStore::send_page(const PageRequest& request) {
  chat_rows_asked_ = request.max_rows;
  chat_bytes_asked_ = request.max_bytes;
  chat_reader_.send(make_tag(Tag::Page), request.down ? "read_rows_down" : "read_rows",
                    {{PgType::Int8, pg_int8(request.from)},
                     {PgType::Int8, pg_int8(request.max_rows)},
                     {PgType::Int8, pg_int8(request.max_bytes)}});
}

void PostgresStore::send_find_key(std::uint64_t id, std::string_view name) {
  chat_reader_.send(make_tag(Tag::FindKey, id), "find_key", {{PgType::Text, name}});
}

void PostgresStore::send_list_present(std::string_view instance) {
  chat_reader_.send(make_tag(Tag::ListPresent), "list_present", {{PgType::Text, instance}});
}

void PostgresStore::send_claim(std::uint64_t id, std::string_view name, std::string_view public_key) {
  chat_writer_.send(make_tag(Tag::Claim, id), "claim_name",
                    {{PgType::Text, name}, {PgType::Bytea, public_key}});
}

void PostgresStore::send_present(std::string_view instance, std::string_view names,
                                 std::int64_t lease_seconds) {
  chat_writer_.send(
      make_tag(Tag::WritePresent), "write_present",
      {{PgType::Text, instance}, {PgType::Text, names}, {PgType::Int8, pg_int8(lease_seconds)}});
}

void PostgresStore::on_chat_reply(PgConnection& connection, std::uint64_t tag, const PgReply& reply) {
  if (!reply.ok()) {
    log_.warn("chat query failed", {{"why", reply.text()}});
    if (judge_sqlstate(reply.sqlstate()).reconnect) connection.reconnect_soon(reply.text());
    return on_chat_failed(tag);
  }
  switch (kind_of(tag)) {
    case Tag::Page: {
      const PgPage page = pg_page(reply, chat_rows_asked_, chat_bytes_asked_);
      return rows_.on_page(page.rows, page.complete);
    }
    case Tag::FindKey:
    case Tag::Claim:
      return names_.on_key(id_of(tag), reply.rows() > 0 ? reply.value(0, 0) : std::string_view{});
    case Tag::ListPresent: {
      std::vector<std::string_view> lists;
      for (int row = 0; row < reply.rows(); ++row) lists.push_back(reply.value(row, 0));
      return presence_.on_listed(lists);
    }
    case Tag::WritePresent:
      return presence_.on_written();
    default:
      return;
  }
}

void PostgresStore::on_chat_failed(std::uint64_t tag) {
  switch (kind_of(tag)) {
    case Tag::Page:
      return rows_.on_page_failed();
    case Tag::FindKey:
    case Tag::Claim:
      return names_.on_failed(id_of(tag));
    case Tag::ListPresent:
      return presence_.on_list_failed();
    case Tag::WritePresent:
      return presence_.on_write_failed();
    default:
      return;
  }
}

void PostgresStore::on_chat_change() {
  rows_.on_driver_change();
  names_.on_driver_change();
  presence_.on_driver_change();
}

}  // namespace dlb::backend
