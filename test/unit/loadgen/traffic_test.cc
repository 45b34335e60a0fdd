// What goes over the wire: the same seed sends the same bytes; from where, on which connections, by TLS, how
// slowly it is read, and what becomes of connections that say nothing.
#include <algorithm>
#include <map>
#include <vector>

#include "common/http_server.h"
#include "loadgen/held.h"
#include "test/support/catch.h"
#include "test/support/certificates.h"
#include "test/support/temp_dir.h"
#include "test/unit/loadgen/scripted_server.h"
#include "test/unit/loadgen/stage_bench.h"

namespace dlb::loadgen::test {
namespace {

using std::chrono::milliseconds;

// All that a server received of a stage, whole requests as they came over the wire, in one order.
std::vector<std::string> received(ScriptedServer& server, const StageShape& shape) {
  StageBench bench(server.url());
  bench.shape = shape;
  const std::size_t before = server.requests().size();
  CHECK(bench.run().in(Bucket::Ok) == shape.requests);
  std::vector<std::string> requests = server.requests();
  requests.erase(requests.begin(), requests.begin() + static_cast<std::ptrdiff_t>(before));
  std::sort(requests.begin(), requests.end());
  return requests;
}

TEST_CASE("the same seed sends the same bytes twice, in both models, and another seed others") {
  ScriptedServer server([](const Received&) { return Reply{{response(200)}, Reply::Then::Keep, {}}; });
  StageShape shape;
  shape.payload.seed = 17;
  shape.payload.users = 5;
  shape.payload.feed_percent = 10;
  shape.requests = 300;
  shape.connection_mode = ConnectionMode::FreshUser;
  const auto once = received(server, shape);
  CHECK(once.size() == 300);
  CHECK(received(server, shape) == once);
  SECTION("another connection mode changes connections, not bytes") {
    shape.connection_mode = ConnectionMode::Reuse;
    CHECK(received(server, shape) == once);
  }
  SECTION("nor does a rate") {
    shape.open.rate = 20'000;
    shape.open.arrival = Arrival::Poisson;
    CHECK(received(server, shape) == once);
  }
  SECTION("another seed") {
    shape.payload.seed = 18;
    CHECK(received(server, shape) != once);
  }
}

// A server on the generator's own loop that notes who asks, and answers at once.
class Answers final : public HttpService {
 public:
  explicit Answers(EventLoop& loop, HttpServerOptions options = {}) {
    options.min_rate = 0;
    auto listener = listen_on(*Address::parse("127.0.0.1:0"), 128);
    REQUIRE(listener.has_value());
    server_.emplace(loop, std::move(*listener), *this, options);
  }
  std::string port() const { return std::to_string(server_->port()); }
  HttpServer& server() { return *server_; }

  void on_request(HttpToken token, const HttpRequest& request) override {
    ++peers[request.peer.host()];
    tls = tls || request.tls;
    const bool feed = request.head.path == "/feed";
    if (!feed) bodies.emplace_back(request.body);
    server_->respond(token, feed ? 200 : 201, HttpServer::kJson, {},
                     HttpBody::of(feed ? std::string(feed_bytes, 'x') : std::string("{}")));
  }
  void on_abandoned(HttpToken) override {}

  std::map<std::string, int> peers;
  std::vector<std::string> bodies;
  std::size_t feed_bytes = 2;
  bool tls = false;

 private:
  std::optional<HttpServer> server_;
};

struct Bench : StageBench {
  explicit Bench(HttpServerOptions options = {}, Duration timeout = kPatience)
      : StageBench(std::vector<std::string>(), timeout), answers(loop, options) {
    ask("http://127.0.0.1:" + answers.port());
    shape.payload.users = 4;
    shape.requests = 40;
  }
  // Another server than `answers`.
  void ask(const std::string& url) { targets = {*parse_target(url)}; }

  const Recorder& run() {
    StageBench::run();
    pool.close_idle();
    return *recorder;
  }

