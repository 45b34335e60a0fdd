// Clients that do anything at any time: whatever they do, every request the service was handed ends in
// exactly one of "answered" and "abandoned", and nothing is held at the end.
#include <list>
#include <set>

#include "common/http_server.h"
#include "common/rng.h"
#include "test/support/catch.h"
#include "test/support/raw_client.h"

namespace dlb {
namespace {

using namespace std::chrono_literals;
using test::RawClient;
using test::run_until;

// Answers some requests at once and the others later, in any order.
class Service final : public HttpService {
 public:
  explicit Service(Rng& rng) : rng_(rng) {}

  void on_request(HttpToken token, const HttpRequest& request) override {
    if (!open.insert(token).second) FAIL("a token came twice");
    ++handed;
    bytes += request.body.size() + request.head.path.size();
    if (rng_.below(2) == 0) answer(token);
    bytes += request.body.size() + request.head.target.size();  // the views must outlive the answer
  }
  void on_abandoned(HttpToken token) override {
    if (open.erase(token) != 1) FAIL("abandoned, but not open");
    ++abandoned;
  }
  void answer(HttpToken token) {
    if (open.erase(token) != 1) FAIL("answered twice");
    ++answered;
    const int status = rng_.below(5) == 0 ? 204 : 200;
    server->respond(token, status, "text/plain", {},
                    HttpBody::of(std::string(rng_.below(300'000) / (1 + rng_.below(1000)), 'x')),
                    rng_.below(10) == 0);
  }
  void answer_some() {
    while (!open.empty() && rng_.below(3) != 0)
      answer(*std::next(open.begin(), static_cast<long>(rng_.below(open.size()))));
  }

  HttpServer* server = nullptr;
  std::set<HttpToken> open;
  int handed = 0;
  int answered = 0;
  int abandoned = 0;
  std::size_t bytes = 0;

 private:
  Rng& rng_;
};

std::string some_request(Rng& rng) {
  switch (rng.below(12)) {
    case 0:
      return "GET / HTTP/1.1\nHost: a\r\n\r\n";
    case 1:
      return "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n";
    case 2:
      return "HEAD /h HTTP/1.1\r\nHost: a\r\n\r\n";
    case 3:
      return "GET /o HTTP/1.0\r\n\r\n";
    case 4:
      return "POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;x\r\nhello\r\n2710\r\n" +
             std::string(10'000, 'y') + "\r\n0\r\nT: 1\r\n\r\n";
    case 5: {
      const std::size_t size = rng.below(80'000);
      return "POST /p HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: " +
             std::to_string(size) + "\r\n\r\n" + std::string(size, 'z');
    }
    case 6:
      return "GET /" + std::string(rng.below(9000), 'p') + " HTTP/1.1\r\nHost: a\r\n\r\n";
    case 7:
      return "POST /b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nxx\r\n";
    default:
      return "POST /s HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc";
  }
}

struct Client {
  Client(EventLoop& loop, std::uint16_t port, Rng& rng) : raw(loop, port, {rng.below(2) * 8192, 0}) {
    for (std::uint64_t i = 1 + rng.below(5); i > 0; --i) input += some_request(rng);
  }
  RawClient raw;
  std::string input;
};

// One step of one client; true when it has left.
bool act(Client& client, Rng& rng) {
  if (!client.input.empty()) {
    const std::size_t size =
        std::min<std::size_t>(client.input.size(), 1 + rng.below(20'000) / (1 + rng.below(500)));
    const ssize_t sent = ::send(client.raw.fd(), client.input.data(), size, MSG_NOSIGNAL);
    if (sent > 0) client.input.erase(0, static_cast<std::size_t>(sent));
    if (sent < 0 && errno != EAGAIN) return true;
  }
  client.raw.read_some(rng.below(2) == 0 ? 500 : 50'000);
  client.raw.take();
  if (client.raw.at_end()) return true;
  switch (rng.below(60)) {
    case 0:
      client.raw.reset();
      return true;
    case 1:
      return true;
    case 2:
      client.raw.finish();
      client.input.clear();
      return false;
    default:
      return false;
  }
}

TEST_CASE("whatever clients do, each request ends once and nothing is held", "[http_server]") {
  const unsigned seed = GENERATE(11U, 12U, 13U, 14U);
  Rng rng(seed);
  Service service(rng);
  EventLoop loop;
  HttpServerOptions options;
  options.max_connections = 12;
  options.max_body_bytes = 64 * 1024;
  options.max_total_body_bytes = 256 * 1024;
  options.socket_buffers = {8192, 8192};
  options.header_timeout = options.body_timeout = options.write_timeout = options.linger_timeout = 30ms;
  options.idle_timeout = 40ms;
  auto server = std::make_unique<HttpServer>(loop, std::move(*listen_on(*Address::parse("127.0.0.1:0"), 64)),
                                             service, options);
  service.server = server.get();
  std::list<Client> clients;
  for (int turn = 0; turn < 3000; ++turn) {
    if (clients.size() < 16 && rng.below(3) == 0) clients.emplace_back(loop, server->port(), rng);
    if (!clients.empty()) {
      const auto chosen = std::next(clients.begin(), static_cast<long>(rng.below(clients.size())));
      if (act(*chosen, rng)) clients.erase(chosen);
    }
    if (rng.below(8) == 0) service.answer_some();
    loop.run_once(Duration::zero());
  }
  clients.clear();
  REQUIRE(run_until(loop, [&] {
    service.answer_some();
    return server->open_connections() == 0;
  }));
  CHECK(server->active_exchanges() == 0);
  CHECK(service.open.empty());
  CHECK(service.handed == service.answered + service.abandoned);
  const HttpServerCounters& c = server->counters();
  CHECK(c.requests == static_cast<std::uint64_t>(service.handed));
  CHECK(c.abandoned == static_cast<std::uint64_t>(service.abandoned));
  CHECK(c.responses + c.interrupted == c.refusals + static_cast<std::uint64_t>(service.answered));
  CHECK(c.requests > 100);
  CHECK(c.refusals > 10);
  // Who leaves while being served depends on real time too: at least once in all.
  static std::uint64_t abandoned = 0;
  abandoned += c.abandoned;
  if (seed == 14) CHECK(abandoned > 0);
}

}  // namespace
}  // namespace dlb
