// The backend's options: names, defaults, rules across fields, and that the README tells the same.
#include "backend/options.h"

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "test/support/catch.h"

namespace dlb::backend {
namespace {

struct Loaded {
  Options options;
  Result<LoadedOptions> result = Error{"not loaded"};
  Result<void> finished;
};

Loaded load(std::vector<const char*> arguments, std::vector<const char*> environment = {}) {
  Loaded out;
  arguments.insert(arguments.begin(), "backend");
  arguments.push_back(nullptr);
  environment.push_back(nullptr);
  out.result = load_options(option_table(), out.options, static_cast<int>(arguments.size()) - 1,
                            arguments.data(), environment.data());
  if (out.result) out.finished = finish_options(out.options, *out.result);
  return out;
}

TEST_CASE("options come from an environment without a prefix, the command line wins") {
  const auto loaded = load({"--http-port", "7001"},
                           {"HTTP_PORT=7000", "DATABASE_URL=postgresql://h/x", "DB_WRITE_BATCH_SIZE=5",
                            "BACKEND_ID=sys9", "MESSAGE_ENCRYPTION_KEY_FILE=/k", "DATA_DIR=/d"});
  REQUIRE(loaded.finished);
  CHECK(loaded.options.http_port == 7001);
  CHECK(loaded.options.db_write_batch_size == 5);
  CHECK(loaded.options.backend_id == "sys9");
  const StoreConfig store = store_config(loaded.options);
  CHECK(store.database_url == "postgresql://h/x");
  CHECK(store.key_file == "/k");
  CHECK_FALSE(store.create_key_file);
}

TEST_CASE("the embedded mode makes its key in the data folder") {
  const auto loaded = load({"--data-dir", "/d"});
  REQUIRE(loaded.finished);
  const StoreConfig store = store_config(loaded.options);
  CHECK(store.key_file == "/d/encryption.key");
  CHECK(store.create_key_file);
  CHECK_FALSE(loaded.options.backend_id.empty());
}

TEST_CASE("the database URL is never printed") {
  auto loaded = load({"--database-url", "postgresql://u:secretpw@h/x"});
  REQUIRE(loaded.finished);
  CHECK(print_config(option_table(), loaded.options).find("secretpw") == std::string::npos);
}

TEST_CASE("options that can't go together are refused with the place of one of them") {
  CHECK_FALSE(load({"--backend-id", "a b"}).finished);
  CHECK_FALSE(load({"--backend-id", "a\r\nSet-Cookie: x"}).finished);
  CHECK_FALSE(load({"--ws-port", "6000"}).finished);
  CHECK(load({"--ws-port", "6000", "--enable-websocket=false"}).finished);
  CHECK_FALSE(load({"--tls-cert", "/c"}).finished);
  CHECK_FALSE(load({"--data-dir", ""}).finished);
  CHECK_FALSE(load({"--ws-event-channel", "a;drop"}).finished);
  CHECK_FALSE(load({"--db-write-batch-bytes", "32MiB"}).finished);
  CHECK_FALSE(load({"--http-port", "65536"}).result);
  CHECK(load({"--ws-port", "6000"}).finished.error().text.find("--ws-port") == 0);
}

TEST_CASE("the README holds the option table as --help-markdown prints it") {
  const auto loaded = load({"--help-markdown"});
  REQUIRE(loaded.result);
  std::ifstream file("backend/README.md");
  const std::string readme{std::istreambuf_iterator<char>(file), {}};
  REQUIRE_FALSE(readme.empty());
  std::string table = loaded.result->help;
  while (!table.empty() && table.back() == '\n') table.pop_back();
  CHECK(readme.find(table) != std::string::npos);
}

}  // namespace
}  // namespace dlb::backend
