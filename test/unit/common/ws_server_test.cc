// WsServer over real sockets, with raw clients that send exact bytes.
#include "common/ws_server.h"

#include <map>
#include <utility>
#include <vector>

#include "test/support/catch.h"
#include "test/support/raw_client.h"

namespace dlb {
namespace {

using namespace std::chrono_literals;
using test::RawClient;
using test::run_until;

constexpr std::string_view kUpgrade =
    "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

std::string frame(std::string_view text, WsOpcode opcode = WsOpcode::Text, bool final = true) {
  std::string out;
  append_masked_ws_frame(out, opcode, text, 0x01020304, final);
  return out;
}
std::string close_bytes(std::uint16_t code) {
  return {'\x88', '\x02', static_cast<char>(code >> 8), static_cast<char>(code & 0xFF)};
}

// Answers with what it gets, but for some words.
class Service final : public WsService {
 public:
  void on_open(WsToken token, const WsOpen& open) override {
    opened.push_back(token);
    last_path = std::string(open.path);
  }
  void on_text(WsToken token, std::string_view text) override {
    texts.emplace_back(text);
    if (text == "close") return server->close(token, 1000, "as you wish");
    if (text == "pause") return server->pause_reading(token);
    if (text == "confirm") return server->confirm(token);
    if (!silent) server->send_text(token, text);
  }
  void on_writable(WsToken) override { ++writable; }
  void on_close(WsToken token, WsEnd end) override {
    CHECK_FALSE(server->is_open(token));
    CHECK(ends.emplace(token, end).second);
  }
  void broadcast(const WsFramePtr& each) {
    for (const WsToken token : opened) server->send(token, each);
  }

  WsServer* server = nullptr;
  bool silent = false;
  int writable = 0;
  std::string last_path;
  std::vector<WsToken> opened;
  std::vector<std::string> texts;
  std::map<WsToken, WsEnd> ends;
};

struct Fixture final : HttpService {
  explicit Fixture(WsServerOptions options = {}, WsRoute route = {}) {
    auto listener = listen_on(*Address::parse("127.0.0.1:0"), 256, {});
    HttpServerOptions http_options;
    http_options.fixed_header_lines = "X-Backend: sys9\r\n";
    http = std::make_unique<HttpServer>(loop, std::move(*listener), *this, http_options);
    ws = std::make_unique<WsServer>(loop, std::move(options));
    service.server = ws.get();
    route.paths = {"/chat", "/"};
    route.service = &service;
    ws->add_route(std::move(route));
  }
  ~Fixture() { CHECK(ws->counters().opened == service.opened.size()); }

  void on_request(HttpToken token, const HttpRequest& request) override {
    if (!ws->upgrade(*http, token, request)) http->respond_error(token, 404, "not_found", "Nothing.");
  }
  void on_abandoned(HttpToken) override {}

  RawClient client(SocketBuffers buffers = {}) { return RawClient(loop, http->port(), buffers); }
  RawClient open(std::string_view behind = {}, SocketBuffers buffers = {}) {
    RawClient c = client(buffers);
    REQUIRE(c.send(std::string(kUpgrade) + std::string(behind)));
    REQUIRE(c.wait_for("\r\n\r\n"));
    CHECK(c.received().starts_with("HTTP/1.1 101 "));
    const std::string all = c.take();
    rest = all.substr(all.find("\r\n\r\n") + 4);
    return c;
  }
  bool gone(std::size_t sessions = 0) {
    return run_until(loop, [&] { return ws->open_sessions() == sessions && ws->closing_sessions() == 0; });
  }
  void turns(int count) {
    for (int i = 0; i < count; ++i) loop.run_once(Duration::zero());
  }
  WsEnd only_end() {
    REQUIRE(service.ends.size() == 1);
    return service.ends.begin()->second;
  }

