// The generator against servers whose behaviour is known to the byte: every operation must end in the right
// bucket, and the buckets must sum to the plan.
// Over 400 lines, since it is one list: a fate, and where it lands.
#include "loadgen/stage.h"

#include <poll.h>
#include <sys/socket.h>

#include <map>
#include <set>

#include "common/socket.h"
#include "test/support/catch.h"
#include "test/unit/loadgen/scripted_server.h"
#include "test/unit/loadgen/stage_bench.h"

namespace dlb::loadgen::test {
namespace {

using std::chrono::milliseconds;

struct Bench : StageBench {
  template <class Urls>
  explicit Bench(const Urls& urls, Duration timeout = kPatience, Duration read_delay = {})
      : StageBench(urls, timeout, read_delay) {
    shape.payload.users = 2;
    shape.requests = 20;
  }

  // All operations in one bucket.
  void expect_only(Bucket bucket, std::uint64_t count = 20) {
    for (std::size_t i = 0; i < kBuckets; ++i) {
      INFO("bucket " << bucket_name(static_cast<Bucket>(i)));
      CHECK(recorder->in(static_cast<Bucket>(i)) == (static_cast<Bucket>(i) == bucket ? count : 0));
    }
  }
};

Reply reply(std::string bytes, Reply::Then then = Reply::Then::Keep) {
  return Reply{{std::move(bytes)}, then, {}};
}

TEST_CASE("ok operations: one connection a user, one request each, backend shares, ledger") {
  ScriptedServer server([](const Received& r) {
    const bool first = r.number % 4 == 0;
    return reply(response(r.is_feed() ? 200
                          : first     ? 201
                                      : 200,
                          "{}", r.number % 2 == 0 ? "X-Load-Balancer-Backend: sys2\r\n" : ""));
  });
  Bench bench(server.url());
  bench.shape.payload.feed_percent = 50;
  bench.shape.requests = 40;
  const Recorder& recorder = bench.run();
  bench.expect_only(Bucket::Ok, 40);
  CHECK(recorder.of(OperationClass::Message).issued + recorder.of(OperationClass::Feed).issued == 40);
  CHECK(recorder.of(OperationClass::Feed).issued > 5);
  CHECK(recorder.of(OperationClass::Feed).latency_us.count() == recorder.of(OperationClass::Feed).issued);
  CHECK(server.connections() <= 2);
  CHECK(server.requests().size() == 40);
  REQUIRE(recorder.backends().size() == 2);
  for (const BackendShare& share : recorder.backends()) {
    CHECK((share.name == "sys2" || share.name == "b1"));
    CHECK(share.responses == 20);
  }
  CHECK(bench.ledger.size() == recorder.of(OperationClass::Message).issued);
  CHECK(bench.ledger.accepted() == bench.ledger.size());
  CHECK(recorder.connect_us().count() == server.connections());
}

TEST_CASE("two runs of one seed send the same requests") {
  std::set<std::string> sent[2];
  for (auto& requests : sent) {
    ScriptedServer server([](const Received&) { return reply(response(201)); });
    Bench bench("http://localhost:" + std::to_string(server.port()));
    bench.targets[0].host = "same";
    bench.shape.payload.seed = 77;
    bench.shape.payload.users = 5;
    bench.shape.requests = 23;
    bench.run();
    for (const std::string& request : server.requests()) requests.insert(request);
    CHECK(requests.size() == 23);
  }
  CHECK(sent[0] == sent[1]);
}

TEST_CASE("statuses go to their class, with the exact code counted") {
  const auto [status, bucket] = GENERATE(table<int, Bucket>({{202, Bucket::OtherSuccess},
                                                             {204, Bucket::OtherSuccess},
                                                             {302, Bucket::Redirect},
                                                             {304, Bucket::Redirect},
                                                             {400, Bucket::ClientError},
                                                             {409, Bucket::ClientError},
                                                             {500, Bucket::ServerError},
                                                             {503, Bucket::ServerError}}));
  const bool bodiless = status == 204 || status == 304;
  const std::string bytes =
      bodiless ? "HTTP/1.1 " + std::to_string(status) + " Reason\r\n\r\n" : response(status);
  ScriptedServer server([&bytes](const Received&) { return reply(bytes); });
  Bench bench(server.url());
  const Recorder& recorder = bench.run();
  bench.expect_only(bucket);
  CHECK(recorder.of(OperationClass::Message).statuses[static_cast<std::size_t>(status) - 100] == 20);
  CHECK(recorder.of(OperationClass::Message).latency_us.count() == 0);
  CHECK(recorder.failed() == 20);
  CHECK(bench.ledger.accepted() == 0);
  CHECK(bench.ledger.ambiguous() == (status == 409 ? 0 : 20));
  CHECK(server.connections() <= 2);
}

TEST_CASE("201 is no answer to a feed") {
  ScriptedServer server([](const Received&) { return reply(response(201)); });
  Bench bench(server.url());
  bench.shape.payload.feed_percent = 100;
  bench.run();
  bench.expect_only(Bucket::OtherSuccess);
}

TEST_CASE("connections that end before a whole head are resets") {
  Reply said;
  int err = 0;
  SECTION("orderly, without a byte") { said.then = Reply::Then::Close; }
  SECTION("by RST, without a byte") {
    said.then = Reply::Then::Reset;
    err = ECONNRESET;
  }
  SECTION("in the middle of the head") { said = reply("HTTP/1.1 200 OK\r\nContent-", Reply::Then::Close); }
  SECTION("behind an interim response") { said = reply("HTTP/1.1 102 Wait\r\n\r\n", Reply::Then::Close); }
  ScriptedServer server([&said](const Received&) { return said; });
  Bench bench(server.url());
  const Recorder& recorder = bench.run();
  bench.expect_only(Bucket::Reset);
  CHECK(recorder.idle_close_races() == 0);
  CHECK(bench.ledger.ambiguous() == 20);
  CHECK(server.connections() == 20);
  if (err != 0) {
    REQUIRE(recorder.errnos().size() == 1);
    CHECK(recorder.errnos()[0] == std::pair<int, std::uint64_t>(err, 20));
  }
}

TEST_CASE("bodies that end early are short") {
  Reply said;
  SECTION("by length, orderly") {
    said = reply("HTTP/1.1 201 Created\r\nContent-Length: 10\r\n\r\n123456789", Reply::Then::Close);
  }
  SECTION("by length, reset") {
    said = reply("HTTP/1.1 201 Created\r\nContent-Length: 10\r\n\r\n", Reply::Then::Reset);
  }
  SECTION("chunked without its end") {
    said =
        reply("HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", Reply::Then::Close);
  }
  ScriptedServer server([&said](const Received&) { return said; });
  Bench bench(server.url());
  bench.run();
  // A RST may overtake the head in the client's kernel: that is a reset then.
  const std::uint64_t short_bodies = bench.recorder->in(Bucket::ShortBody);
  const std::uint64_t resets = bench.recorder->in(Bucket::Reset);
  CHECK(short_bodies + resets == 20);
  if (said.then == Reply::Then::Close) CHECK(short_bodies == 20);
  CHECK(bench.ledger.ambiguous() == 20);
}

TEST_CASE("servers that never answer, or not to the end, are time-outs") {
  Reply said;
  SECTION("not a byte") { said.then = Reply::Then::Hang; }
  SECTION("half a head") { said = reply("HTTP/1.1 200 OK\r\n", Reply::Then::Hang); }
  SECTION("half a body") {
    said = reply("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", Reply::Then::Hang);
  }
  ScriptedServer server([&said](const Received&) { return said; });
  Bench bench(server.url(), milliseconds(30));
  bench.shape.requests = 6;
  bench.run();
  bench.expect_only(Bucket::TimeOut, 6);
  CHECK(bench.elapsed >= milliseconds(90));
  CHECK(bench.ledger.ambiguous() == 6);
  CHECK(bench.context.connections_opened == 6);
}

TEST_CASE("nobody listens: connect, and nothing was sent") {
  Bench bench("http://127.0.0.1:" + std::to_string(closed_port()));
  bench.shape.requests = 4;
  const Recorder& recorder = bench.run();
  bench.expect_only(Bucket::Connect, 4);
  REQUIRE(recorder.errnos().size() == 1);
  CHECK(recorder.errnos()[0] == std::pair<int, std::uint64_t>(ECONNREFUSED, 4));
  CHECK(bench.ledger.size() == 0);
  CHECK(bench.elapsed >= milliseconds(100));  // a user pauses after a failed connect
}

TEST_CASE("what is not HTTP is malformed") {
  const std::string bytes =
      GENERATE(std::string("SSH-2.0-OpenSSH_9.2\r\n\r\n"),
               std::string("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"),
               std::string("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
               std::string("HTTP/1.1 200 OK\r\nContent-Length: -3\r\n\r\n"));
  ScriptedServer server([&bytes](const Received&) { return reply(bytes, Reply::Then::Hang); });
  Bench bench(server.url());
  bench.run();
  bench.expect_only(Bucket::Malformed);
}

TEST_CASE("a mixture lands in its buckets, known in advance by number") {
  std::map<Bucket, std::uint64_t> expected;
  ScriptedServer server([&expected](const Received& r) {
    switch (r.number % 6) {
      case 0:
        ++expected[Bucket::Ok];
        return reply(response(201));
      case 1:
        ++expected[Bucket::ServerError];
        return reply(response(503, "{}", "Retry-After: 1\r\nConnection: close\r\n"), Reply::Then::Close);
      case 2:
        ++expected[Bucket::Reset];
        return Reply{{}, Reply::Then::Reset, {}};
      case 3:
        ++expected[Bucket::ShortBody];
        return reply("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", Reply::Then::Close);
      case 4:
        ++expected[Bucket::TimeOut];
        return Reply{{}, Reply::Then::Hang, {}};
      default:
        ++expected[Bucket::Ok];
        return reply(response(200, "{}", "Connection: close\r\n"), Reply::Then::Close);
    }
  });
  Bench bench(server.url(), std::chrono::seconds(1));
  bench.shape.payload.users = 16;
  bench.shape.requests = 96;
  const Recorder& recorder = bench.run();
  for (const auto& [bucket, count] : expected) {
    INFO(bucket_name(bucket));
    CHECK(recorder.in(bucket) == count);
  }
  CHECK(recorder.done() == 96);
  CHECK(bench.ledger.size() == 96);
  CHECK(bench.ledger.accepted() == recorder.in(Bucket::Ok));
}

TEST_CASE("latency is from the first byte written to the last byte read, header latency to the head") {
  ScriptedServer server([](const Received&) {
    return Reply{{response(201)}, Reply::Then::Keep, milliseconds(20)};
  });
  Bench bench(server.url());
  bench.shape.requests = 6;
  const Recorder& recorder = bench.run();
  bench.expect_only(Bucket::Ok, 6);
  const ClassTotals& totals = recorder.of(OperationClass::Message);
  CHECK(totals.latency_us.min() >= 20'000);
  CHECK(totals.header_us.min() >= 20'000);
  CHECK(totals.header_us.max() <= totals.latency_us.max());
  CHECK(bench.elapsed >= milliseconds(60));
}

TEST_CASE("responses are read in every framing and in every cut") {
  std::string bytes;
  bool closes = false;
  SECTION("length") { bytes = response(201, "{\"a\":1}"); }
  SECTION("empty") { bytes = response(201, ""); }
  SECTION("chunked with extension and trailer") {
    bytes =
        "HTTP/1.1 201 Created\r\nTransfer-Encoding: "
        "chunked\r\n\r\n3;x=y\r\nabc\r\n0A\r\n0123456789\r\n0\r\nT: v\r\n\r\n";
  }
  SECTION("interim responses first") {
    bytes = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + response(201);
  }
  SECTION("to the end of the connection") {
    bytes = "HTTP/1.1 201 Created\r\n\r\nsome body";
    closes = true;
  }
  SECTION("HTTP/1.0") {
    bytes = "HTTP/1.0 201 Created\r\nContent-Length: 2\r\n\r\n{}";
    closes = true;
  }
  std::vector<std::string> pieces;
  for (const std::size_t size : {std::size_t{1}, std::size_t{3}, bytes.size()}) {
    pieces.clear();
    for (std::size_t at = 0; at < bytes.size(); at += size) pieces.push_back(bytes.substr(at, size));
    ScriptedServer server([&](const Received&) {
      return Reply{pieces, closes ? Reply::Then::Close : Reply::Then::Keep, {}};
    });
    Bench bench(server.url());
    bench.run();
    bench.expect_only(Bucket::Ok);
    CHECK(server.connections() == (closes ? 20U : server.connections()));
    if (!closes) CHECK(server.connections() <= 2);
  }
}

TEST_CASE("a large feed passes with its bytes counted") {
  const std::string body(3'000'000, 'x');
  ScriptedServer server([&body](const Received&) { return reply(response(200, body)); });
  Bench bench(server.url());
  bench.shape.payload.feed_percent = 100;
  bench.shape.requests = 6;
  const Recorder& recorder = bench.run();
  bench.expect_only(Bucket::Ok, 6);
  CHECK(recorder.of(OperationClass::Feed).body_bytes == 6 * body.size());
}

TEST_CASE("a large request that can't be written at once is sent whole") {
  ScriptedServer server([](const Received&) { return reply(response(201)); });
  Bench bench(server.url());
  bench.shape.payload.message_min = bench.shape.payload.message_max = 8'000'000;
  bench.shape.requests = 4;
  bench.run();
  bench.expect_only(Bucket::Ok, 4);
  for (const std::string& request : server.requests()) CHECK(request.size() > 8'000'000);
}

TEST_CASE("an early answer to a large request counts, and the connection isn't used again") {
  const Fd refusing = [] {
    auto fd = listen_on(*Address::parse("127.0.0.1:0"), 16);
    REQUIRE(fd.has_value());
    return std::move(*fd);
  }();
  Bench bench("http://127.0.0.1:" + std::to_string(local_address(refusing.get()).port()));
  bench.shape.payload.users = 1;
  bench.shape.payload.message_min = bench.shape.payload.message_max = 8'000'000;
  bench.shape.requests = 1;
  std::thread answer([&refusing] {
    pollfd p{refusing.get(), POLLIN, 0};
    ::poll(&p, 1, -1);
    const Fd fd(::accept(refusing.get(), nullptr, nullptr));
    std::vector<char> bytes(65536);
    [[maybe_unused]] const auto got = ::recv(fd.get(), bytes.data(), 1, 0);
    const std::string text = response(413, "{}", "Connection: close\r\n");
    [[maybe_unused]] const auto sent = ::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL);
    ::shutdown(fd.get(), SHUT_WR);
    while (::recv(fd.get(), bytes.data(), bytes.size(), 0) > 0) {
    }
  });
  bench.run();
  answer.join();
  bench.expect_only(Bucket::ClientError, 1);
}

TEST_CASE("a server that closes idle connections costs nothing when it is seen in time") {
  // With a pause between operations, the FIN arrives while the connection is idle.
  ScriptedServer server([](const Received&) { return reply(response(201), Reply::Then::Close); });
  const ConnectionMode mode = GENERATE(ConnectionMode::Reuse, ConnectionMode::FreshUser);
  Bench bench(server.url());
  bench.shape.connection_mode = mode;
  bench.shape.requests = 4;
  bench.shape.interval_min = bench.shape.interval_max = milliseconds(200);
  const Recorder& recorder = bench.run();
  bench.expect_only(Bucket::Ok, 4);
  CHECK(server.connections() == 4);
  CHECK(recorder.idle_close_races() == 0);
}

TEST_CASE(
    "a reused connection that closes before any byte of the response is a reset and counted as a race") {
  // The second request of each connection is read and met by a FIN.
  ScriptedServer server([](const Received& r) {
    return r.on_connection == 0 ? reply(response(201)) : Reply{{}, Reply::Then::Close, {}};
  });
  Bench bench(server.url());
  const Recorder& recorder = bench.run();
  CHECK(recorder.in(Bucket::Ok) == 10);
  CHECK(recorder.in(Bucket::Reset) == 10);
  CHECK(recorder.idle_close_races() == 10);
  CHECK(recorder.failed() == 10);
}

TEST_CASE("bytes that nobody asked for make a connection unusable and are counted") {
  ScriptedServer server([](const Received&) { return reply(response(201) + "surplus"); });
  Bench bench(server.url());
  bench.run();
  bench.expect_only(Bucket::Ok);
  CHECK(server.connections() == 20);
  CHECK(bench.context.stray_bytes == 20 * 7);
}

TEST_CASE("an answer for another message's id is noticed") {
  ScriptedServer server([](const Received& r) {
    const std::string id =
        r.number % 2 == 0 ? r.header("Idempotency-Key") : "0f8fad5b-d9cb-469f-a165-70867728950e";
    return reply(response(201, R"({"message":{"message-id":")" + id + R"("}})"));
  });
  Bench bench(server.url());
  CHECK(bench.run().mismatched_answers() == 10);
}

TEST_CASE("connection modes") {
  ScriptedServer server([](const Received& r) {
    return reply(response(201), r.header("Connection") == "close" ? Reply::Then::Close : Reply::Then::Keep);
  });
  Bench bench(server.url());
  bench.shape.payload.users = 4;
  SECTION("reuse keeps connections from stage to stage") {
    bench.shape.connection_mode = ConnectionMode::Reuse;
    bench.run();
    bench.run();
    CHECK(server.connections() <= 4);
  }
  SECTION("fresh-stage begins with none") {
    bench.shape.connection_mode = ConnectionMode::FreshStage;
    bench.run();
    const std::uint64_t before = server.connections();
    CHECK(before <= 4);
    bench.run();
    CHECK(server.connections() > before);
    CHECK(server.connections() <= 8);
  }
  SECTION("fresh-user: each its own") {
    bench.shape.connection_mode = ConnectionMode::FreshUser;
    bench.shape.interval_min = bench.shape.interval_max = milliseconds(2);
    bench.run();
    CHECK(server.connections() == 4);
    bench.run();
    CHECK(server.connections() == 8);
  }
  SECTION("reuse shares: other users take what the first have left") {
    bench.shape.connection_mode = ConnectionMode::Reuse;
    bench.run();
    const std::uint64_t before = server.connections();
    bench.shape.payload.users = 1;
    bench.run();
    CHECK(server.connections() == before);
  }
  SECTION("no-keepalive: one a request, and says so") {
    bench.shape.connection_mode = ConnectionMode::NoKeepAlive;
    bench.run();
    CHECK(server.connections() == 20);
    for (const std::string& request : server.requests()) {
      CHECK(request.find("\r\nConnection: close\r\n") != std::string::npos);
    }
  }
  CHECK(bench.recorder->failed() == 0);
}

TEST_CASE("users are spread over several targets") {
  ScriptedServer a([](const Received&) { return reply(response(201)); });
  ScriptedServer b([](const Received&) { return reply(response(201)); });
  Bench bench(std::vector<std::string>{a.url(), b.url()});
  bench.shape.payload.users = 4;
  bench.run();
  bench.expect_only(Bucket::Ok);
  CHECK(a.requests().size() == 10);
  CHECK(b.requests().size() == 10);
}

TEST_CASE("at its duration a stage issues no more, and what is in flight ends") {
  ScriptedServer server([](const Received&) {
    return Reply{{response(201)}, Reply::Then::Keep, milliseconds(5)};
  });
  Bench bench(server.url());
  bench.shape.duration = milliseconds(60);
  SECTION("without a plan") {
    bench.shape.requests = 0;
    const Recorder& recorder = bench.run();
    CHECK(recorder.in(Bucket::Ok) == recorder.planned());
    CHECK(recorder.planned() > 2);
    CHECK(recorder.in(Bucket::NotIssued) == 0);
  }
  SECTION("with a plan that it can't fulfil") {
    bench.shape.requests = 100'000;
    const Recorder& recorder = bench.run();
    CHECK(recorder.planned() == 100'000);
    CHECK(recorder.in(Bucket::Ok) + recorder.in(Bucket::NotIssued) == 100'000);
    CHECK(recorder.in(Bucket::Ok) > 2);
    CHECK(recorder.failed() == 0);
  }
  SECTION("also while all users pause") {
    bench.shape.requests = 0;
    bench.shape.interval_min = bench.shape.interval_max = std::chrono::hours(1);
    bench.run();
    bench.expect_only(Bucket::Ok, 2);
  }
  CHECK(bench.elapsed < std::chrono::seconds(10));
}

TEST_CASE("what is not issued within the window never is, and the stage says so") {
  ScriptedServer server([](const Received&) {
    return Reply{{response(201)}, Reply::Then::Keep, milliseconds(20)};
  });
  Bench bench(server.url());
  bench.shape.requests = 1'000'000;
  bench.shape.issue_window = milliseconds(100);
  const Recorder& recorder = bench.run();
  CHECK(bench.hit_window);
  CHECK(recorder.in(Bucket::Ok) > 0);
  CHECK(recorder.in(Bucket::Ok) + recorder.in(Bucket::NotIssued) == 1'000'000);

  bench.shape.requests = 4;
  bench.shape.issue_window = std::chrono::seconds(20);
  bench.run();
  CHECK_FALSE(bench.hit_window);
  bench.expect_only(Bucket::Ok, 4);
}

TEST_CASE("an abandoned stage counts what was in flight as interrupted, the rest as not issued") {
  ScriptedServer server([](const Received& r) {
    return r.number < 4 ? reply(response(201)) : Reply{{}, Reply::Then::Hang, {}};
  });
  Bench bench(server.url());
  const Recorder& recorder = bench.run([&server](const Stage&) { return server.requests().size() == 6; });
  CHECK(recorder.in(Bucket::Ok) == 4);
  CHECK(recorder.in(Bucket::Interrupted) == 2);
  CHECK(recorder.in(Bucket::NotIssued) == 14);
  CHECK(recorder.failed() == 0);
  CHECK(bench.ledger.ambiguous() == 2);
}

TEST_CASE("fewer operations than users, and a plan that doesn't divide evenly") {
  ScriptedServer server([](const Received&) { return reply(response(201)); });
  Bench bench(server.url());
  bench.shape.payload.users = 7;
  bench.shape.requests =
      GENERATE(std::uint64_t{1}, std::uint64_t{6}, std::uint64_t{7}, std::uint64_t{8}, std::uint64_t{50});
  bench.run();
  bench.expect_only(Bucket::Ok, bench.shape.requests);
  CHECK(server.requests().size() == bench.shape.requests);
}

TEST_CASE("a slow reader reads its response after the delay, and gets it whole") {
  const std::string body(500'000, 'y');
  ScriptedServer server([&body](const Received&) { return reply(response(200, body)); });
  Bench bench(server.url(), Bench::kPatience, milliseconds(40));
  bench.shape.payload.feed_percent = 100;
  bench.shape.requests = 4;
  const Recorder& recorder = bench.run();
  bench.expect_only(Bucket::Ok, 4);
  CHECK(recorder.of(OperationClass::Feed).header_us.min() >= 30'000);  // from the turn's begin on
  CHECK(recorder.of(OperationClass::Feed).body_bytes == 4 * body.size());
}

TEST_CASE("users pause between operations") {
  ScriptedServer server([](const Received&) { return reply(response(201)); });
  Bench bench(server.url());
  bench.shape.requests = 8;
  bench.shape.interval_min = milliseconds(15);
  bench.shape.interval_max = milliseconds(25);
  bench.run();
  bench.expect_only(Bucket::Ok, 8);
  CHECK(bench.elapsed >= milliseconds(45));  // three pauses each
}

}  // namespace
}  // namespace dlb::loadgen::test
