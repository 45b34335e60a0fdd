// The server's side through Transport, over a socketpair, against OpenSSL's own client.
#include "common/tls_session.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <optional>
#include <string>

#include "common/rng.h"
#include "common/transport.h"
#include "test/support/catch.h"
#include "test/support/certificates.h"
#include "test/support/temp_dir.h"

namespace dlb {
namespace {

struct ClientWish {
  int version_min = TLS1_2_VERSION;
  int version_max = TLS1_3_VERSION;
  std::string protocols;  // ALPN, as on the wire
  SSL_SESSION* resume = nullptr;
};

class Client {
 public:
  Client(int fd, const ClientWish& wish) : fd_(fd), context_(SSL_CTX_new(TLS_client_method())) {
    SSL_CTX_set_security_level(context_, 0);
    SSL_CTX_set_min_proto_version(context_, wish.version_min);
    SSL_CTX_set_max_proto_version(context_, wish.version_max);
    SSL_CTX_set_session_cache_mode(context_, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(context_, keep_session);
    ssl_ = SSL_new(context_);
    SSL_set_app_data(ssl_, this);
    SSL_set_fd(ssl_, fd);
    SSL_set_connect_state(ssl_);
    if (wish.resume != nullptr) SSL_set_session(ssl_, wish.resume);
    SSL_set_alpn_protos(ssl_, reinterpret_cast<const unsigned char*>(wish.protocols.data()),
                        static_cast<unsigned>(wish.protocols.size()));
  }
  ~Client() {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
    SSL_SESSION_free(session_);
    ::close(fd_);
  }
  // One step; true when done.
  bool shake() { return SSL_do_handshake(ssl_) == 1; }
  bool say(std::string_view text) {
    return SSL_write(ssl_, text.data(), static_cast<int>(text.size())) == static_cast<int>(text.size());
  }
  // What is there now, at most `most` bytes.
  std::string hear(std::size_t most = 64 * 1024) {
    std::string out(most, '\0');
    const int got = SSL_read(ssl_, out.data(), static_cast<int>(most));
    end_ = got > 0 ? SSL_ERROR_NONE : SSL_get_error(ssl_, got);
    if (got <= 0) ERR_clear_error();
    out.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return out;
  }
  int end() const { return end_; }  // SSL_ERROR_* of the last hear()
  SSL* ssl() { return ssl_; }
  SSL_SESSION* session() { return session_; }

 private:
  static int keep_session(SSL* ssl, SSL_SESSION* session) {
    auto* const self = static_cast<Client*>(SSL_get_app_data(ssl));
    SSL_SESSION_free(self->session_);
    self->session_ = session;
    return 1;
  }
  int fd_;
  SSL_CTX* context_;
  SSL* ssl_;
  SSL_SESSION* session_ = nullptr;
  int end_ = SSL_ERROR_NONE;
};

struct Scene {
  Scene() : Scene(ClientWish{}) {}
  explicit Scene(const ClientWish& wish) : Scene(wish, fresh_context()) {}
  Scene(const ClientWish& wish, const TlsContext& context) {
    std::signal(SIGPIPE, SIG_IGN);  // the client's
    std::array<int, 2> fds{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds.data()) == 0);
    server = Transport(Fd(fds[0]));
    client.emplace(fds[1], wish);
    REQUIRE(server.start_tls(context));
  }
  static TlsContext fresh_context() {
    test::TempDir dir;
    test::make_certificate(dir.path(), "one");
    std::vector<std::string> warnings;
    auto loaded = TlsContext::load(dir.file("one.crt"), dir.file("one.key"), warnings);
    REQUIRE(loaded);
    return std::move(*loaded);
  }
  // Both sides in turn. True when both are through.
  bool shake() {
    bool mine = false;
    bool theirs = false;
    for (int i = 0; i < 10 && !(mine && theirs); ++i) {
      theirs = theirs || client->shake();
      server.note_events(EPOLLIN | EPOLLOUT);
      const IoResult result = mine ? IoResult{IoStatus::Ok, 0, 0} : server.handshake();
      if (result.status == IoStatus::Error || result.status == IoStatus::Eof) return false;
      mine = result.ok();
    }
    ERR_clear_error();
    return mine && theirs;
  }
  IoResult read() {
    server.note_events(EPOLLIN);
    const IoResult got = server.read(room);
    heard.append(room.data(), got.bytes);
    return got;
  }
  Transport server;
  std::optional<Client> client;
  std::string heard;
  std::array<char, 4096> room{};
};

std::string random_bytes(std::size_t size) {
  Rng rng(7);
  std::string out(size, '\0');
  for (char& c : out) c = static_cast<char>(rng.next());
  return out;
}

}  // namespace

TEST_CASE("tls session: bytes go both ways, in 1.2 and 1.3") {
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    ClientWish wish;
    wish.version_min = wish.version_max = version;
    Scene scene(wish);
    REQUIRE(scene.shake());
    CHECK(scene.server.tls()->version() ==
          (version == TLS1_3_VERSION ? TlsVersion::Tls13 : TlsVersion::Tls12));
    CHECK_FALSE(scene.server.can_splice());
    REQUIRE(scene.client->say("hello"));
    CHECK(scene.read().ok());
    CHECK(scene.heard == "hello");
    const std::string_view parts[] = {"HTTP/1.1 200 OK\r\n", "\r\n", "body"};
    std::array<iovec, 3> list{};
    for (std::size_t i = 0; i < 3; ++i) list[i] = {const_cast<char*>(parts[i].data()), parts[i].size()};
    CHECK(scene.server.writev(list.data(), 3).bytes == 23);
    CHECK(scene.client->hear() == "HTTP/1.1 200 OK\r\n\r\nbody");
  }
}

