#include "backend/sqlite_statement.h"

#include <sqlite3.h>

#include <cstddef>

namespace dlb::backend {

std::string_view text_column(sqlite3_stmt* statement, int column) {
  const void* bytes = sqlite3_column_blob(statement, column);
  const int size = sqlite3_column_bytes(statement, column);
  return bytes == nullptr ? std::string_view{}
                          : std::string_view(static_cast<const char*>(bytes), static_cast<std::size_t>(size));
}

void bind_text(sqlite3_stmt* statement, int place, std::string_view text) {
  sqlite3_bind_text64(statement, place, text.data(), text.size(), SQLITE_STATIC, SQLITE_UTF8);
}

void bind_blob(sqlite3_stmt* statement, int place, std::string_view bytes) {
  sqlite3_bind_blob64(statement, place, bytes.data(), bytes.size(), SQLITE_STATIC);
}

InUse::~InUse() {
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
}

OneTime::OneTime(sqlite3* db, const char* sql)
    : ok_(sqlite3_prepare_v2(db, sql, -1, &statement_, nullptr) == SQLITE_OK) {}

OneTime::~OneTime() { sqlite3_finalize(statement_); }

}  // namespace dlb::backend
