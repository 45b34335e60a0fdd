// HttpProbe against scripted servers: verdicts, the one deadline, bounds.
#include "common/http_probe.h"

#include <optional>

#include "test/support/catch.h"
#include "test/support/raw_client.h"

namespace dlb {
namespace {

using namespace std::chrono_literals;
using test::run_until;

// One listening socket; the test plays the server by hand.
class Server {
 public:
  Server() : listener_(std::move(*listen_on(*Address::parse("127.0.0.1:0"), 8))) {}
  Address address() const { return local_address(listener_.get()); }
  bool accept() {
    if (peer_) return true;
    peer_ = Fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK));
    return static_cast<bool>(peer_);
  }
  // What has come so far.
  const std::string& request() {
    char block[4096];
    if (peer_) {
      const ssize_t got = ::recv(peer_.get(), block, sizeof block, 0);
      if (got > 0) request_.append(block, static_cast<std::size_t>(got));
    }
    return request_;
  }
  bool has_request() { return accept() && request().find("\r\n\r\n") != std::string::npos; }
  ssize_t send(std::string_view bytes) {
    return ::send(peer_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  void close() { peer_.reset(); }
  void reset() {
    set_reset_on_close(peer_.get());
    peer_.reset();
  }

 private:
  Fd listener_;
  Fd peer_;
  std::string request_;
};

struct Verdict {
  ProbeFailure failure;
  bool connected;
  int status;
  std::string body;
  bool body_cut;
  std::string error;
  Duration duration;
};

struct Fixture final : HttpProbeHandler {
  void on_probe_done(HttpProbe&, const ProbeResult& r) override {
    ++verdicts;
    verdict = Verdict{r.failure,  r.connected,          r.status,  std::string(r.body),
                      r.body_cut, std::string(r.error), r.duration};
  }
  ProbeRequest request(Duration timeout = 2s) {
    ProbeRequest r;
    r.address = server.address();
    r.path = "/health?x";
    r.timeout = timeout;
    return r;
  }
  bool wait() {
    return run_until(loop, [&] { return verdict.has_value(); });
  }
  // Starts, answers `answer` once the request is there, and waits for the verdict.
  void exchange(std::string_view answer, ProbeMethod method = ProbeMethod::Get) {
    ProbeRequest r = request();
    r.method = method;
    REQUIRE(probe.start(r));
    REQUIRE(run_until(loop, [&] { return server.has_request(); }));
    while (!answer.empty()) {
      const ssize_t sent = server.send(answer);
      if (sent > 0) answer.remove_prefix(static_cast<std::size_t>(sent));
      loop.run_once(Duration::zero());
      if (verdict) return;
    }
  }

  Server server;
  EventLoop loop;
  TimerHeap timers{loop};
  HttpProbe probe{loop, timers, *this};
  std::optional<Verdict> verdict;
  int verdicts = 0;
};

TEST_CASE("the request of a probe", "[http_probe]") {
  Fixture f;
  f.exchange("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  REQUIRE(f.wait());
  CHECK(f.verdict->failure == ProbeFailure::None);
  CHECK(f.verdict->status == 200);
  CHECK(f.verdict->body == "ok");
  CHECK(f.server.request() == "GET /health?x HTTP/1.1\r\nHost: " + f.server.address().to_string() +
                                  "\r\nUser-Agent: dlb-lb\r\nAccept: */*\r\nConnection: close\r\n\r\n");
  CHECK_FALSE(f.probe.running());
}

TEST_CASE("answers of every framing", "[http_probe]") {
  Fixture f;
  SECTION("chunked") {
    f.exchange("HTTP/1.1 503 S\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\nT: x\r\n\r\n");
    REQUIRE(f.wait());
    CHECK(f.verdict->status == 503);
    CHECK(f.verdict->body == "abc");
  }
  SECTION("to the end of the connection") {
    f.exchange("HTTP/1.0 200 OK\r\n\r\nabc");
    f.server.close();
    REQUIRE(f.wait());
    CHECK(f.verdict->failure == ProbeFailure::None);
    CHECK(f.verdict->body == "abc");
  }
  SECTION("HEAD") {
    f.exchange("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", ProbeMethod::Head);
    REQUIRE(f.wait());
    CHECK(f.verdict->failure == ProbeFailure::None);
    CHECK(f.server.request().starts_with("HEAD /health?x HTTP/1.1\r\n"));
  }
  SECTION("behind interim heads") {
    f.exchange("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 E\r\n\r\nHTTP/1.1 204 N\r\n\r\n");
    REQUIRE(f.wait());
    CHECK(f.verdict->status == 204);
  }
  SECTION("interim heads without end") {
    std::string many;
    for (int i = 0; i < 100; ++i) many += "HTTP/1.1 103 E\r\n\r\n";
    f.exchange(many);
    REQUIRE(f.wait());
    CHECK(f.verdict->failure == ProbeFailure::Malformed);
  }
}

TEST_CASE("broken answers fail at once", "[http_probe]") {
  Fixture f;
  SECTION("garbage") {
    f.exchange("garbage\r\n\r\n");
    REQUIRE(f.wait());
    CHECK(f.verdict->failure == ProbeFailure::Malformed);
  }
  SECTION("closed within the body") {
    f.exchange("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok");
    f.server.close();
    REQUIRE(f.wait());
    CHECK(f.verdict->failure == ProbeFailure::Broken);
    CHECK(f.verdict->connected);
  }
  SECTION("closed without a word") {
    f.exchange("");
    f.server.close();
    REQUIRE(f.wait());
    CHECK(f.verdict->failure == ProbeFailure::Broken);
    CHECK(f.verdict->status == 0);
  }
  SECTION("reset behind a head without length") {
    f.exchange("HTTP/1.1 200 OK\r\n\r\n");
    f.loop.run_once(1ms);
    f.server.reset();
    REQUIRE(f.wait());
    CHECK(f.verdict->failure == ProbeFailure::Broken);
    CHECK(f.verdict->error.find("ECONNRESET") != std::string::npos);
  }
  CHECK(f.verdict->duration < 1s);
}

TEST_CASE("one deadline that no byte puts off", "[http_probe]") {
  Fixture f;
  const TimePoint start = monotonic_now();
  REQUIRE(f.probe.start(f.request(100ms)));
  CHECK_FALSE(f.probe.start(f.request(100ms)));
  const std::string head = "HTTP/1.1 200 OK\r\nX: " + std::string(10'000, 'x');
  std::size_t sent = 0;
  REQUIRE(run_until(f.loop, [&] {
    if (f.server.has_request() && sent < head.size()) {
      if (f.server.send(head.substr(sent, 1)) == 1) ++sent;
    }
    return f.verdict.has_value();
  }));
  const Duration took = monotonic_now() - start;
  CHECK(f.verdict->failure == ProbeFailure::Timeout);
  CHECK(f.verdict->connected);
  CHECK(took >= 100ms);
  CHECK(f.verdict->duration >= 100ms);
  CHECK(sent > 5);
  CHECK(f.verdicts == 1);
  CHECK(f.probe.start(f.request(100ms)));  // ready again
}

TEST_CASE("a body over the bound is cut there and counts as whole", "[http_probe]") {
  Fixture f;
  const bool chunked = GENERATE(false, true);
  f.exchange((chunked ? std::string("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n40000000\r\n")
                      : std::string("HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n")) +
             std::string(200'000, 'x'));
  REQUIRE(f.wait());
  CHECK(f.verdict->failure == ProbeFailure::None);
  CHECK(f.verdict->body_cut);
  CHECK(f.verdict->body.size() == HttpProbe::kMaxBodyBytes);
}

TEST_CASE("connect failures say why, and never from inside start", "[http_probe]") {
  Fixture f;
  ProbeRequest r = f.request();
  r.address = [] {  // a port that was free a moment ago
    const Server gone;
    return gone.address();
  }();
  r.method = GENERATE(ProbeMethod::Get, ProbeMethod::Tcp);
  REQUIRE(f.probe.start(r));
  CHECK(f.verdicts == 0);
  REQUIRE(f.wait());
  CHECK(f.verdict->failure == ProbeFailure::Connect);
  CHECK_FALSE(f.verdict->connected);
  CHECK(f.verdict->error == "connect " + r.address.to_string() + ": ECONNREFUSED (Connection refused)");
}

TEST_CASE("a Tcp probe only connects; cancel tells nothing", "[http_probe]") {
  Fixture f;
  ProbeRequest r = f.request();
  SECTION("connects") {
    r.method = ProbeMethod::Tcp;
    REQUIRE(f.probe.start(r));
    REQUIRE(f.wait());
    CHECK(f.verdict->failure == ProbeFailure::None);
    CHECK(f.verdict->connected);
  }
  SECTION("cancelled") {
    r.timeout = 20ms;
    REQUIRE(f.probe.start(r));
    f.probe.cancel();
    const TimePoint until = monotonic_now() + 50ms;
    run_until(f.loop, [&] { return monotonic_now() > until; });
    CHECK(f.verdicts == 0);
    CHECK_FALSE(f.probe.running());
  }
}

}  // namespace
}  // namespace dlb
