// Our client's side of TLS against our server's, over a socketpair: whom it believes.
#include <fcntl.h>
#include <sys/socket.h>

#include <array>
#include <string>
#include <vector>

#include "common/tls_session.h"
#include "common/transport.h"
#include "test/support/catch.h"
#include "test/support/certificates.h"
#include "test/support/temp_dir.h"

namespace dlb {
namespace {

struct Outcome {
  bool done = false;
  std::string distrust;
  std::int64_t expires_at = 0;
  std::string heard;
};

// A client that wants `host` meets a server with the certificate `name`; then each says something.
Outcome meet(const test::TempDir& dir, const TlsContext::Trust& trust, const std::string& host,
             const std::string& name = "one") {
  std::vector<std::string> warnings;
  auto server_context = TlsContext::load(dir.file(name + ".crt"), dir.file(name + ".key"), warnings);
  auto client_context = TlsContext::client(trust);
  REQUIRE(server_context);
  REQUIRE(client_context);
  std::array<int, 2> fds{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds.data()) == 0);
  Transport server{Fd(fds[0])};
  Transport client{Fd(fds[1])};
  REQUIRE(server.start_tls(*server_context));
  REQUIRE(client.start_tls_client(*client_context, host));

  Outcome out;
  bool served = false;
  for (int i = 0; i < 20 && !(out.done && served); ++i) {
    client.note_events(EPOLLIN | EPOLLOUT);
    server.note_events(EPOLLIN | EPOLLOUT);
    if (!out.done) {
      const IoResult result = client.handshake();
      out.done = result.ok();
      if (result.status == IoStatus::Error) break;
    }
    if (!served) served = server.handshake().ok();
  }
  out.distrust = client.tls()->distrust();
  out.expires_at = client.tls()->peer_expires_at();
  if (!out.done) return out;
  std::array<char, 64> room{};
  CHECK(client.write(std::string_view("ping")).bytes == 4);
  server.note_events(EPOLLIN);
  CHECK(server.read(room).bytes == 4);
  CHECK(server.write(std::string_view("pong")).bytes == 4);
  client.note_events(EPOLLIN);
  out.heard.assign(room.data(), client.read(room).bytes);
  return out;
}

}  // namespace

TEST_CASE("tls client: believes the certificate that it was told to, for its name only") {
  test::TempDir dir;
  test::make_certificate(dir.path(), "one");  // CN=localhost
  const Outcome good = meet(dir, {true, dir.file("one.crt")}, "localhost");
  CHECK(good.done);
  CHECK(good.distrust.empty());
  CHECK(good.heard == "pong");
  std::vector<std::string> warnings;
  const auto context = TlsContext::load(dir.file("one.crt"), dir.file("one.key"), warnings);
  REQUIRE(context);
  CHECK(good.expires_at == context->expires_at());

  const Outcome other = meet(dir, {true, dir.file("one.crt")}, "example.org");
  CHECK_FALSE(other.done);
  CHECK(other.distrust.find("mismatch") != std::string::npos);
  CHECK_FALSE(meet(dir, {true, dir.file("one.crt")}, "127.0.0.1").done);
}

TEST_CASE("tls client: strangers and expired certificates are not believed, unless it believes anyone") {
  test::TempDir dir;
  test::make_certificate(dir.path(), "one");
  test::make_certificate(dir.path(), "two");
  test::make_certificate(dir.path(), "old", -1);
  CHECK_FALSE(meet(dir, {true, dir.file("two.crt")}, "localhost").done);
  CHECK_FALSE(meet(dir, {}, "localhost").distrust.empty());
  CHECK(meet(dir, {true, dir.file("old.crt")}, "localhost", "old").distrust.find("expired") !=
        std::string::npos);
  CHECK(meet(dir, {false, {}}, "example.org").heard == "pong");
}

TEST_CASE("tls client: a file without certificates is an error that names it") {
  test::TempDir dir;
  const std::string file = dir.write("empty.pem", "nothing");
  for (const std::string& name : {file, dir.file("none.pem")}) {
    const auto context = TlsContext::client({true, name});
    REQUIRE_FALSE(context);
    CHECK(context.error().text.find(name) == 0);
  }
}

}  // namespace dlb