TEST_CASE("tls session: what is not served is refused: 1.1, h2 alone, no TLS at all") {
  ClientWish old;
  old.version_min = TLS1_VERSION;
  old.version_max = TLS1_1_VERSION;
  CHECK_FALSE(Scene(old).shake());
  ClientWish h2;
  h2.protocols = "\x02h2";
  CHECK_FALSE(Scene(h2).shake());
  Scene garbage;
  REQUIRE(::send(SSL_get_fd(garbage.client->ssl()), "\x16garbage garbage garbage", 24, 0) == 24);
  garbage.server.note_events(EPOLLIN);
  CHECK(garbage.server.handshake().status == IoStatus::Error);
  CHECK(garbage.server.handshake().status != IoStatus::Ok);
}

TEST_CASE("tls session: http/1.1 is chosen from what a client offers") {
  ClientWish wish;
  wish.protocols = std::string("\x02h2\x08http/1.1", 12);
  Scene scene(wish);
  REQUIRE(scene.shake());
  const unsigned char* chosen = nullptr;
  unsigned int size = 0;
  SSL_get0_alpn_selected(scene.client->ssl(), &chosen, &size);
  CHECK(std::string_view(reinterpret_cast<const char*>(chosen), size) == "http/1.1");
}

TEST_CASE("tls session: a session is resumed by any connection of its context, and by no other context") {
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    const TlsContext context = Scene::fresh_context();
    ClientWish wish;
    wish.version_min = wish.version_max = version;
    Scene first(wish, context);
    REQUIRE(first.shake());
    CHECK_FALSE(first.server.tls()->resumed());
    first.client->hear();  // tickets of 1.3 come behind the handshake
    REQUIRE(first.client->session() != nullptr);
    wish.resume = first.client->session();
    Scene again(wish, context);
    REQUIRE(again.shake());
    CHECK(again.server.tls()->resumed());
    Scene elsewhere(wish);
    REQUIRE(elsewhere.shake());
    CHECK_FALSE(elsewhere.server.tls()->resumed());
  }
}

