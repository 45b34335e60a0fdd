// insert_limit: what the database itself takes: rows of the chat's table in batches of fixed size, several of
// them in flight on one connection, under the same lock (the table's trigger) as the backends'. Nothing is
// read from a client, encrypted or answered. Used by inserts.py as the figure that a backend's is put beside.
//
//   DATABASE_URL=… insert_limit SECONDS [BATCH [DEPTH [BYTES]]]     default: 50 rows, 4 batches, 200 bytes
//
// Prints one line: `rows R seconds S cpu C` (C: this process's CPU seconds). Exit code 1 when the database
// refuses.
#include <libpq-fe.h>
#include <poll.h>
#include <sys/resource.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kColumns = 5;  // message_id, client_name, key_id, nonce, ciphertext

[[noreturn]] void fail(const char* what, PGconn* connection) {
  std::fprintf(stderr, "insert_limit: %s: %s\n", what,
               connection != nullptr ? PQerrorMessage(connection) : "");
  std::exit(1);
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// One batch's parameters in binary; ids are new each time, the rest is made once.
class Batch {
 public:
  Batch(int rows, std::size_t bytes) : rows_(rows), text_(bytes + 16, '\x5a') {
    const auto count = static_cast<std::size_t>(rows * kColumns);
    ids_.resize(static_cast<std::size_t>(rows));
    nonces_.resize(static_cast<std::size_t>(rows));
    values_.resize(count);
    lengths_.resize(count);
    formats_.assign(count, 1);
  }

  void refill(std::mt19937_64& random) {
    for (std::size_t row = 0; row < ids_.size(); ++row) {
      std::array<char, 40> id{};
      std::snprintf(id.data(), id.size(), "%08x-%04x-4%03x-8%03x-%012llx", static_cast<unsigned>(random()),
                    static_cast<unsigned>(random() & 0xffff), static_cast<unsigned>(random() & 0xfff),
                    static_cast<unsigned>(random() & 0xfff),
                    static_cast<unsigned long long>(random() & 0xffffffffffffU));
      ids_[row] = id.data();
      for (char& byte : nonces_[row]) byte = static_cast<char>(random());
      set(row, 0, ids_[row]);
      set(row, 1, name_);
      set(row, 2, key_);
      set(row, 3, nonces_[row]);
      set(row, 4, text_);
    }
  }

  void send(PGconn* connection) const {
    if (PQsendQueryPrepared(connection, "rows", rows_ * kColumns, values_.data(), lengths_.data(),
                            formats_.data(), 0) != 1 ||
        PQpipelineSync(connection) != 1) {
      fail("a batch could not be sent", connection);
    }
  }

 private:
  template <class Text>
  void set(std::size_t row, std::size_t column, const Text& text) {
    values_[row * kColumns + column] = text.data();
    lengths_[row * kColumns + column] = static_cast<int>(text.size());
  }

  int rows_;
  std::string name_ = "user-of-the-limit", key_ = "12345678", text_;
  std::vector<std::string> ids_;
  std::vector<std::array<char, 12>> nonces_;
  std::vector<const char*> values_;
  std::vector<int> lengths_, formats_;
};

void prepare(PGconn* connection, int rows) {
  std::string sql = "INSERT INTO chat_messages (message_id, client_name, key_id, nonce, ciphertext) VALUES ";
  int parameter = 0;
  for (int row = 0; row < rows; ++row) {
    sql += row == 0 ? "(" : ", (";
    for (int column = 0; column < kColumns; ++column) {
      sql += (column == 0 ? "$" : ", $") + std::to_string(++parameter);
    }
    sql += ")";
  }
  sql += " ON CONFLICT (message_id) DO NOTHING RETURNING message_id, sequence, created_at";
  PGresult* result = PQprepare(connection, "rows", sql.c_str(), 0, nullptr);
  if (PQresultStatus(result) != PGRES_COMMAND_OK) fail("the insert could not be prepared", connection);
  PQclear(result);
}

// Waits for input while sending what is left, so that neither side blocks the other.
void wait(PGconn* connection) {
  const int unsent = PQflush(connection);
  if (unsent < 0) fail("sending", connection);
  pollfd socket{PQsocket(connection), static_cast<short>(unsent > 0 ? POLLIN | POLLOUT : POLLIN), 0};
  poll(&socket, 1, 10'000);
  if (PQconsumeInput(connection) != 1) fail("receiving", connection);
}

}  // namespace

int main(int argc, char** argv) {
  const double duration = argc > 1 ? std::atof(argv[1]) : 5;
  const int rows = argc > 2 ? std::atoi(argv[2]) : 50;
  const int depth = argc > 3 ? std::atoi(argv[3]) : 4;
  const int bytes = argc > 4 ? std::atoi(argv[4]) : 200;
  const char* url = std::getenv("DATABASE_URL");
  if (url == nullptr || duration <= 0 || rows < 1 || rows > 1000 || depth < 1 || bytes < 1) {
    std::fprintf(stderr, "usage: DATABASE_URL=… insert_limit SECONDS [BATCH [DEPTH [BYTES]]]\n");
    return 2;
  }
  PGconn* connection = PQconnectdb(url);
  if (PQstatus(connection) != CONNECTION_OK) fail("no connection", connection);
  prepare(connection, rows);
  if (PQsetnonblocking(connection, 1) != 0 || PQenterPipelineMode(connection) != 1)
    fail("pipeline mode", connection);

  std::mt19937_64 random(std::random_device{}());
  Batch batch(rows, static_cast<std::size_t>(bytes));
  const auto begin = Clock::now();
  const auto end = begin + std::chrono::duration<double>(duration);
  std::int64_t done = 0;
  int in_flight = 0;
  while (true) {
    while (in_flight < depth && Clock::now() < end) {
      batch.refill(random);
      batch.send(connection);
      ++in_flight;
    }
    if (in_flight == 0) break;
    wait(connection);
    while (in_flight > 0 && PQisBusy(connection) == 0) {
      PGresult* result = PQgetResult(connection);
      if (result == nullptr) continue;  // between a batch and its sync
      const ExecStatusType status = PQresultStatus(result);
      if (status == PGRES_PIPELINE_SYNC) {
        --in_flight;
      } else if (status == PGRES_TUPLES_OK) {
        done += PQntuples(result);
      } else {
        fail("a batch was refused", connection);
      }
      PQclear(result);
    }
  }
  const double took = std::chrono::duration<double>(Clock::now() - begin).count();
  std::printf("rows %lld seconds %.3f cpu %.3f\n", static_cast<long long>(done), took, cpu_seconds());
  PQfinish(connection);
  return 0;
}
