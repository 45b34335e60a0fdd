// The backend's HTTP side on a real loop and real sockets, with a store whose answers the test chooses: for
// outcomes that no healthy database gives on demand. Integration tests run the same routes over both real
// stores.
#pragma once

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <csignal>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "backend/drainer.h"
#include "backend/http_api.h"
#include "backend/internal_stats.h"
#include "backend/message_store.h"
#include "common/address.h"
#include "common/cgroup.h"
#include "common/event_loop.h"
#include "common/fd.h"
#include "common/http_server.h"
#include "common/log.h"
#include "common/socket.h"
#include "test/support/catch.h"

namespace dlb::backend {

// Keeps messages in a map unless told otherwise.
class ScriptedStore final : public MessageStore {
 public:
  enum class Mode { Keep, Hold, Answer };

  Mode mode = Mode::Keep;
  PutOutcome outcome;  // of Mode::Answer, given inside put()
  FeedAnswer feed_answer;
  bool up = true;
  std::vector<NewMessage> kept;
  std::set<std::uint64_t> held;
  std::vector<std::uint64_t> cancelled;
  FeedQuery last_query;

  void start(MessageStoreClient& client) override { client_ = &client; }
  void put(NewMessage message, std::uint64_t token) override {
    if (mode == Mode::Hold) {
      held.insert(token);
    } else if (mode == Mode::Answer) {
      client_->on_put(token, outcome);
    } else {
      client_->on_put(token, keep(std::move(message)));
    }
  }
  void cancel(std::uint64_t token) override {
    held.erase(token);
    cancelled.push_back(token);
  }
  void feed(const FeedQuery& query, std::uint64_t token) override {
    last_query = query;
    if (mode == Mode::Hold) {
      held.insert(token);
    } else {
      client_->on_feed(token, feed_answer);
    }
  }
  ChatStore& chat() override {
    DLB_CHECK_MSG(false, "no chat here");
    std::abort();
  }
  bool healthy() const override { return up; }
  MessageStoreStats stats() const override {
    MessageStoreStats stats;
    stats.created = kept.size();
    stats.database_up = up;
    return stats;
  }
  bool idle() const override { return held.empty(); }

  void release_puts() {
    const auto tokens = std::exchange(held, {});
    for (const std::uint64_t token : tokens) client_->on_put(token, outcome);
  }

 private:
  PutOutcome keep(NewMessage message) {
    PutOutcome result;
    result.timestamp_us = 1'788'962'400'123'456;
    for (std::size_t i = 0; i < kept.size(); ++i) {
      if (kept[i].id != message.id) continue;
      const bool same = kept[i].client_name == message.client_name && kept[i].text == message.text;
      result.status = same ? PutStatus::Duplicate : PutStatus::Conflict;
      result.sequence = static_cast<std::int64_t>(i) + 1;
      return result;
    }
    kept.push_back(std::move(message));
    result.status = PutStatus::Created;
    result.sequence = static_cast<std::int64_t>(kept.size());
    return result;
  }

  MessageStoreClient* client_ = nullptr;
};

struct Response {
  int status = 0;
  std::string head;
  std::string body;
  // The value of a header, "" when absent.
  std::string header(std::string_view name) const {
    const std::string start = "\r\n" + std::string(name) + ": ";
    const std::size_t at = head.find(start);
    if (at == std::string::npos) return "";
    const std::size_t begin = at + start.size();
    return head.substr(begin, head.find("\r\n", begin) - begin);
  }
};

// Everything around a store; derived fixtures bring one.
struct ApiHarness {
  LogConfig log_config() {
    LogConfig config;
    config.level = LogLevel::Error;
    return config;
  }
  static HttpApiConfig api_config() {
    HttpApiConfig config;
    config.backend_id = "sysX";
    config.version = "test";
    config.store_kind = "sqlite";
    return config;
  }
  static Fd listener() {
    auto address = Address::parse("127.0.0.1:0");
    REQUIRE(address.has_value());
    auto fd = listen_on(*address, 64);
    REQUIRE(fd.has_value());
    return std::move(*fd);
  }
  static HttpServerOptions server_options() {
    HttpServerOptions options;
    options.fixed_header_lines = HttpApi::fixed_header_lines("sysX");
    return options;
  }

  Log log{log_config()};
  EventLoop loop;
  HttpApi api{loop, api_config()};
  Cgroup cgroup;
  ResourceSampler resources{loop, cgroup};
  HttpServer server{loop, listener(), api, server_options()};
  WsServer sockets{loop, {}};
  Drainer drainer{
      loop, log, {&server}, sockets, {std::chrono::milliseconds(150), std::chrono::milliseconds(300)}};

  void serve(MessageStore& served) {
    api.bind(server, served, resources, drainer);
    served.start(api);
  }

  // Turns the loop until `done`; fails after five seconds.
  void pump(const std::function<bool()>& done) {
    const TimePoint give_up = monotonic_now() + std::chrono::seconds(5);
    while (!done()) {
      REQUIRE(monotonic_now() < give_up);
      loop.run_once(std::chrono::milliseconds(5));
    }
  }

  Fd dial() {
    Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(server.port());
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) return Fd();
    return fd;
  }

  static void send_all(const Fd& fd, std::string_view bytes) {
    REQUIRE(::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()));
  }

  Response read_response(const Fd& fd, bool without_body = false) {
    std::string bytes;
    std::size_t wanted = 0;
    Response response;
    pump([&] {
      char chunk[65536];
      const ssize_t got = ::recv(fd.get(), chunk, sizeof chunk, MSG_DONTWAIT);
      if (got > 0) bytes.append(chunk, static_cast<std::size_t>(got));
      const std::size_t end = bytes.find("\r\n\r\n");
      if (end == std::string::npos) return got == 0;
      response.head = bytes.substr(0, end + 2);
      const std::string length = without_body ? "" : response.header("Content-Length");
      wanted = end + 4 + (length.empty() ? 0 : std::stoul(length));
      return bytes.size() >= wanted || got == 0;
    });
    REQUIRE(bytes.size() == wanted);
    REQUIRE(response.head.size() > 12);
    response.status = std::stoi(response.head.substr(9, 3));
    response.body = bytes.substr(response.head.size() + 2);
    return response;
  }

  Response exchange(std::string_view method, std::string_view target, std::string_view headers = {},
                    std::string_view body = {}) {
    const Fd fd = dial();
    REQUIRE(fd);
    std::string request(method);
    request.append(" ").append(target).append(" HTTP/1.1\r\nHost: x\r\n").append(headers);
    if (!body.empty() || method == "POST") {
      request.append("Content-Length: ").append(std::to_string(body.size())).append("\r\n");
    }
    request.append("\r\n").append(body);
    send_all(fd, request);
    return read_response(fd, method == "HEAD");
  }
  Response get(std::string_view target, std::string_view headers = {}) {
    return exchange("GET", target, headers);
  }
  Response post(std::string_view body, std::string_view headers = "Content-Type: application/json\r\n") {
    return exchange("POST", "/message", headers, body);
  }
};

struct ApiFixture : ApiHarness {
  ScriptedStore store;

  ApiFixture() {
    serve(store);
    store.feed_answer.available = true;
    store.feed_answer.body = HttpBody::of(R"({"messages":[],"count":0})");
    store.feed_answer.etag = "\"abc\"";
  }
};

}  // namespace dlb::backend
