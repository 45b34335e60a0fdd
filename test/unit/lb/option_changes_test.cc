#include "lb/option_changes.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "test/support/catch.h"

namespace dlb::lb {
namespace {

using Names = std::vector<std::string>;

Names sorted(Names names) {
  std::ranges::sort(names);
  return names;
}

TEST_CASE("equal options change nothing") {
  const Options before;
  Options after;
  const OptionChanges changes = settle_options(before, after);
  CHECK(changes.live.empty());
  CHECK(changes.restart.empty());
}

TEST_CASE("what can take effect does, and is named") {
  const Options before;
  Options after;
  after.threshold = 50;
  after.policy = "round_robin";
  after.client_idle_timeout = std::chrono::seconds(1);
  after.deny_paths = {"/secret/"};
  after.log_level = "debug";
  after.backends.emplace_back().id = "a";
  const OptionChanges changes = settle_options(before, after);
  CHECK(sorted(changes.live) ==
        Names{"backend", "client-idle-timeout", "deny-paths", "log-level", "policy", "threshold"});
  CHECK(changes.restart.empty());
  CHECK(after.threshold == 50);
}

TEST_CASE("what needs a restart is named and stays as it was") {
  Options before;
  before.workers = 2;
  Options after;
  after.workers = 4;
  after.listen = ":9";
  after.access_log = "-";
  after.socket_read_buffer_bytes = kib(16);
  after.threshold = 50;
  const OptionChanges changes = settle_options(before, after);
  CHECK(sorted(changes.restart) == Names{"access-log", "listen", "socket-read-buffer-bytes", "workers"});
  CHECK(changes.live == Names{"threshold"});
  CHECK(after.workers == 2);
  CHECK(after.listen == before.listen);
  CHECK(after.access_log == "off");
  CHECK(after.socket_read_buffer_bytes.bytes == 0);
}

TEST_CASE("certificate files follow the file, but not without their listener") {
  Options before;
  before.tls_listen = ":1";
  before.tls_cert = "old.crt";
  before.tls_key = "old.key";
  Options after = before;
  after.tls_cert = "new.crt";
  CHECK(settle_options(before, after).live == Names{"tls-cert"});
  CHECK(after.tls_cert == "new.crt");

  Options none;
  const OptionChanges changes = settle_options(before, none);
  CHECK(changes.restart == Names{"tls-listen"});
  CHECK(changes.live.empty());
  CHECK(none.tls_listen == ":1");
  CHECK(none.tls_cert == "old.crt");
  CHECK(none.tls_key == "old.key");
}

TcpOption tcp(const std::string& listen, const std::string& backend) {
  TcpOption option;
  option.listen = listen;
  option.backends = {backend};
  return option;
}

TEST_CASE("layer-4 listeners stay, in their order; what is behind them changes") {
  Options before;
  before.tcp = {tcp(":1", "a:1"), tcp(":2", "b:1")};
  Options after;
  after.tcp = {tcp(":2", "c:1"), tcp(":3", "d:1")};
  OptionChanges changes = settle_options(before, after);
  CHECK(changes.restart == Names{"tcp"});
  CHECK(changes.live == Names{"tcp"});
  REQUIRE(after.tcp.size() == 2);
  CHECK(after.tcp[0].listen == ":1");
  CHECK(after.tcp[0].backends == Names{"a:1"});
  CHECK(after.tcp[1].listen == ":2");
  CHECK(after.tcp[1].backends == Names{"c:1"});

  Options turned;
  turned.tcp = {tcp(":2", "b:1"), tcp(":1", "a:1")};
  changes = settle_options(before, turned);
  CHECK(changes.restart.empty());
  CHECK(changes.live.empty());
  CHECK(turned.tcp[0].listen == ":1");
}

TEST_CASE("a wss-listen that has left the file stays with the addresses behind it") {
  Options before;
  before.wss_listen = ":1";
  before.backends.resize(2);
  before.backends[0].id = "a";
  before.backends[0].wss = "127.0.0.1:5001";
  before.backends[1].id = "b";
  before.backends[1].wss = "127.0.0.1:5002";
  Options after;
  after.backends.resize(2);
  after.backends[0].id = "b";
  after.backends[1].id = "c";
  const OptionChanges changes = settle_options(before, after);
  CHECK(changes.restart == Names{"wss-listen"});
  CHECK(after.wss_listen == ":1");
  CHECK(after.backends[0].wss == "127.0.0.1:5002");
  CHECK(after.backends[1].wss.empty());
}

}  // namespace
}  // namespace dlb::lb
