// The API over the embedded store: what is acknowledged is in the feed, byte-exact, also after a new start.
#include <stdlib.h>

#include <filesystem>
#include <memory>

#include "backend/store_factory.h"
#include "test/unit/backend/api_fixture.h"

namespace dlb::backend {
namespace {

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "dlb-api-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct SqliteApi : ApiHarness {
  explicit SqliteApi(const std::string& folder) {
    StoreConfig config;
    config.backend_id = "sysX";
    config.data_dir = folder;
    config.key_file = folder + "/encryption.key";
    config.create_key_file = true;
    auto made = make_store(loop, log, config);
    REQUIRE(made.has_value());
    store = std::move(*made);
    serve(*store);
    pump([&] { return store->healthy(); });
  }
  std::unique_ptr<MessageStore> store;
};

TEST_CASE("CH-19, CH-20 text comes back byte-exact by the feed, also after a new start") {
  const Folder folder;
  const std::string text =
      "  e\xCC\x81 \xC3\xA9 \xF0\x9F\x91\xA8\xE2\x80\x8D\xF0\x9F\x91\xA9 \\u0041\\n\\t\\\"\\u0001 ";
  std::string feed;
  {
    SqliteApi api(folder.path());
    CHECK(api.post(R"({"client-name":"ann","msg":")" + text + R"(","message-id":"k1"})").status == 201);
    const Response response = api.get("/feed");
    CHECK(response.status == 200);
    feed = response.body;
    CHECK(feed.find(
              "  e\xCC\x81 \xC3\xA9 \xF0\x9F\x91\xA8\xE2\x80\x8D\xF0\x9F\x91\xA9 A\\n\\t\\\"\\u0001 \"") !=
          std::string::npos);
    CHECK(feed.find(R"("count":1)") != std::string::npos);
    CHECK(api.get("/feed", "If-None-Match: " + response.header("ETag") + "\r\n").status == 304);
  }
  SqliteApi api(folder.path());
  CHECK(api.get("/feed").body == feed);
  CHECK(api.post(R"({"client-name":"ann","msg":")" + text + R"(","message-id":"k1"})").status == 200);
  CHECK(api.post(R"({"client-name":"ann","msg":"other","message-id":"k1"})").status == 409);
  CHECK(api.get("/feed?after=1").body.find(R"("messages":[])") != std::string::npos);
}

TEST_CASE("CH-23 fifty posts of one id at once are one 201 and forty-nine 200 with one sequence") {
  const Folder folder;
  SqliteApi api(folder.path());
  const std::string body = R"({"client-name":"ann","msg":"same"})";
  std::vector<Fd> clients;
  for (int i = 0; i < 50; ++i) {
    clients.push_back(api.dial());
    ApiHarness::send_all(clients.back(),
                         "POST /message HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k1\r\nContent-Length: " +
                             std::to_string(body.size()) + "\r\n\r\n" + body);
  }
  int created = 0;
  int duplicates = 0;
  for (const Fd& client : clients) {
    const Response response = api.read_response(client);
    created += response.status == 201 ? 1 : 0;
    duplicates += response.status == 200 ? 1 : 0;
    CHECK(response.body.find(R"("sequence":1,)") != std::string::npos);
  }
  CHECK(created == 1);
  CHECK(duplicates == 49);
}

}  // namespace
}  // namespace dlb::backend
