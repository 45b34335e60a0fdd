// ScriptedServer: a raw-socket HTTP server on a free port whose answers a test writes byte for byte. One
// thread a connection, blocking; it reads a whole request, hands it to the script, and does what the script
// says.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "common/clock.h"
#include "common/fd.h"

namespace dlb::loadgen::test {

struct Reply {
  enum class Then : std::uint8_t {
    Keep,   // wait for the next request
    Close,  // orderly, in one segment with the last piece
    Reset,  // RST
    Hang,   // say nothing more until the client closes
  };
  std::vector<std::string> pieces;  // each sent by a send() of its own
  Then then = Then::Keep;
  Duration after{};  // how long the server takes to answer
};

struct Received {
  std::string text;          // head and body
  std::uint64_t number = 0;  // of all requests of this server, from 0
  std::uint64_t on_connection = 0;

  bool is_feed() const { return text.starts_with("GET "); }
  std::string header(std::string_view name) const;
};

class ScriptedServer {
 public:
  // The script is called from several threads, one call at a time.
  explicit ScriptedServer(std::function<Reply(const Received&)> script);
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;
  ~ScriptedServer();

  std::uint16_t port() const { return port_; }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  std::uint64_t connections() const { return connections_; }
  std::vector<std::string> requests();

 private:
  void accept_all();
  void serve(int fd);

  std::function<Reply(const Received&)> script_;
  std::uint16_t port_ = 0;  // before the listener, whose making sets it
  Fd listener_;
  std::atomic<bool> stopping_{false};
  std::atomic<std::uint64_t> connections_{0};
  std::mutex mutex_;
  std::vector<std::string> requests_;
  std::list<Fd> fds_;  // of the connections, closed at the end
  std::list<std::thread> threads_;
  std::thread acceptor_;
};

// `HTTP/1.1 STATUS …` with Content-Length, X-Backend and the body.
std::string response(int status, std::string_view body = "{}", std::string_view more_headers = "",
                     std::string_view backend = "b1");

// A port of 127.0.0.1 that nothing listens on.
std::uint16_t closed_port();

}  // namespace dlb::loadgen::test