  Answers answers;
};

TEST_CASE("connections come from the addresses of their users") {
  Bench bench;
  const auto sources = SourceAddresses::parse({"127.3.0.0/16"});
  bench.shape.sources = &*sources;
  bench.shape.connection_mode = ConnectionMode::FreshUser;
  CHECK(bench.run().in(Bucket::Ok) == 40);
  CHECK(
      bench.answers.peers ==
      std::map<std::string, int>{{"127.3.0.1", 10}, {"127.3.0.2", 10}, {"127.3.0.3", 10}, {"127.3.0.4", 10}});
}

TEST_CASE("an address that isn't here is a failed connect") {
  Bench bench;
  const auto sources = SourceAddresses::parse({"192.0.2.1"});
  bench.shape.sources = &*sources;
  bench.shape.requests = 4;
  CHECK(bench.run().in(Bucket::Connect) == 4);
  CHECK(bench.recorder->errnos().front().first == EADDRNOTAVAIL);
}

TEST_CASE("a connection is given up after its number of requests") {
  Bench bench;
  bench.shape.connection_mode = GENERATE(ConnectionMode::Reuse, ConnectionMode::FreshUser);
  bench.shape.payload.users = 1;
  bench.shape.requests_per_connection = 3;
  bench.shape.requests = 10;
  CHECK(bench.run().in(Bucket::Ok) == 10);
  CHECK(bench.context.connections_opened == 4);
}

TEST_CASE("repeats are sent as often as asked for, and their bodies are there twice") {
  Bench bench;
  bench.shape.payload.duplicate_percent = 50;
  bench.shape.requests = 200;
  const std::uint64_t repeats = bench.run().repeats();
  CHECK(repeats > 50);
  std::vector<std::string> bodies = bench.answers.bodies;
  CHECK(bodies.size() == 200);
  std::sort(bodies.begin(), bodies.end());
  bodies.erase(std::unique(bodies.begin(), bodies.end()), bodies.end());
  CHECK(bodies.size() == 200 - repeats);
}

TEST_CASE("a slow reader takes as long as its rate says, and slows nobody's figures") {
  Bench bench;
  bench.answers.feed_bytes = 300'000;
  bench.shape.payload.feed_percent = 100;
  bench.shape.slow_reader_percent = 25;
  bench.shape.slow_bytes_per_pace = 100'000;
  bench.shape.requests = 4;
  CHECK(bench.run().in(Bucket::Ok) == 4);
  const ClassTotals& feeds = bench.recorder->of(OperationClass::Feed);
  CHECK(feeds.latency_us.count() == 3);
  CHECK(feeds.slow_us.count() == 1);
  CHECK(feeds.slow_us.min() >= 300'000);  // four reads at least, 100 ms apart
}

// --- TLS

struct TlsBench {
  TlsBench() {
    dlb::test::make_certificate(dir.path(), "one");  // CN=localhost
    dlb::test::make_certificate(dir.path(), "other");
    std::vector<std::string> warnings;
    auto served = TlsContext::load(dir.file("one.crt"), dir.file("one.key"), warnings);
    REQUIRE(served.has_value());
    HttpServerOptions options;
    options.tls = std::make_shared<const TlsContext>(std::move(*served));
    bench.emplace(options);
    bench->ask("https://localhost:" + bench->answers.port());
  }
  void trust(const TlsContext::Trust& whom) {
    auto made = TlsContext::client(whom);
    REQUIRE(made.has_value());
    context.emplace(std::move(*made));
    bench->context.tls = &*context;
  }

  dlb::test::TempDir dir;
  std::optional<TlsContext> context;
  std::optional<Bench> bench;
};

TEST_CASE("https targets: whole exchanges by TLS, on connections that are used again") {
  TlsBench tls;
  tls.trust({.verify = true, .ca_file = tls.dir.file("one.crt"), .offer_http = true});
  tls.bench->shape.payload.message_min = tls.bench->shape.payload.message_max = 50'000;  // several records
  tls.bench->shape.payload.feed_percent = 50;
  tls.bench->answers.feed_bytes = 400'000;
  CHECK(tls.bench->run().in(Bucket::Ok) == 40);
  CHECK(tls.bench->answers.tls);
  CHECK(tls.bench->context.connections_opened <= 4);
  CHECK(tls.bench->recorder->connect_us().count() == tls.bench->context.connections_opened);
  CHECK(tls.bench->context.stray_bytes == 0);
}

TEST_CASE("https targets: who is not believed is a failed connect with a reason") {
  TlsBench tls;
  tls.bench->shape.requests = 4;
  SECTION("another authority") {
    tls.trust({.verify = true, .ca_file = tls.dir.file("other.crt"), .offer_http = true});
    CHECK(tls.bench->run().in(Bucket::Connect) == 4);
    REQUIRE(tls.bench->context.tls_failures.size() == 1);
    CHECK(tls.bench->context.tls_failures[0].text.starts_with("certificate not believed: "));
    CHECK(tls.bench->context.tls_failures[0].times == 4);
  }
  SECTION("another name") {
    tls.trust({.verify = true, .ca_file = tls.dir.file("one.crt"), .offer_http = true});
    tls.bench->targets[0].server_name = "example.org";
    CHECK(tls.bench->run().in(Bucket::Connect) == 4);
    CHECK(tls.bench->context.tls_failures.front().text.find("mismatch") != std::string::npos);
  }
  SECTION("anyone is, when told so") {
    tls.trust({.verify = false});
    CHECK(tls.bench->run().in(Bucket::Ok) == 4);
  }
}

TEST_CASE("https to a server without TLS is a failed connect, and so is one that says nothing") {
  auto trust = TlsContext::client({.verify = false});
  SECTION("plain HTTP") {
    Bench bench;
    bench.context.tls = &*trust;
    bench.shape.requests = 4;
    bench.ask("https://127.0.0.1:" + bench.answers.port());
    CHECK(bench.run().in(Bucket::Connect) == 4);
    CHECK(bench.context.tls_failures.size() == 1);
  }
  SECTION("silence, until the time-out") {
    auto listener = listen_on(*Address::parse("127.0.0.1:0"), 128);
    Bench bench({}, milliseconds(50));
    bench.context.tls = &*trust;
    bench.shape.requests = 4;
    bench.ask("https://" + local_address(listener->get()).to_string());
    CHECK(bench.run().in(Bucket::Connect) == 4);
    CHECK(bench.recorder->errnos().front().first == ETIMEDOUT);
  }
}

TEST_CASE("urls with https have a port and a name of their own") {
  CHECK(parse_target("https://127.0.0.1")->address.port() == 443);
  CHECK(parse_target("https://[::1]:7")->server_name == "::1");
  CHECK(parse_target("https://localhost:7/base/")->server_name == "localhost");
  CHECK_FALSE(parse_target("http://localhost:7")->tls);
  CHECK_FALSE(parse_target("ftp://localhost").has_value());
}

// --- held connections

HeldShape held_shape(std::uint64_t connections, Duration age) {
  HeldShape shape;
  shape.connections = connections;
  shape.age = age;
  shape.payload.users = connections;
  return shape;
}

TEST_CASE("held connections are silent for their age, then post once") {
  Bench bench;
  HeldConnections held(held_shape(5, milliseconds(60)), bench.targets, bench.loop, bench.context,
                       bench.ledger);
  held.start();
  const TimePoint began = monotonic_now();
  while (!held.done()) bench.loop.run_once(milliseconds(20));
  CHECK(monotonic_now() - began >= milliseconds(60));
  CHECK(held.totals().opened == 5);
  CHECK(held.totals().answered == 5);
  CHECK(held.totals().latency_us.count() == 5);
  CHECK(bench.answers.bodies.size() == 5);
  CHECK(bench.ledger.accepted() == 5);
}

TEST_CASE("what held connections post is expected by an oracle, as it is of users") {
  Bench bench;
  DeliveryOracle oracle;
  oracle.add_group("wss://one");
  oracle.add_stream(0, 0);
  bench.ledger.watch(&oracle);
  HeldConnections held(held_shape(2, milliseconds(1)), bench.targets, bench.loop, bench.context,
                       bench.ledger);
  held.start();
  while (!held.done()) bench.loop.run_once(milliseconds(20));
  CHECK(held.totals().answered == 2);
  CHECK(oracle.judge().accepted == 2);
}

TEST_CASE("held connections that the server closes while they are silent are counted with their age") {
  HttpServerOptions options;
  options.idle_timeout = milliseconds(80);
  Bench bench(options);
  HeldConnections held(held_shape(3, std::chrono::minutes(5)), bench.targets, bench.loop, bench.context,
                       bench.ledger);
  held.start();
  while (!held.done()) bench.loop.run_once(milliseconds(20));
  CHECK(held.totals().opened == 3);
  CHECK(held.totals().closed_silent == 3);
  CHECK(held.totals().closed_age_us.count() == 3);
  CHECK(held.totals().closed_age_us.min() >= 40'000);
  CHECK(held.totals().answered == 0);
}

TEST_CASE("held connections: what can't connect, and what a cut run leaves") {
  Bench bench;
  SECTION("nobody listens") {
    bench.ask("http://127.0.0.1:" + std::to_string(closed_port()));
    HeldConnections held(held_shape(3, milliseconds(1)), bench.targets, bench.loop, bench.context,
                         bench.ledger);
    held.start();
    while (!held.done()) bench.loop.run_once(milliseconds(20));
    CHECK(held.totals().connect_failed == 3);
    CHECK(held.totals().opened == 0);
  }
  SECTION("cut in their silence") {
    HeldConnections held(held_shape(3, std::chrono::hours(1)), bench.targets, bench.loop, bench.context,
                         bench.ledger);
    held.start();
    while (held.totals().opened < 3) bench.loop.run_once(milliseconds(20));
    held.abandon();
    CHECK(held.done());
    CHECK(held.totals().unfinished == 3);
  }
  SECTION("their stage never began") {
    HeldConnections held(held_shape(3, milliseconds(1)), bench.targets, bench.loop, bench.context,
                         bench.ledger);
    held.abandon();
    CHECK(held.totals().unfinished == 3);
  }
}

}  // namespace
}  // namespace dlb::loadgen::test