TEST_CASE("tls session: a write that blocked goes on when the same bytes come again, with more behind them") {
  Scene scene;
  REQUIRE(scene.shake());
  const std::string sent = random_bytes(900'000);
  Rng rng(3);
  std::string heard;
  std::size_t done = 0;
  std::size_t presented = 0;  // by the last write; a relay never presents less than that again
  int blocked = 0;
  while (heard.size() < sent.size()) {
    scene.server.note_events(EPOLLOUT);
    while (scene.server.write_ready() && done < sent.size()) {
      const std::size_t size = std::min(sent.size() - done, presented + 1 + rng.next() % 40'000);
      const std::size_t split = rng.next() % (size + 1);
      std::string copy = sent.substr(done, size);  // other memory each time
      const iovec parts[] = {{copy.data(), split}, {copy.data() + split, size - split}};
      const IoResult wrote = scene.server.writev(parts, 2);
      REQUIRE(wrote.status != IoStatus::Error);
      if (!wrote.ok()) ++blocked;
      presented = wrote.ok() ? 0 : size;
      done += wrote.bytes;
    }
    for (int i = 0; i < 3; ++i) heard += scene.client->hear(5'000);
  }
  CHECK(blocked > 3);
  CHECK((heard == sent));
}

TEST_CASE("tls session: large input arrives whole and leaves nothing behind") {
  Scene scene;
  REQUIRE(scene.shake());
  const std::string sent = random_bytes(200'000);
  std::size_t done = 0;
  while (scene.heard.size() < sent.size()) {
    const std::size_t size = std::min<std::size_t>(sent.size() - done, 10'000);
    if (size > 0 && scene.client->say({sent.data() + done, size})) done += size;
    scene.server.note_events(EPOLLIN);
    while (scene.server.read_ready()) {
      const IoResult got = scene.server.read(scene.room);
      REQUIRE(got.status != IoStatus::Error);
      scene.heard.append(scene.room.data(), got.bytes);
    }
  }
  CHECK((scene.heard == sent));
}

TEST_CASE("tls session: ready falls with the last byte, and stays while the record layer holds some") {
  Scene scene;
  REQUIRE(scene.shake());
  REQUIRE(scene.client->say("0123456789"));
  scene.server.note_events(EPOLLIN);
  std::array<char, 4> little{};
  CHECK(scene.server.read(little).bytes == 4);
  CHECK(scene.server.read_ready());  // no edge will come for the rest
  CHECK(scene.server.read(scene.room).bytes == 6);
  CHECK_FALSE(scene.server.read_ready());
}

TEST_CASE("tls session: close_notify and a FIN alone are an end, and the other direction goes on") {
  for (const bool notified : {true, false}) {
    Scene scene;
    REQUIRE(scene.shake());
    REQUIRE(scene.client->say("last"));
    if (notified) SSL_shutdown(scene.client->ssl());
    ::shutdown(SSL_get_fd(scene.client->ssl()), SHUT_WR);
    scene.server.note_events(EPOLLIN | EPOLLRDHUP);
    CHECK(scene.read().ok());
    CHECK(scene.read().status == IoStatus::Eof);
    CHECK(scene.heard == "last");
    CHECK(scene.server.write(std::string_view("answer")).bytes == 6);
    CHECK(scene.client->hear() == "answer");
  }
}

TEST_CASE("tls session: only an end that is meant tells the client so") {
  for (const bool meant : {true, false}) {
    Scene scene;
    REQUIRE(scene.shake());
    REQUIRE(scene.server.write(std::string_view("body")).ok());
    if (meant) {
      scene.server.shutdown_write();
    } else {
      ::shutdown(scene.server.fd(), SHUT_WR);
    }
    CHECK(scene.client->hear() == "body");
    CHECK(scene.client->hear().empty());
    CHECK(scene.client->end() == (meant ? SSL_ERROR_ZERO_RETURN : SSL_ERROR_SSL));
  }
}

TEST_CASE("tls session: a close that finds no room is sent when there is room, never behind half a record") {
  Scene scene;
  REQUIRE(scene.shake());
  const std::string filler(TlsSession::kRecordBytes, 'x');
  std::size_t sent = 0;
  while (scene.server.write_ready()) sent += scene.server.write(filler).bytes;
  scene.server.shutdown_write();
  std::size_t heard = 0;
  for (std::string part; !(part = scene.client->hear()).empty();) heard += part.size();
  scene.server.note_events(EPOLLOUT);
  for (std::string part; !(part = scene.client->hear()).empty();) heard += part.size();
  CHECK(heard == sent);
  CHECK(scene.client->end() != SSL_ERROR_ZERO_RETURN);  // a record was cut: that is no end
}

TEST_CASE("tls session: connections keep the context that they began with") {
  std::optional<TlsContext> context = Scene::fresh_context();
  Scene scene(ClientWish{}, *context);
  context.reset();
  REQUIRE(scene.shake());
  REQUIRE(scene.server.write(std::string_view("still here")).ok());
  CHECK(scene.client->hear() == "still here");
}

}  // namespace dlb
