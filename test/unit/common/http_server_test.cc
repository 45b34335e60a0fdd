// HttpServer over real sockets, with raw clients that send exact bytes.
#include "common/http_server.h"

#include <map>
#include <vector>

#include "test/support/catch.h"
#include "test/support/raw_client.h"

namespace dlb {
namespace {

using namespace std::chrono_literals;
using test::RawClient;
using test::run_until;

// Answers by path; `/hold` keeps its token until the test answers.
class Service final : public HttpService {
 public:
  void on_request(HttpToken token, const HttpRequest& request) override {
    ++requests;
    last_body = std::string(request.body);
    last_target = std::string(request.head.target);
    const std::string_view path = request.head.path;
    if (path == "/hold") {
      held.push_back(token);
    } else if (path == "/big") {
      server->respond(token, 200, "text/plain", {}, big);
    } else if (path == "/empty") {
      server->respond(token, 204, {}, {}, {});
    } else if (path == "/unchanged") {
      const HeaderLine tag[] = {{"ETag", "\"x\""}};
      server->respond(token, 304, {}, tag, {});
    } else if (path == "/close") {
      server->respond(token, 200, "text/plain", {}, HttpBody::of("bye"), true);
      last_target = std::string(request.head.target);  // the views outlive the answer
    } else {
      server->respond(token, 200, "text/plain", {}, HttpBody::of(last_target + "|" + last_body));
    }
  }
  void on_abandoned(HttpToken token) override { abandoned.push_back(token); }

  HttpServer* server = nullptr;
  HttpBody big;
  int requests = 0;
  std::string last_body;
  std::string last_target;
  std::vector<HttpToken> held;
  std::vector<HttpToken> abandoned;
};

struct Fixture {
  explicit Fixture(HttpServerOptions options = {}) {
    options.fixed_header_lines = "X-Backend: sys9\r\n";
    auto listener = listen_on(*Address::parse("127.0.0.1:0"), 64, options.socket_buffers);
    server = std::make_unique<HttpServer>(loop, std::move(*listener), service, options);
    service.server = server.get();
  }
  RawClient client(SocketBuffers buffers = {}) { return RawClient(loop, server->port(), buffers); }
  bool settled() {  // nothing is held for anybody
    return run_until(loop,
                     [&] { return server->open_connections() == 0 && server->active_exchanges() == 0; });
  }

