#include "lb/options.h"

#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "test/support/catch.h"

namespace dlb::lb {
namespace {

using Catch::Matchers::Contains;

// A folder for one test's files.
class Folder {
 public:
  Folder() {
    char pattern[] = "/tmp/dlb_options_XXXXXX";
    REQUIRE(::mkdtemp(pattern) != nullptr);
    path_ = pattern;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ + "/" + name) << text;
    return path_ + "/" + name;
  }

 private:
  std::string path_;
};

struct Loaded {
  Options options;
  std::string error;  // of either step; empty: fine
};

Loaded load(std::vector<std::string> arguments, std::vector<std::string> environment = {}) {
  Loaded out;
  std::vector<const char*> argv = {"lb"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  std::vector<const char*> env;
  for (const std::string& one : environment) env.push_back(one.c_str());
  env.push_back(nullptr);
  auto loaded =
      load_options(kOptionTable, out.options, static_cast<int>(argv.size()), argv.data(), env.data());
  if (!loaded) {
    out.error = loaded.error().text;
    return out;
  }
  if (auto finished = finish_options(*loaded, out.options); !finished) out.error = finished.error().text;
  return out;
}

TEST_CASE("the short form makes backends named by host and port") {
  const Loaded loaded = load({"--backends", "http://127.0.0.1:6001,http://127.0.0.1:6002/"});
  REQUIRE(loaded.error == "");
  REQUIRE(loaded.options.backends.size() == 2);
  CHECK(loaded.options.backends[1].id == "127.0.0.1:6002");
  CHECK(loaded.options.backends[1].address.to_string() == "127.0.0.1:6002");
  CHECK(loaded.options.backends[1].weight == 1);
  CHECK(loaded.options.policy_kind == PolicyKind::Score);
}

TEST_CASE("the example files are right") {
  for (const char* file : {"lb/dlb.conf", "lb/dlb-512mib.conf"}) {
    const Loaded loaded = load({"-c", file});
    CHECK(loaded.error == "");
    CHECK(loaded.options.backends.size() == 3);
    CHECK(loaded.options.backends[0].id == "sys2");
  }
}

TEST_CASE("rows of [[backend]] with id, weight and wss") {
  const Folder folder;
  const std::string file = folder.write("lb.conf", R"(
policy = "least_conn"
health-method = "TCP"
[[backend]]
id = "a"
url = "http://127.0.0.1:6001"
wss = "127.0.0.1:5001"
weight = 0
[[backend]]
url = "http://[::1]:6002"
)");
  const Loaded loaded = load({"-c", file});
  REQUIRE(loaded.error == "");
  CHECK(loaded.options.backends[0].weight == 0);
  CHECK(loaded.options.backends[0].wss == "127.0.0.1:5001");
  CHECK(loaded.options.backends[1].id == "[::1]:6002");
  CHECK(loaded.options.policy_kind == PolicyKind::LeastConn);
  CHECK(loaded.options.health_method_kind == HealthMethod::Tcp);
}

TEST_CASE("backends from a JSON file") {
  const Folder folder;
  const std::string file = folder.write(
      "config.json", R"([{"name":"a","url":"http://127.0.0.1:6001","weight":3},{"url":"127.0.0.1:6002"}])");
  const Loaded loaded = load({"--backends-file", file});
  REQUIRE(loaded.error == "");
  REQUIRE(loaded.options.backends.size() == 2);
  CHECK(loaded.options.backends[0].id == "a");
  CHECK(loaded.options.backends[0].weight == 3);

  CHECK_THAT(load({"--backends-file", folder.write("a.json", "{}")}).error, Contains("JSON array"));
  CHECK_THAT(load({"--backends-file", folder.write("b.json", "[]")}).error, Contains("empty"));
  CHECK_THAT(
      load({"--backends-file", folder.write("c.json", R"([{"url":"http://127.0.0.1:1","wieght":2}])")}).error,
      Contains("entry 1") && Contains("wieght"));
  CHECK_THAT(load({"--backends-file", "/does/not/exist.json"}).error, Contains("/does/not/exist.json"));
}

TEST_CASE("exactly one source of backends") {
  CHECK_THAT(load({}).error, Contains("no backends"));
  const Folder folder;
  const std::string conf = folder.write("lb.conf", "[[backend]]\nurl = \"http://127.0.0.1:6001\"\n");
  CHECK_THAT(load({"-c", conf, "--backends", "http://127.0.0.1:6002"}).error, Contains("twice"));
  const std::string json = folder.write("config.json", R"([{"url":"http://127.0.0.1:6001"}])");
  CHECK_THAT(load({"-c", conf, "--backends-file", json}).error, Contains("twice"));
}

TEST_CASE("two backends of one name are refused, with the line of the second") {
  const Folder folder;
  const std::string file = folder.write("lb.conf",
                                        "[[backend]]\nid = \"a\"\nurl = \"http://127.0.0.1:1\"\n"
                                        "[[backend]]\nid = \"a\"\nurl = \"http://127.0.0.1:2\"\n");
  CHECK_THAT(load({"-c", file}).error, Contains(file + ":4") && Contains("\"a\""));
  CHECK_THAT(load({"--backends", "http://127.0.0.1:1,http://127.0.0.1:1"}).error, Contains("two backends"));
}

TEST_CASE("[[tcp]] tables and the wss addresses") {
  const Folder folder;
  const std::string start = "[[backend]]\nurl = \"http://127.0.0.1:1\"\n";
  const std::string file =
      folder.write("lb.conf", "wss-listen = \":2\"\nwss-backends = [\"127.0.0.1:3\"]\n" + start +
                                  "[[tcp]]\nlisten = \":4\"\nbackends = [\"127.0.0.1:5\", \"unix:/s\"]\n"
                                  "policy = \"least_conn\"\nsend-proxy-protocol = true\n");
  const Loaded loaded = load({"-c", file});
  REQUIRE(loaded.error == "");
  CHECK(loaded.options.backends[0].wss_address.to_string() == "127.0.0.1:3");
  REQUIRE(loaded.options.tcp.size() == 1);
  const TcpOption& tcp = loaded.options.tcp[0];
  CHECK(tcp.policy == "least_conn");
  CHECK(tcp.send_proxy_protocol);
  REQUIRE(tcp.addresses.size() == 2);
  CHECK(tcp.addresses[0].port() == 5);
  CHECK(tcp.addresses[1].is_unix());

  const auto fault = [&](const std::string& text) {
    return load({"-c", folder.write("bad.conf", text)}).error;
  };
  CHECK_THAT(fault(start + "[[tcp]]\nbackends = [\"127.0.0.1:5\"]\n"),
             Contains("bad.conf:3") && Contains("listen"));
  CHECK_THAT(fault(start + "[[tcp]]\nlisten = \":4\"\n"), Contains("1 to 64 backends"));
  CHECK_THAT(fault(start + "[[tcp]]\nlisten = \":4\"\nbackends = [\"127.0.0.1:0\"]\n"), Contains("port 0"));
  CHECK_THAT(fault(start + "[[tcp]]\nlisten = \":4\"\nbackends = [\"a:1\"]\npolicy = \"score\"\n"),
             Contains("policy"));
  CHECK_THAT(fault("wss-listen = \":2\"\n" + start), Contains("wss-listen") && Contains("0 backends"));
  CHECK_THAT(fault("wss-backends = [\"127.0.0.1:3\", \"127.0.0.1:4\"]\n" + start),
             Contains("2 addresses for 1"));
  CHECK_THAT(fault("wss-backends = [\"127.0.0.1:3\"]\n" + start + "wss = \"127.0.0.1:4\"\n"),
             Contains("twice"));
  CHECK_THAT(fault(start + "wss = \"nowhere\"\n"), Contains("bad.conf:1") && Contains("wss"));
}

TEST_CASE("urls that can't be used are refused with a sentence") {
  CHECK_THAT(load({"--backends", "https://127.0.0.1:6001"}).error, Contains("https") && Contains("http://"));
  CHECK_THAT(load({"--backends", "http://no-such-host.invalid:80"}).error, Contains("no-such-host.invalid"));
  for (const char* url : {"ftp://127.0.0.1:1", "http://127.0.0.1:1/path", "http://", "http://:80",
                          "http://a@127.0.0.1:1", "http://127.0.0.1:0", "http://127.0.0.1:70000"}) {
    CAPTURE(url);
    CHECK(load({"--backends", url}).error != "");
  }
}

TEST_CASE("values out of bounds and unknown policies are refused") {
  const std::string backend = "http://127.0.0.1:6001";
  CHECK_THAT(load({"--backends", backend, "--threshold", "101"}).error, Contains("threshold"));
  CHECK_THAT(load({"--backends", backend, "--threshold", "-1"}).error, Contains("threshold"));
  CHECK_THAT(load({"--backends", backend, "--policy", "scores"}).error, Contains("score"));
  CHECK_THAT(load({"--backends", backend, "--failure-limit", "0"}).error, Contains("failure-limit"));
  CHECK_THAT(load({"--backends", backend, "--health-path", "health"}).error, Contains("health-path"));
  CHECK_THAT(load({"--backends", backend, "--feed-paths", "feed"}).error, Contains("feed-paths"));
  CHECK_THAT(load({"--backends", backend, "--max-memory", "0"}).error, Contains("max-memory"));
  CHECK(load({"--backends", backend, "--stats-path", ""}).error == "");
  CHECK_THAT(load({"--backends", backend, "--trusted-proxies", "10.0.0.0/33"}).error,
             Contains("trusted-proxies") && Contains("10.0.0.0/33"));
  CHECK_THAT(load({"--backends", backend, "--accept-proxy-protocol"}).error,
             Contains("accept-proxy-protocol") && Contains("trusted-proxies"));
  const Loaded trusting =
      load({"--backends", backend, "--trusted-proxies", "10.0.0.5,0:0:0:0:0:0:0:1,fd00:0::/8"});
  CHECK(trusting.options.trusted_proxies == std::vector<std::string>{"10.0.0.5", "::1", "fd00::/8"});
  // Features that are not there are refused, not ignored.
  CHECK(load({"--backends", backend, "--tls-listen", ":8443"}).error != "");
}

TEST_CASE("the environment and the command line reach every option by the same name") {
  const Loaded loaded =
      load({"--max-inflight", "50"}, {"LB_BACKENDS=http://127.0.0.1:6001", "LB_THRESHOLD=60.5",
                                      "LB_MAX_INFLIGHT=70", "LB_SOCKET_READ_BUFFER_BYTES=16KiB"});
  REQUIRE(loaded.error == "");
  CHECK(loaded.options.threshold == 60.5);
  CHECK(loaded.options.max_inflight == 50);
  CHECK(loaded.options.socket_read_buffer_bytes == kib(16));
}

TEST_CASE("what --print-config prints can be fed back") {
  const Folder folder;
  Loaded first = load({"--backends", "http://127.0.0.1:6001,http://127.0.0.1:6002", "--threshold", "60"});
  REQUIRE(first.error == "");
  const std::string file = folder.write("printed.conf", print_config(kOptionTable, first.options));
  Loaded second = load({"-c", file});
  REQUIRE(second.error == "");
  CHECK(second.options.backends.size() == 2);
  CHECK(second.options.threshold == 60);
  CHECK(print_config(kOptionTable, first.options) == print_config(kOptionTable, second.options));
}

}  // namespace
}  // namespace dlb::lb
