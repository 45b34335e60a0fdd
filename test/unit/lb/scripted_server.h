// ScriptedServer: a real listening socket on a free loopback port whose connections each run a script on a
// thread of their own, in plain blocking calls. For the tests of checks and polls: what a backend says, byte
// by byte.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/address.h"
#include "test/support/catch.h"

namespace dlb::lb {

class ScriptedServer {
 public:
  // One accepted connection, as its script sees it.
  class Connection {
   public:
    Connection(ScriptedServer& server, int fd) : server_(server), fd_(fd) {}
    // The request's head, to the empty line; what there is when the client closes first.
    std::string read_head() {
      std::string head;
      char c = 0;
      while (head.find("\r\n\r\n") == std::string::npos && ::recv(fd_, &c, 1, 0) == 1) head += c;
      return head;
    }
    bool send(std::string_view text) {
      while (!text.empty()) {
        const ssize_t sent = ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
        if (sent <= 0) return false;
        text.remove_prefix(static_cast<std::size_t>(sent));
      }
      return true;
    }
    // Answers with a length and closes.
    void answer(int status, const std::string& body) {
      send("HTTP/1.1 " + std::to_string(status) + " X\r\nContent-Length: " + std::to_string(body.size()) +
           "\r\n\r\n" + body);
    }
    // Waits until the client closes or the server stops.
    void wait_for_close() {
      pollfd one{fd_, POLLIN, 0};
      char buffer[4096];
      while (!server_.stopping()) {
        if (::poll(&one, 1, 10) > 0 && ::recv(fd_, buffer, sizeof buffer, 0) <= 0) return;
      }
    }
    // The pace of a slow script; ends early when the server stops.
    void pause(std::chrono::milliseconds duration) { server_.pause(duration); }
    void reset_on_close() {
      const linger now{1, 0};
      ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    }
    bool stopping() const { return server_.stopping(); }

   private:
    ScriptedServer& server_;
    int fd_;
  };
  using Script = std::function<void(Connection&)>;

  explicit ScriptedServer(Script script) : script_(std::move(script)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(::listen(listener_, 64) == 0);
    socklen_t length = sizeof address;
    REQUIRE(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length) == 0);
    address_ = Address::from_sockaddr(reinterpret_cast<sockaddr*>(&address), length);
    acceptor_ = std::thread([this] { accept_all(); });
  }
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;
  ~ScriptedServer() {
    {
      const std::lock_guard lock(mutex_);
      stop_.store(true);
    }
    wake_.notify_all();
    acceptor_.join();
    ::close(listener_);
    for (std::thread& thread : threads_) thread.join();
  }

  const Address& address() const { return address_; }
  int accepted() const { return accepted_.load(); }
  int most_at_once() const { return most_at_once_.load(); }
  bool stopping() const { return stop_.load(); }

 private:
  void accept_all() {
    pollfd one{listener_, POLLIN, 0};
    while (!stop_.load()) {
      if (::poll(&one, 1, 10) <= 0) continue;
      const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) continue;
      timeval patience{5, 0};
      ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
      ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
      accepted_.fetch_add(1);
      const int open = open_.fetch_add(1) + 1;
      if (open > most_at_once_.load()) most_at_once_.store(open);
      threads_.emplace_back([this, fd] {
        Connection connection(*this, fd);
        script_(connection);
        open_.fetch_sub(1);
        ::close(fd);
      });
    }
  }
  void pause(std::chrono::milliseconds duration) {
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, duration, [this] { return stop_.load(); });
  }

  Script script_;
  int listener_ = -1;
  Address address_;
  std::atomic<bool> stop_{false};
  std::atomic<int> accepted_{0};
  std::atomic<int> open_{0};
  std::atomic<int> most_at_once_{0};
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::thread> threads_;  // the acceptor's; joined after it
  std::thread acceptor_;
};

}  // namespace dlb::lb
