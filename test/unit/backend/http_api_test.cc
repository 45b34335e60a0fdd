// Routes, statuses and bodies of the backend's API as bytes on a socket.
#include "backend/http_api.h"

#include <simdjson.h>

#include "backend/etag.h"
#include "backend/metrics.h"
#include "test/unit/backend/api_fixture.h"

namespace dlb::backend {
namespace {

constexpr std::string_view kHello = R"({"client-name":"ann","msg":"hello","message-id":"k1"})";

std::string text_at(const std::string& json, const char* pointer) {
  simdjson::dom::parser parser;
  simdjson::dom::element document;
  std::string_view text;
  if (parser.parse(json).get(document) != simdjson::SUCCESS) return "(no JSON)";
  if (document.at_pointer(pointer).get(text) != simdjson::SUCCESS) return "(no text)";
  return std::string(text);
}

TEST_CASE_METHOD(ApiFixture, "a message is created, repeated and contradicted") {
  const Response created = post(kHello);
  CHECK(created.status == 201);
  CHECK(
      created.body ==
      R"({"status":"created","duplicate":false,"message":{"message-id":"k1","client-name":"ann","msg":"hello",)"
      R"("timestamp":"2026-09-09T14:00:00.123456+00:00","sequence":1,"source":"http"}})");
  CHECK(created.header("Content-Type") == "application/json");
  const Response repeated = post(R"({"message-id":"k1","msg":"hello","client-name":"ann"})");
  CHECK(repeated.status == 200);
  CHECK(repeated.body.find(R"({"status":"duplicate","duplicate":true,"message":{"message-id":"k1",)") == 0);
  CHECK(repeated.body.find(R"("sequence":1,)") != std::string::npos);
  for (const char* other : {R"({"client-name":"ann","msg":"other","message-id":"k1"})",
                            R"({"client-name":"bob","msg":"hello","message-id":"k1"})"}) {
    const Response conflict = post(other);  // CH-25
    CHECK(conflict.status == 409);
    CHECK(text_at(conflict.body, "/error") == "id_conflict");
  }
  REQUIRE(store.kept.size() == 1);
}

TEST_CASE_METHOD(ApiFixture, "a message comes by JSON, form and query, and by no content type at all") {
  CHECK(post(R"({"client-name":"a","msg":"1"})", "").status == 201);
  CHECK(
      post(R"({"client-name":"a","msg":"2"})", "Content-Type: application/json; charset=utf-8\r\n").status ==
      201);
  CHECK(post("client-name=a&msg=3+x", "Content-Type: application/x-www-form-urlencoded\r\n").status == 201);
  CHECK(get("/message?client-name=a&msg=4%2B&message-id=q1").status == 201);
  CHECK(get("/message?client-name=a&msg=4%2B", "Idempotency-Key: q1\r\n").status == 200);
  CHECK(post("client-name=a&msg=3", "Content-Type: text/plain\r\n").status == 415);
  REQUIRE(store.kept.size() == 4);
  CHECK(store.kept[2].text == "3 x");
  CHECK(store.kept[3].text == "4+");
  CHECK(store.kept[0].id.size() == 36);
  CHECK(store.kept[0].id != store.kept[1].id);
}

TEST_CASE_METHOD(ApiFixture, "CH-23 the Idempotency-Key makes a repeat without an id a duplicate") {
  const std::string_view body = R"({"client-name":"a","msg":"m"})";
  CHECK(post(body, "Idempotency-Key: key-1\r\n").status == 201);
  const Response again = post(body, "Idempotency-Key: key-1\r\n");
  CHECK(again.status == 200);
  CHECK(text_at(again.body, "/message/message-id") == "key-1");
  CHECK(post(kHello, "Idempotency-Key: k1\r\n").status == 201);
  CHECK(post(kHello, "Idempotency-Key: k2\r\n").status == 400);
  CHECK(post(body, "Idempotency-Key: a\r\nIdempotency-Key: a\r\n").status == 400);
  CHECK(post(body, "Idempotency-Key: " + std::string(129, 'k') + "\r\n").status == 400);
  CHECK(post(body, "Idempotency-Key:\r\n").status == 400);
  CHECK(post(body, "Idempotency-Key: \xFF\r\n").status == 400);
  CHECK(get("/message?client-name=a&msg=m", "Idempotency-Key: key-1\r\n").status == 200);
  CHECK(get("/message?client-name=a&msg=m", "Idempotency-Key: " + std::string(129, 'k') + "\r\n").status ==
        400);
}

TEST_CASE_METHOD(ApiFixture, "refusals name the field and store nothing") {
  const Response missing = post(R"({"client-name":"a"})");
  CHECK(missing.status == 400);
  CHECK(text_at(missing.body, "/error") == "bad_request");
  CHECK(text_at(missing.body, "/detail").find("msg") == 0);
  CHECK(text_at(post("{").body, "/error") == "bad_json");
  CHECK(post("").status == 400);
  const Response large =
      post(R"({"client-name":"a","msg":")" + std::string(kMessageMaxBytes + 1, 'x') + "\"}");
  CHECK(large.status == 413);
  CHECK(text_at(large.body, "/error") == "too_large");
  CHECK(store.kept.empty());
}

TEST_CASE_METHOD(ApiFixture, "what the store can't do is a 503 with Retry-After, or a 500") {
  store.mode = ScriptedStore::Mode::Answer;
  store.outcome.status = PutStatus::Unavailable;
  const Response away = post(kHello);
  CHECK(away.status == 503);
  CHECK(text_at(away.body, "/error") == "unavailable");
  CHECK(away.header("Retry-After") == "1");
  store.outcome.status = PutStatus::OutcomeUnknown;
  const Response unknown = post(kHello);
  CHECK(unknown.status == 503);
  CHECK(text_at(unknown.body, "/error") == "outcome_unknown");
  CHECK(unknown.header("Retry-After") == "1");
  store.outcome.status = PutStatus::Refused;
  CHECK(post(kHello).status == 500);
  store.feed_answer.available = false;
  const Response feed = get("/feed");
  CHECK(feed.status == 503);
  CHECK(feed.header("Retry-After") == "1");
}

TEST_CASE_METHOD(ApiFixture, "the feed passes its query on and answers 304 to its own ETag") {
  const Response whole = get("/feed");
  CHECK(whole.status == 200);
  CHECK(whole.body == R"({"messages":[],"count":0})");
  CHECK(whole.header("ETag") == "\"abc\"");
  CHECK_FALSE(store.last_query.paged);
  CHECK(get("/feed?after=12&limit=5000").status == 200);
  CHECK(store.last_query.paged);
  CHECK(store.last_query.after == 12);
  CHECK(store.last_query.limit == 1000);
  CHECK(get("/feed?limit=0").status == 400);
  CHECK(get("/feed?after=-1").status == 400);
  const Response same = get("/feed", "If-None-Match: \"x\", \"abc\"\r\n");
  CHECK(same.status == 304);
  CHECK(same.body.empty());
  CHECK(same.header("ETag") == "\"abc\"");
  CHECK(get("/feed", "If-None-Match: \"x\"\r\nIf-None-Match: \"abc\"\r\n").status == 304);
  CHECK(get("/feed", "If-None-Match: *\r\n").status == 304);
  CHECK(get("/feed", "If-None-Match: \"x\"\r\n").status == 200);
}

TEST_CASE("ETags are compared whole, in lists, weakly") {
  CHECK(etag_matches("\"a\"", "\"a\""));
  CHECK(etag_matches(" * ", "\"a\"") == false);  // the server trims field values; this is no `*`
  CHECK(etag_matches("*", "\"a\""));
  CHECK(etag_matches("W/\"a\"", "\"a\""));
  CHECK(etag_matches("\"b\" ,, \"a\"", "\"a\""));
  CHECK(etag_matches("\"b,\\\", \"a\"", "\"a\"") == true);
  CHECK_FALSE(etag_matches("", "\"a\""));
  CHECK_FALSE(etag_matches("a", "\"a\""));
  CHECK_FALSE(etag_matches("\"a", "\"a\""));
  CHECK_FALSE(etag_matches("\"ab\"", "\"a\""));
  CHECK_FALSE(etag_matches("w/\"a\"", "\"a\""));
  CHECK_FALSE(etag_matches("\"b\" \"", "\"a\""));
}

TEST_CASE_METHOD(ApiFixture, "health tells database and process apart") {
  CHECK(get("/health").body == R"({"status":"ok","database":"ok","backend-id":"sysX"})");
  store.up = false;
  const Response down = get("/health");
  CHECK(down.status == 503);
  CHECK(down.body == R"({"status":"unavailable","database":"down","backend-id":"sysX"})");
  const Response shallow = get("/healthz");
  CHECK(shallow.status == 200);
  CHECK(text_at(shallow.body, "/status") == "ok");
}

TEST_CASE_METHOD(ApiFixture, "every answer names the backend and allows any origin") {
  for (const Response& response : {get("/health"), get("/nothing"), exchange("DELETE", "/feed"), get("/feed"),
                                   post(kHello), post("{"), exchange("OPTIONS", "*"), get("/bad path")}) {
    CAPTURE(response.head);
    CHECK(response.header("X-Backend") == "sysX");
    CHECK(response.header("Access-Control-Allow-Origin") == "*");
  }
}

TEST_CASE_METHOD(ApiFixture, "OPTIONS answers on every path with methods and headers") {
  for (const char* target : {"*", "/message", "/feed", "/nothing", "/"}) {
    const Response response = exchange("OPTIONS", target, "Origin: https://a.example\r\n");
    CHECK(response.status == 204);
    CHECK(response.header("Access-Control-Allow-Methods") == "GET, HEAD, POST, OPTIONS");
    CHECK(response.header("Access-Control-Allow-Headers") == "Content-Type, Idempotency-Key");
    CHECK_FALSE(response.header("Allow").empty());
  }
}

TEST_CASE_METHOD(ApiFixture, "methods: HEAD where GET only reads, 405 with Allow, 404") {
  for (const char* target : {"/feed", "/health", "/healthz", "/internal/stats", "/info", "/metrics", "/"}) {
    CAPTURE(target);
    const Response head = exchange("HEAD", target);
    CHECK(head.status == 200);
    CHECK(head.body.empty());
    CHECK(std::stoul(head.header("Content-Length")) > 10);
    const Response posted = exchange("POST", target, {}, "x");
    CHECK(posted.status == 405);
    CHECK(posted.header("Allow") == "GET, HEAD, OPTIONS");
  }
  const Response head = exchange("HEAD", "/message");
  CHECK(head.status == 405);
  CHECK(head.header("Allow") == "GET, POST, OPTIONS");
  CHECK(exchange("PUT", "/message", {}, "x").status == 405);
  for (const char* target : {"/nothing", "/feed/", "/Feed", "/message/1"}) CHECK(get(target).status == 404);
}

TEST_CASE_METHOD(ApiFixture, "internal stats have the shape that the balancer reads") {
  const Response response = get("/internal/stats");
  simdjson::dom::parser parser;
  simdjson::dom::element document;
  REQUIRE(parser.parse(response.body).get(document) == simdjson::SUCCESS);
  for (const char* pointer :
       {"/backend-id", "/cpu_percent", "/memory/total_bytes", "/memory/working_set_bytes",
        "/memory/limit_bytes", "/memory/total_percent", "/memory/working_set_percent",
        "/memory/unreclaimable_percent", "/memory/inactive_file_bytes", "/memory/sock_bytes",
        "/memory/rss_bytes", "/requests/in_flight", "/requests/total", "/write_queue/queued",
        "/encryption/encrypts", "/feed_cache/rows", "/ws"}) {
    CAPTURE(pointer);
    CHECK(document.at_pointer(pointer).error() == simdjson::SUCCESS);
  }
  std::uint64_t total = 0;
  std::uint64_t in_flight = 9;
  REQUIRE(document.at_pointer("/requests/total").get(total) == simdjson::SUCCESS);
  REQUIRE(document.at_pointer("/requests/in_flight").get(in_flight) == simdjson::SUCCESS);
  CHECK(total == 1);
  CHECK(in_flight == 0);
}

TEST_CASE_METHOD(ApiFixture, "metrics come as Prometheus text and as JSON") {
  post(kHello);
  const Response text = get("/metrics");
  CHECK(text.header("Content-Type") == "text/plain; version=0.0.4; charset=utf-8");
  CHECK(text.body.find("dlb_backend_messages_total{backend=\"sysX\",outcome=\"created\"} 1") !=
        std::string::npos);
  const Response json = get("/metrics?format=json");
  simdjson::dom::parser parser;
  simdjson::dom::element document;
  REQUIRE(parser.parse(json.body).get(document) == simdjson::SUCCESS);
  std::uint64_t created = 0;
  REQUIRE(document.at_pointer("/messages/created").get(created) == simdjson::SUCCESS);
  CHECK(created == 1);
  CHECK(get("/metrics?format=xml").status == 400);
  CHECK(metric_row_faults(metric_rows()).empty());
}

TEST_CASE_METHOD(ApiFixture, "the page is self-contained") {
  const Response page = get("/");
  CHECK(page.status == 200);
  CHECK(page.header("Content-Type") == "text/html; charset=utf-8");
  for (const char* outside : {"src=", "href=\"http", "url(http", "url(\"http", "@import", "import("}) {
    INFO(outside);
    CHECK(page.body.find(outside) == std::string::npos);
  }
}

TEST_CASE_METHOD(ApiFixture, "info says limits and where WSS is") {
  const Response info = get("/info");
  CHECK(text_at(info.body, "/backend-id") == "sysX");
  CHECK(text_at(info.body, "/store") == "sqlite");
  CHECK(info.body.find(R"("wss":{"enabled":false,"port":0,"url":null})") != std::string::npos);
}

TEST_CASE_METHOD(ApiFixture, "a client that leaves cancels its wait") {
  store.mode = ScriptedStore::Mode::Hold;
  {
    const Fd fd = dial();
    send_all(fd, "POST /message HTTP/1.1\r\nHost: x\r\nContent-Length: 53\r\n\r\n" + std::string(kHello));
    pump([&] { return store.held.size() == 1; });
    CHECK(api.waiting() == 1);
    linger reset{1, 0};
    ::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  }
  pump([&] { return store.cancelled.size() == 1; });
  CHECK(api.waiting() == 0);
  CHECK(api.counters().abandoned == 1);
  store.outcome.status = PutStatus::Created;
  store.release_puts();
  CHECK(get("/health").status == 200);
}

TEST_CASE_METHOD(ApiFixture, "a drain tells probers, serves on with Connection: close, then closes") {
  CHECK(get("/health").status == 200);
  store.mode = ScriptedStore::Mode::Hold;
  store.outcome.status = PutStatus::Created;
  store.outcome.sequence = 7;
  const Fd waiting = dial();
  send_all(waiting, "POST /message HTTP/1.1\r\nHost: x\r\nContent-Length: 53\r\n\r\n" + std::string(kHello));
  pump([&] { return store.held.size() == 1; });
  drainer.on_signal(SIGTERM);
  const Response health = get("/health");
  CHECK(health.status == 503);
  CHECK(text_at(health.body, "/status") == "draining");
  CHECK(health.header("Connection") == "close");
  CHECK(get("/healthz").status == 503);
  const Response served = get("/info");
  CHECK(served.status == 200);
  CHECK(served.header("Connection") == "close");
  pump([&] { return drainer.state().phase() == DrainState::Phase::Finishing; });
  CHECK_FALSE(dial());
  store.release_puts();
  const Response last = read_response(waiting);
  CHECK(last.status == 201);
  CHECK(last.header("Connection") == "close");
  pump([&] { return drainer.state().phase() == DrainState::Phase::Stopped; });
  CHECK(drainer.cut() == 0);
}

TEST_CASE_METHOD(ApiFixture, "a drain counts what it cuts") {
  store.mode = ScriptedStore::Mode::Hold;
  const Fd waiting = dial();
  send_all(waiting, "GET /feed HTTP/1.1\r\nHost: x\r\n\r\n");
  pump([&] { return store.held.size() == 1; });
  drainer.on_signal(SIGTERM);
  pump([&] { return drainer.state().phase() == DrainState::Phase::Stopped; });
  CHECK(drainer.cut() == 1);
  CHECK(store.cancelled.size() == 1);
}

}  // namespace
}  // namespace dlb::backend
