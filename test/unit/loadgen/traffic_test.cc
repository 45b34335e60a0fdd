// What goes over the wire: the same seed sends the same bytes.
#include <algorithm>
#include <vector>

#include "loadgen/stage.h"
#include "test/support/catch.h"
#include "test/unit/loadgen/scripted_server.h"

namespace dlb::loadgen {
namespace {

using std::chrono::milliseconds;
using test::Received;
using test::Reply;
using test::response;
using test::ScriptedServer;

// All that a server received of a stage, whole requests as they came over the wire, in one order.
std::vector<std::string> received(ScriptedServer& server, const StageShape& shape) {
  EventLoop loop;
  ConnectionContext context(loop, std::chrono::seconds(20), Duration::zero());
  ConnectionPool pool(context, 100, 1);
  const std::vector<Target> targets = {*parse_target(server.url())};
  Ledger ledger;
  const std::size_t before = server.requests().size();
  const auto recorder = std::make_unique<Recorder>();
  Stage stage(shape, targets, loop, pool, *recorder, ledger);
  stage.start();
  while (!stage.done()) loop.run_once(milliseconds(50));
  recorder->close();
  CHECK(recorder->in(Bucket::Ok) == shape.requests);
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

}  // namespace
}  // namespace dlb::loadgen