  EventLoop loop;
  Service service;
  std::unique_ptr<HttpServer> server;
};

std::string get(std::string_view target, std::string_view more = {}) {
  return "GET " + std::string(target) + " HTTP/1.1\r\nHost: a\r\n" + std::string(more) + "\r\n";
}
std::string post(std::string_view body, std::string_view more = {}) {
  return "POST /p HTTP/1.1\r\nHost: a\r\n" + std::string(more) +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}
bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

TEST_CASE("a kept connection answers one request after the other", "[http_server]") {
  Fixture f;
  RawClient c = f.client();
  for (int i = 1; i <= 3; ++i) {
    REQUIRE(c.send(get("/a?b=" + std::to_string(i))));
    REQUIRE(c.wait_for_answers(1));
    const std::string answer = c.take();
    CHECK(answer.starts_with("HTTP/1.1 200 OK\r\nX-Backend: sys9\r\nDate: "));
    CHECK(
        has(answer, "Content-Type: text/plain\r\nContent-Length: 7\r\n\r\n/a?b=" + std::to_string(i) + "|"));
    CHECK_FALSE(has(answer, "Connection:"));
  }
  CHECK(f.server->open_connections() == 1);
  CHECK(f.server->active_exchanges() == 0);
  c.close();
  CHECK(f.settled());
  CHECK(f.server->counters().responses == 3);
}

TEST_CASE("pipelined requests are answered in order, also byte by byte", "[http_server]") {
  Fixture f;
  std::string input;
  for (int i = 0; i < 100; ++i) {
    const std::string number = std::to_string(i);
    input += i % 3 == 0   ? get("/g" + number)
             : i % 3 == 1 ? post("body" + number)
                          : "POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n" +
                                std::string("1;x=y\r\nZ\r\n0\r\nX-Trailer: 1\r\n\r\n");
  }
  const bool slowly = GENERATE(false, true);
  RawClient c = f.client();
  if (slowly) {
    for (const char byte : input) {
      REQUIRE(c.send(std::string_view(&byte, 1)));
      f.loop.run_once(Duration::zero());
    }
  } else {
    REQUIRE(c.send(input));
  }
  REQUIRE(c.wait_for_answers(100));
  std::size_t at = 0;
  for (int i = 0; i < 100; ++i) {
    const std::string number = std::to_string(i);
    const std::string wanted = i % 3 == 0   ? "\r\n\r\n/g" + number + "|"
                               : i % 3 == 1 ? "\r\n\r\n/p|body" + number
                                            : "\r\n\r\n/c|abcZ";
    at = c.received().find(wanted, at);
    REQUIRE(at != std::string::npos);
  }
  CHECK(c.count_answers() == 100);
}

TEST_CASE("nothing more is read while a request is in progress", "[http_server]") {
  Fixture f;
  RawClient c = f.client();
  REQUIRE(c.send(get("/hold")));
  REQUIRE(run_until(f.loop, [&] { return f.service.held.size() == 1; }));
  REQUIRE(c.send(get("/hold") + get("/x")));
  for (int i = 0; i < 20; ++i) f.loop.run_once(Duration::zero());
  CHECK(f.service.held.size() == 1);
  f.server->respond(f.service.held[0], 200, {}, {}, HttpBody::of("first"));
  REQUIRE(run_until(f.loop, [&] { return f.service.held.size() == 2; }));
  f.server->respond(f.service.held[0], 200, {}, {}, HttpBody::of("again"));  // stale: nothing happens
  f.server->respond(f.service.held[1], 200, {}, {}, HttpBody::of("second"));
  REQUIRE(c.wait_for_answers(3));
  CHECK(has(c.received(), "first"));
  CHECK_FALSE(has(c.received(), "again"));
  CHECK(c.received().find("second") < c.received().find("/x|"));
}

TEST_CASE("100-continue is sent once, only when the body is awaited", "[http_server]") {
  Fixture f;
  RawClient c = f.client();
  SECTION("awaited") {
    REQUIRE(c.send("POST /p HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"));
    REQUIRE(c.wait_for("HTTP/1.1 100 Continue\r\n\r\n"));
    CHECK(c.received() == "HTTP/1.1 100 Continue\r\n\r\n");
    c.take();
    REQUIRE(c.send("abc"));
    REQUIRE(c.wait_for("/p|abc"));
    CHECK_FALSE(has(c.received(), " 100 "));
  }
  SECTION("already there") {
    REQUIRE(c.send(post("abc", "Expect: 100-Continue\r\n")));
    REQUIRE(c.wait_for("/p|abc"));
    CHECK_FALSE(has(c.received(), " 100 "));
  }
  SECTION("partly there: it is on its way") {
    REQUIRE(c.send("POST /p HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\na"));
    REQUIRE(run_until(f.loop, [&] { return f.server->active_exchanges() == 1; }));
    REQUIRE(c.send("bc"));
    REQUIRE(c.wait_for("/p|abc"));
    CHECK_FALSE(has(c.received(), " 100 "));
  }
  SECTION("HTTP/1.0 never gets it") {
    REQUIRE(c.send("POST /p HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"));
    for (int i = 0; i < 20; ++i) f.loop.run_once(Duration::zero());
    REQUIRE(c.send("abc"));
    REQUIRE(c.wait_for("/p|abc"));
    CHECK_FALSE(has(c.received(), " 100 "));
  }
  SECTION("another expectation is 417") {
    REQUIRE(c.send("POST /p HTTP/1.1\r\nHost: a\r\nExpect: more\r\nContent-Length: 3\r\n\r\nabc"));
    REQUIRE(c.wait_for_end());
    CHECK(c.clean_end());
    CHECK(c.received().starts_with("HTTP/1.1 417 "));
    CHECK(f.service.requests == 0);
  }
  SECTION("a body declared too large is refused without it") {
    REQUIRE(c.send("POST /p HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2000000\r\n\r\n"));
    REQUIRE(c.wait_for("HTTP/1.1 413 "));
    CHECK_FALSE(has(c.received(), " 100 "));
  }
}

TEST_CASE("a body over the limit is answered 413 and the client sees it", "[http_server]") {
  HttpServerOptions options;
  options.max_body_bytes = 100'000;
  options.socket_buffers = {16 * 1024, 16 * 1024};
  Fixture f(options);
  RawClient c = f.client();
  SECTION("declared") {
    REQUIRE(c.send("POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 3000000\r\n\r\n"));
    CHECK(c.send(std::string(3'000'000, 'x')));  // the whole upload, as a client that doesn't look
  }
  SECTION("chunked") {
    REQUIRE(c.send("POST /p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"));
    for (int i = 0; i < 300; ++i) CHECK(c.send("2710\r\n" + std::string(10'000, 'x') + "\r\n"));
  }
  REQUIRE(c.wait_for_end());
  CHECK(c.clean_end());
  CHECK(c.received().starts_with("HTTP/1.1 413 "));
  CHECK(has(c.received(), "X-Backend: sys9\r\n"));
  CHECK(has(c.received(), "Connection: close\r\n"));
  CHECK(has(c.received(), "{\"error\":\"too_large\",\"detail\":\""));
  CHECK(c.count_answers() == 1);
  CHECK(f.service.requests == 0);
  c.close();
  CHECK(f.settled());
}

TEST_CASE("bodies up to the limit arrive whole", "[http_server]") {
  Fixture f;
  std::string body(1024 * 1024, 'x');
  for (std::size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>('a' + i % 23);
  RawClient c = f.client();
  SECTION("by length") { REQUIRE(c.send(post(body) + get("/next"))); }
  SECTION("chunked") {
    REQUIRE(c.send("POST /p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"));
    std::string_view rest = body;
    std::size_t size = 1;
    while (!rest.empty()) {
      const std::string_view chunk = rest.substr(0, size);
      char line[20];
      REQUIRE(c.send(std::string(line, static_cast<std::size_t>(
                                           std::snprintf(line, sizeof line, "%zX\r\n", chunk.size()))) +
                     std::string(chunk) + "\r\n"));
      rest.remove_prefix(chunk.size());
      size = size * 3 % 50'021 + 1;
    }
    REQUIRE(c.send("0\r\n" + std::string("A: " + std::string(7000, 'b') + "\r\n\r\n") + get("/next")));
  }
  REQUIRE(c.wait_for_answers(2));
  CHECK(has(c.received(), body));
  CHECK(has(c.received(), "/next|"));
}

TEST_CASE("HEAD, 204 and 304 have no body", "[http_server]") {
  Fixture f;
  RawClient c = f.client();
  REQUIRE(c.send("HEAD /abc HTTP/1.1\r\nHost: a\r\n\r\n" + get("/empty") + get("/unchanged") + get("/last")));
  REQUIRE(c.wait_for("/last|"));
  const std::string& text = c.received();
  CHECK(has(text, "Content-Length: 5\r\n\r\nHTTP/1.1 204 No Content\r\n"));
  const std::size_t second = text.find("HTTP/1.1 204");
  const std::size_t last = text.find("HTTP/1.1 200", second);
  CHECK_FALSE(has(text.substr(second, last - second), "Content-Length"));
  CHECK(has(text, "HTTP/1.1 304 Not Modified\r\n"));
  CHECK(has(text, "ETag: \"x\"\r\n\r\nHTTP/1.1 200"));
}

TEST_CASE("malformed heads are refused with JSON and a clean close", "[http_server]") {
  struct Row {
    const char* input;
    const char* status;
  };
  const auto row = GENERATE(
      Row{"GET / HTTP/1.1\r\n\r\n", "400"}, Row{"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", "400"},
      Row{"FOO / HTTP/1.1\r\nHost: a\r\n\r\n", "501"}, Row{"GET / HTTP/2.0\r\nHost: a\r\n\r\n", "505"},
      Row{"\x16\x03\x01", "400"}, Row{"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", "501"},
      Row{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "400"},
      Row{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", "501"});
  Fixture f;
  RawClient c = f.client();
  REQUIRE(c.send(row.input));
  REQUIRE(c.wait_for_end());
  CHECK(c.clean_end());
  CHECK(c.received().starts_with(std::string("HTTP/1.1 ") + row.status));
  CHECK(has(c.received(), "X-Backend: sys9\r\n"));
  CHECK(has(c.received(), "{\"error\":\""));
  CHECK(f.server->counters().refusals == 1);
  CHECK(f.service.requests == 0);
}

TEST_CASE("heads and targets over their limits", "[http_server]") {
  Fixture f;
  RawClient c = f.client();
  const std::string start = "GET / HTTP/1.1\r\nHost: a\r\nA: ";
  SECTION("431") {
    REQUIRE(c.send(start + std::string(16 * 1024 - start.size() - 3, 'x') + "\r\n\r\n"));
    REQUIRE(c.wait_for("HTTP/1.1 431 "));
  }
  SECTION("just within") {
    REQUIRE(c.send(start + std::string(16 * 1024 - start.size() - 4, 'x') + "\r\n\r\n"));
    REQUIRE(c.wait_for("HTTP/1.1 200 "));
  }
  SECTION("414") {
    REQUIRE(c.send("GET /" + std::string(8 * 1024, 'x')));
    REQUIRE(c.wait_for("HTTP/1.1 414 "));
  }
}

TEST_CASE("timeouts: slow head 408, silent connection and idle connection closed without a word",
          "[http_server]") {
  HttpServerOptions options;
  options.header_timeout = 60ms;
  options.body_timeout = 60ms;
  options.idle_timeout = 90ms;
  Fixture f(options);
  RawClient c = f.client();
  SECTION("slow head, deadline not put off by bytes") {
    const TimePoint start = monotonic_now();
    const std::string head = get("/abcdefghijklmnopqrstuvwxyz");
    std::size_t sent = 0;
    CHECK(c.wait([&] {
      if (sent < head.size() - 1 && monotonic_now() - start > 3ms * static_cast<int>(sent)) {
        if (::send(c.fd(), head.data() + sent, 1, MSG_NOSIGNAL) == 1) ++sent;
      }
      return has(c.received(), "HTTP/1.1 408 ");
    }));
    CHECK(sent > 10);
    CHECK(monotonic_now() - start >= 60ms);
    CHECK(f.server->counters().header_timeouts == 1);
    CHECK(c.wait_for_end());
    CHECK(c.clean_end());
  }
  SECTION("silent") {
    REQUIRE(c.wait_for_end());
    CHECK(c.clean_end());
    CHECK(c.received().empty());
    CHECK(f.server->counters().idle_timeouts == 1);
  }
  SECTION("idle") {
    REQUIRE(c.send(get("/")));
    REQUIRE(c.wait_for_answers(1));
    REQUIRE(c.wait_for_end());
    CHECK(c.clean_end());
    CHECK(c.count_answers() == 1);
  }
  SECTION("body stops") {
    REQUIRE(c.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab"));
    REQUIRE(c.wait_for("HTTP/1.1 408 "));
    CHECK(f.server->counters().body_timeouts == 1);
    CHECK(f.service.requests == 0);
  }
  c.close();
  CHECK(f.settled());
}

TEST_CASE("a half-closed client gets its answers", "[http_server]") {
  Fixture f;
  RawClient c = f.client();
  REQUIRE(c.send(get("/one") + get("/hold") + get("/two")));
  c.finish();
  REQUIRE(run_until(f.loop, [&] { return f.service.held.size() == 1; }));
  for (int i = 0; i < 20; ++i) f.loop.run_once(Duration::zero());
  CHECK(f.service.abandoned.empty());
  f.server->respond(f.service.held[0], 200, {}, {}, HttpBody::of("held"));
  REQUIRE(c.wait_for_end());
  CHECK(c.clean_end());
  CHECK(c.count_answers() == 3);
  CHECK(f.settled());
}

TEST_CASE("the service hears of a client that leaves, once", "[http_server]") {
  Fixture f;
  RawClient c = f.client();
  REQUIRE(c.send(get("/hold")));
  REQUIRE(run_until(f.loop, [&] { return f.service.held.size() == 1; }));
  c.reset();
  REQUIRE(run_until(f.loop, [&] { return !f.service.abandoned.empty(); }));
  CHECK(f.service.abandoned == f.service.held);
  f.server->respond(f.service.held[0], 200, {}, {}, HttpBody::of("late"));
  CHECK(f.settled());
  CHECK(f.service.abandoned.size() == 1);
  CHECK(f.server->counters().abandoned == 1);
  CHECK(f.server->counters().responses == 0);
}

TEST_CASE("a large body of many shared parts goes out exactly, to a slow reader too", "[http_server]") {
  HttpServerOptions options;
  options.socket_buffers = {16 * 1024, 16 * 1024};
  Fixture f(options);
  auto parts = std::make_shared<std::vector<BodyPart>>();
  std::string whole;
  for (int i = 0; i < 300; ++i) {
    auto text = std::make_shared<const std::string>(static_cast<std::size_t>(i * 37 % 9001),
                                                    static_cast<char>('a' + i % 26));
    whole += *text;
    parts->push_back({text, *text});
  }
  f.service.big = HttpBody{parts, whole.size()};
  REQUIRE(whole.size() > 1024 * 1024);
  RawClient c = f.client({16 * 1024, 16 * 1024});
  REQUIRE(c.send(get("/big") + get("/next")));
  REQUIRE(run_until(f.loop, [&] {
    c.read_some(5000);
    return has(c.received(), "/next|");
  }));
  const std::size_t start = c.received().find("\r\n\r\n") + 4;
  CHECK(c.received().compare(start, whole.size(), whole) == 0);
  CHECK(c.received().compare(start + whole.size(), 12, "HTTP/1.1 200") == 0);
  c.close();
  CHECK(f.settled());
  CHECK(f.service.big.parts.use_count() == 2);  // ours and the service's: no connection keeps it
}

TEST_CASE("a reader without progress, or below the least rate, is cut", "[http_server]") {
  HttpServerOptions options;
  options.socket_buffers = {16 * 1024, 16 * 1024};
  const bool by_rate = GENERATE(false, true);
  if (by_rate) {
    options.min_rate = 1024 * 1024;
    options.min_rate_window = 100ms;
  } else {
    options.write_timeout = 100ms;
  }
  Fixture f(options);
  f.service.big = HttpBody::of(std::string(8 * 1024 * 1024, 'x'));
  RawClient c = f.client({16 * 1024, 16 * 1024});
  REQUIRE(c.send(get("/big")));
  REQUIRE(run_until(f.loop, [&] { return f.service.requests == 1; }));
  REQUIRE(run_until(f.loop, [&] {
    if (by_rate) c.read_some(500);
    return f.server->open_connections() == 0;
  }));
  CHECK((by_rate ? f.server->counters().slow_clients : f.server->counters().write_timeouts) == 1);
  CHECK(f.server->counters().interrupted == 1);
}

TEST_CASE("at the connection cap the oldest idle connection goes, busy ones stay", "[http_server]") {
  HttpServerOptions options;
  options.max_connections = 2;
  Fixture f(options);
  RawClient busy = f.client();
  REQUIRE(busy.send(get("/hold")));
  REQUIRE(run_until(f.loop, [&] { return f.service.held.size() == 1; }));
  RawClient idle = f.client();
  REQUIRE(idle.send(get("/")));
  REQUIRE(idle.wait_for_answers(1));
  RawClient third = f.client();
  REQUIRE(third.send(get("/hold")));
  REQUIRE(run_until(f.loop, [&] { return f.service.held.size() == 2; }));
  REQUIRE(idle.wait_for_end());
  CHECK(f.server->counters().connections_reclaimed == 1);
  RawClient fourth = f.client();
  REQUIRE(fourth.wait_for_end());
  CHECK(f.server->counters().connections_refused == 1);
  for (const HttpToken token : f.service.held) f.server->respond(token, 200, {}, {}, HttpBody::of("ok"));
  CHECK(busy.wait_for_answers(1));
  CHECK(third.wait_for_answers(1));
}

TEST_CASE("a request that arrived unseen is answered before its connection or the listener goes",
          "[http_server]") {
  Fixture f;
  RawClient kept = f.client();
  REQUIRE(kept.send(get("/first")));
  REQUIRE(kept.wait_for_answers(1));
  f.server->begin_drain();
  RawClient waiting = f.client();  // connected, as far as the kernel is concerned
  REQUIRE(kept.send(get("/second")));
  REQUIRE(waiting.send(get("/third")));
  f.server->accept_waiting();
  f.server->close_listener();
  f.server->close_idle();
  CHECK(kept.wait_for_answers(2));
  CHECK(has(kept.received(), "/second|"));
  CHECK(waiting.wait_for_answers(1));
  CHECK(has(waiting.received(), "/third|"));
  CHECK(f.settled());
}

TEST_CASE("draining: answers say close, the listener stays until it is closed", "[http_server]") {
  Fixture f;
  RawClient idle = f.client();
  RawClient held = f.client();
  REQUIRE(held.send(get("/hold")));
  REQUIRE(idle.send(get("/")));
  REQUIRE(idle.wait_for_answers(1));
  REQUIRE(run_until(f.loop, [&] { return f.service.held.size() == 1; }));
  f.server->begin_drain();
  RawClient late = f.client();
  REQUIRE(late.send(get("/late")));
  REQUIRE(late.wait_for_end());
  CHECK(late.clean_end());
  CHECK(has(late.received(), "Connection: close\r\n"));
  CHECK(f.server->open_connections() >= 2);
  f.server->close_listener();
  f.server->close_idle();
  REQUIRE(idle.wait_for_end());
  CHECK(idle.clean_end());
  RawClient refused = f.client();
  CHECK(take_socket_error(refused.fd()) == ECONNREFUSED);
  SECTION("what runs may end") {
    f.server->respond(f.service.held[0], 200, {}, {}, HttpBody::of("done"));
    REQUIRE(held.wait_for_end());
    CHECK(held.clean_end());
    CHECK(held.count_answers() == 1);
    CHECK(has(held.received(), "Connection: close\r\n"));
    CHECK(f.server->cut_all() == 0);
  }
  SECTION("or be cut") {
    CHECK(f.server->cut_all() == 1);
    CHECK(f.service.abandoned == f.service.held);
    CHECK(held.wait_for_end());
  }
}

TEST_CASE("HTTP/1.0 and close", "[http_server]") {
  Fixture f;
  RawClient c = f.client();
  SECTION("closes by default") {
    REQUIRE(c.send("GET /x HTTP/1.0\r\n\r\n"));
    REQUIRE(c.wait_for_end());
    CHECK(has(c.received(), "Connection: close\r\n"));
  }
  SECTION("keeps when asked") {
    REQUIRE(c.send("GET /x HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
    REQUIRE(c.wait_for("Connection: keep-alive\r\n"));
    REQUIRE(c.send("GET /y HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
    REQUIRE(c.wait_for("/y|"));
  }
  SECTION("the service closes, what was pipelined behind is dropped without RST") {
    REQUIRE(c.send(get("/close") + get("/never") + std::string(200'000, 'x')));
    REQUIRE(c.wait_for_end());
    CHECK(c.clean_end());
    CHECK(c.count_answers() == 1);
    CHECK(f.service.requests == 1);
    CHECK(f.service.last_target == "/close");
  }
  c.close();
  CHECK(f.settled());
}

TEST_CASE("bodies being collected are bounded together", "[http_server]") {
  HttpServerOptions options;
  options.max_total_body_bytes = 10'000;
  Fixture f(options);
  RawClient a = f.client();
  RawClient b = f.client();
  REQUIRE(a.send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 9000\r\n\r\n" + std::string(8000, 'x')));
  REQUIRE(run_until(f.loop, [&] { return f.server->counters().bytes_read > 8000; }));
  REQUIRE(b.send("POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 9000\r\n\r\n" + std::string(8000, 'x')));
  REQUIRE(b.wait_for("HTTP/1.1 503 "));
  REQUIRE(a.send(std::string(1000, 'x')));
  REQUIRE(a.wait_for("HTTP/1.1 200 "));
  RawClient c = f.client();  // what was counted has been given back
  REQUIRE(c.send("POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 9000\r\n\r\n"));
  f.loop.run_once(Duration::zero());
  REQUIRE(c.send(std::string(9000, 'x')));
  REQUIRE(c.wait_for("HTTP/1.1 200 "));
}

}  // namespace
}  // namespace dlb