  EventLoop loop;
  Service service;
  std::unique_ptr<HttpServer> http;
  std::unique_ptr<WsServer> ws;
  std::string rest;
};

TEST_CASE("a session opens, echoes what also came with the request, and closes once", "[ws_server]") {
  Fixture f;
  RawClient c = f.open(frame("first"));
  CHECK(f.http->open_connections() == 0);
  CHECK(f.http->counters().taken_over == 1);
  CHECK(f.service.last_path == "/chat");
  REQUIRE(c.send(frame("second")));
  REQUIRE(c.wait([&] { return f.rest.size() + c.received().size() >= 7 + 8; }));
  CHECK(f.rest + c.received() ==
        "\x81\x05"
        "first\x81\x06"
        "second");
  c.take();
  REQUIRE(c.send(frame(std::string("\x03\xE8", 2), WsOpcode::Close)));
  REQUIRE(c.wait_for_end());
  CHECK(c.received() == close_bytes(1000));
  CHECK(c.clean_end());
  c.close();
  REQUIRE(f.gone());
  CHECK(f.only_end() == WsEnd::PeerClosed);
  CHECK(f.service.writable > 0);
}

TEST_CASE("a fault is answered by its code, and the end follows at once", "[ws_server]") {
  Fixture f;
  const auto [bytes, code] = GENERATE(table<std::string, std::uint16_t>({
      {"\x81\x02", ws_close::kProtocolError},
      {frame("\xC3\x28"), ws_close::kBadData},
      {frame("x", WsOpcode::Binary), ws_close::kUnsupported},
      {std::string("\x81\xFF\x00\x00\x00\x00\x7F\x00\x00\x00", 10), ws_close::kTooBig},
      {frame(std::string("\x03\xED", 2), WsOpcode::Close), ws_close::kProtocolError},
  }));
  RawClient c = f.open();
  REQUIRE(c.send(frame("before") + bytes + frame("behind")));
  REQUIRE(c.wait_for_end(1s));
  CHECK(c.received() ==
        "\x81\x06"
        "before" +
            close_bytes(code));
  CHECK(c.clean_end());
  c.close();
  REQUIRE(f.gone());
  CHECK(f.only_end() == WsEnd::ProtocolError);
  CHECK(f.service.texts == std::vector<std::string>{"before"});
  CHECK(f.open().fd() >= 0);  // a fresh connection works
}

TEST_CASE("fragments, pings between them, byte by byte", "[ws_server]") {
  Fixture f;
  RawClient c = f.open();
  const std::string input = frame("one ", WsOpcode::Text, false) + frame("p", WsOpcode::Ping) +
                            frame("message", WsOpcode::Continuation);
  for (const char byte : input) {
    REQUIRE(c.send(std::string_view(&byte, 1)));
    f.turns(2);
  }
  REQUIRE(c.wait_for("one message"));
  CHECK(c.received() ==
        "\x8A\x01p\x81\x0B"
        "one message");
  CHECK(f.ws->collected_bytes() == 0);
}

TEST_CASE("our Close waits for the peer's, then for its deadline", "[ws_server]") {
  Fixture f({.close_timeout = 50ms});
  RawClient c = f.open();
  REQUIRE(c.send(frame("close")));
  REQUIRE(c.wait_for("as you wish"));
  CHECK(f.ws->open_sessions() == 0);
  CHECK(f.only_end() == WsEnd::ByService);
  SECTION("it comes") {
    REQUIRE(c.send(frame("ignored") + frame(std::string("\x03\xE8", 2), WsOpcode::Close)));
    REQUIRE(c.wait_for_end());
    CHECK(c.clean_end());
  }
  SECTION("it does not") {
    REQUIRE(c.wait_for_end());
    CHECK(f.ws->counters().close_timeouts == 1);
  }
  REQUIRE(f.gone());
  CHECK(f.service.texts.size() == 1);
}

TEST_CASE("a connection that breaks or ends without a Close ends its session once", "[ws_server]") {
  Fixture f;
  RawClient c = f.open();
  SECTION("RST") { c.reset(); }
  SECTION("FIN") { c.close(); }
  SECTION("FIN within a frame") {
    REQUIRE(c.send(frame("cut").substr(0, 7)));
    c.close();
  }
  REQUIRE(f.gone());
  CHECK(f.service.ends.size() == 1);
  CHECK(f.service.texts.empty());
  CHECK(f.ws->counters().close_timeouts == 0);
}

TEST_CASE("CH-07: a stalled reader is cut at its bound, the others get everything", "[ws_server]") {
  WsRoute route;
  route.queue_max_bytes = 256 * 1024;
  Fixture f({.close_timeout = 100ms}, route);
  RawClient slow = f.open({}, SocketBuffers{4096, 0});
  std::vector<RawClient> fast;
  for (int i = 0; i < 5; ++i) fast.push_back(f.open());
  const std::string text(1000, 'x');
  std::size_t worst = 0;
  int sent = 0;
  for (; sent < 20000 && f.ws->counters().ended_slow == 0; ++sent) {
    f.service.broadcast(WsFrame::text(std::to_string(100000 + sent) + text));
    if (sent % 50 == 0) {
      f.turns(1);
      for (RawClient& c : fast) c.read_some();
    }
    worst = std::max(worst, f.ws->queued_bytes(f.service.opened[0]));
  }
  CHECK(f.ws->counters().ended_slow == 1);
  CHECK(worst <= route.queue_max_bytes);
  CHECK(worst > route.queue_max_bytes / 2);
  for (RawClient& c : fast) {
    REQUIRE(c.wait_for(std::to_string(100000 + sent - 1)));
    std::string expected;
    for (int i = 0; i < sent; ++i) expected += WsFrame::text(std::to_string(100000 + i) + text)->bytes();
    CHECK(c.received() == expected);
  }
  REQUIRE(f.gone(5));  // the stalled one is not waited for
  CHECK(f.service.ends.at(f.service.opened[0]) == WsEnd::SlowConsumer);
  CHECK(f.ws->counters().ended_slow == 1);
}

TEST_CASE("a reader that was cut and goes on reading is told 1013 without its backlog", "[ws_server]") {
  WsRoute route;
  route.queue_max_bytes = 128 * 1024;
  Fixture f({.close_timeout = 5s}, route);
  RawClient slow = f.open({}, SocketBuffers{4096, 0});
  const std::string text(1000, 'x');
  int sent = 0;
  for (; f.ws->counters().ended_slow == 0; ++sent) {
    f.service.broadcast(WsFrame::text(text));
    if (sent % 20 == 0) f.turns(1);
  }
  REQUIRE(slow.wait([&] { return slow.received().find("too slow") != std::string::npos; }));
  const std::string& got = slow.received();
  CHECK(got.substr(got.size() - 12) == std::string("\x88\x0A\x03\xF5", 4) + "too slow");
  CHECK((got.size() - 12) % 1004 == 0);  // whole frames only
  CHECK(got.size() < static_cast<std::size_t>(sent) * 1004);
}

TEST_CASE("answers over the bound are refused, never the session's end; reading pauses", "[ws_server]") {
  WsRoute route;
  route.queue_max_bytes = 64 * 1024;
  Fixture f({}, route);
  f.service.silent = true;
  RawClient c = f.open({}, SocketBuffers{4096, 0});
  const WsToken token = f.service.opened[0];
  const WsFramePtr each = WsFrame::text(std::string(8000, 'h'));
  int taken = 0;
  while (f.ws->send_answer(token, each)) {
    ++taken;
    f.turns(1);
    REQUIRE(taken < 5000);
  }
  CHECK(f.ws->is_open(token));
  CHECK(f.ws->counters().answers_refused == 1);
  REQUIRE(c.send(frame("unread")));
  f.turns(20);
  CHECK(f.service.texts.empty());
  f.service.writable = 0;
  REQUIRE(c.wait([&] { return f.service.writable > 0 && f.service.texts.size() == 1; }));
  CHECK(f.ws->queued_bytes(token) == 0);
  REQUIRE(c.wait([&] { return c.received().size() == static_cast<std::size_t>(taken) * 8004; }));
  CHECK(f.ws->send_answer(token, each));
}

TEST_CASE("pings flood nobody who does not read the pongs", "[ws_server]") {
  WsRoute route;
  route.queue_max_bytes = 64 * 1024;
  Fixture f({}, route);
  RawClient c = f.open({}, SocketBuffers{4096, 4096});
  std::string pings;
  for (int i = 0; i < 200; ++i) pings += frame(std::string(125, 'p'), WsOpcode::Ping);
  std::size_t sent = 0;
  for (int i = 0; i < 3000; ++i) {
    const ssize_t wrote =
        ::send(c.fd(), pings.data() + sent % pings.size(), pings.size() - sent % pings.size(), MSG_NOSIGNAL);
    if (wrote > 0) sent += static_cast<std::size_t>(wrote);
    f.turns(1);
    REQUIRE(f.ws->queued_bytes(f.service.opened[0]) < 64 * 1024);
  }
  CHECK(f.ws->is_open(f.service.opened[0]));
}

TEST_CASE("a paused session keeps what came and delivers it in order later", "[ws_server]") {
  Fixture f;
  RawClient c = f.open();
  REQUIRE(c.send(frame("pause") + frame("b") + frame("c", WsOpcode::Text, false)));
  REQUIRE(run_until(f.loop, [&] { return f.service.texts.size() == 1; }));
  REQUIRE(c.send(frame("d", WsOpcode::Continuation) + frame("pause") + frame("e")));
  f.turns(10);
  CHECK(f.service.texts.size() == 1);
  f.ws->resume_reading(f.service.opened[0]);
  REQUIRE(run_until(f.loop, [&] { return f.service.texts.size() == 4; }));
  f.turns(10);
  CHECK(f.service.texts.size() == 4);
  f.ws->resume_reading(f.service.opened[0]);
  REQUIRE(
      c.wait_for("\x81\x01"
                 "e"));
  CHECK(f.service.texts == std::vector<std::string>{"pause", "b", "cd", "pause", "e"});
  c.reset();
  REQUIRE(f.gone());
}

TEST_CASE("pings find peers that are gone; pongs keep a session", "[ws_server]") {
  Fixture f({.ping_interval = 20ms, .pong_timeout = 300ms, .close_timeout = 100ms});
  RawClient c = f.open();
  const std::string ping("\x89\x00", 2);
  for (int i = 0; i < 3; ++i) {
    REQUIRE(c.wait([&] { return f.rest.ends_with(ping) || c.received() == ping; }));
    f.rest.clear();
    c.take();
    REQUIRE(c.send(frame("", WsOpcode::Pong)));
  }
  CHECK(f.ws->open_sessions() == 1);
  REQUIRE(c.wait_for_end());
  CHECK(c.received().starts_with(ping + std::string("\x88\x11\x03\xF0", 4)));
  CHECK(f.only_end() == WsEnd::MissedPong);
  REQUIRE(f.gone());
}

TEST_CASE("who does not confirm in time is closed 1008", "[ws_server]") {
  WsRoute route;
  route.confirm_timeout = 100ms;
  Fixture f({}, route);
  RawClient c = f.open();
  RawClient other = f.open();
  REQUIRE(other.send(frame("confirm")));
  REQUIRE(c.wait_for(std::string("\x03\xF0", 2)));
  REQUIRE(f.service.ends.size() == 1);
  CHECK(f.service.ends.at(f.service.opened[0]) == WsEnd::NotConfirmed);
  CHECK(f.ws->is_open(f.service.opened[1]));
}

TEST_CASE("unfinished messages are bounded in sum", "[ws_server]") {
  Fixture f({.max_collected_bytes = 100000});
  RawClient a = f.open();
  RawClient b = f.open();
  REQUIRE(a.send(frame(std::string(60000, 'a'), WsOpcode::Text, false)));
  REQUIRE(run_until(f.loop, [&] { return f.ws->collected_bytes() == 60000; }));
  REQUIRE(b.send(frame(std::string(60000, 'b'), WsOpcode::Text, false)));
  REQUIRE(b.wait_for("too many"));
  CHECK(f.service.ends.at(f.service.opened[1]) == WsEnd::Overload);
  REQUIRE(a.send(frame("!", WsOpcode::Continuation)));
  REQUIRE(a.wait_for("!"));
  b.close();
  REQUIRE(f.gone(1));
  CHECK(f.ws->collected_bytes() == 0);
}

TEST_CASE("at max_sessions and while draining an upgrade gets 503", "[ws_server]") {
  Fixture f({.max_sessions = 1});
  RawClient first = f.open();
  RawClient c = f.client();
  REQUIRE(c.send(kUpgrade));
  REQUIRE(c.wait_for_answers(1));
  CHECK(c.take().starts_with("HTTP/1.1 503 "));
  f.ws->begin_drain(Duration::zero());
  REQUIRE(first.wait_for(std::string("\x03\xE9", 2)));
  REQUIRE(c.send(kUpgrade));
  REQUIRE(c.wait_for_answers(1));
  CHECK(c.received().find("shutting down") != std::string::npos);
  CHECK(f.ws->counters().refused_full == 1);
  CHECK(f.ws->counters().refused_draining == 1);
}

TEST_CASE("what asks for no WebSocket is answered or left to others", "[ws_server]") {
  Fixture f;
  RawClient c = f.client();
  REQUIRE(c.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
  REQUIRE(c.wait_for_answers(1));
  CHECK(c.take().starts_with("HTTP/1.1 404 "));
  REQUIRE(c.send("GET /chat HTTP/1.1\r\nHost: a\r\n\r\n"));
  REQUIRE(c.wait_for_answers(1));
  const std::string answer = c.take();
  CHECK(answer.starts_with("HTTP/1.1 426 "));
  for (const char* line :
       {"X-Backend: sys9\r\n", "Upgrade: websocket\r\n", "Sec-WebSocket-Version: 13\r\n"}) {
    CHECK(answer.find(line) != std::string::npos);
  }
}

TEST_CASE("CH-12: a drain spreads its 1001 over the notice and cuts who does not go", "[ws_server]") {
  Fixture f({.close_timeout = 100ms});
  std::vector<RawClient> clients;
  for (int i = 0; i < 20; ++i) clients.push_back(f.open());
  f.ws->begin_drain(300ms);
  std::size_t most_at_once = 0;
  std::size_t before = f.ws->open_sessions();
  REQUIRE(run_until(f.loop, [&] {
    most_at_once = std::max(most_at_once, before - f.ws->open_sessions());
    before = f.ws->open_sessions();
    return f.ws->open_sessions() == 0;
  }));
  CHECK(f.service.ends.size() == 20);
  REQUIRE(f.gone());
  CHECK(f.ws->counters().close_timeouts == 20);  // none of them answered
  for (RawClient& c : clients) {
    REQUIRE(c.wait_for_end());
    CHECK(c.received().starts_with(std::string("\x88\x0F\x03\xE9", 4)));
  }
}

TEST_CASE("cut_all ends everything at once, with 1001 where it can be sent", "[ws_server]") {
  Fixture f;
  f.service.silent = true;
  RawClient idle = f.open();
  RawClient stalled = f.open({}, SocketBuffers{4096, 0});
  const WsFramePtr each = WsFrame::text(std::string(8000, 'h'));
  while (f.ws->send_answer(f.service.opened[1], each)) f.turns(1);
  CHECK(f.ws->cut_all() == 2);
  CHECK(f.ws->open_sessions() == 0);
  CHECK(f.ws->closing_sessions() == 0);
  f.turns(1);
  CHECK(f.service.ends.size() == 2);
  REQUIRE(idle.wait_for_end());
  CHECK(idle.received() == close_bytes(1001));
}

}  // namespace
}  // namespace dlb
