#include "test/unit/loadgen/scripted_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <charconv>

#include "common/address.h"
#include "common/check.h"
#include "common/socket.h"

namespace dlb::loadgen::test {
namespace {

Fd listen_somewhere(std::uint16_t& port) {
  const auto address = Address::parse("127.0.0.1:0");
  DLB_CHECK(address.has_value());
  auto fd = listen_on(*address, 512);
  DLB_CHECK(fd.has_value());
  port = local_address(fd->get()).port();
  return std::move(*fd);
}

bool wait_for(int fd, short events) {
  pollfd p{fd, events, 0};
  return ::poll(&p, 1, -1) == 1;
}

// Sockets are non-blocking (accept4 without the flag gives blocking ones, which is what we use).
bool send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

void set_cork(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_CORK, &on, sizeof on);
}

// Reads until `buffer` starts with a whole request and gives its length; 0 at the end of input.
std::size_t read_request(int fd, std::string& buffer) {
  for (;;) {
    const std::size_t end = buffer.find("\r\n\r\n");
    if (end != std::string::npos) {
      const std::string length = Received{buffer.substr(0, end + 2)}.header("Content-Length");
      std::size_t body = 0;
      std::from_chars(length.data(), length.data() + length.size(), body);
      if (buffer.size() >= end + 4 + body) return end + 4 + body;
    }
    char bytes[16384];
    const ssize_t got = ::recv(fd, bytes, sizeof bytes, 0);
    if (got <= 0) return 0;
    buffer.append(bytes, static_cast<std::size_t>(got));
  }
}

}  // namespace

std::string Received::header(std::string_view name) const {
  const std::string key = "\r\n" + std::string(name) + ": ";
  const std::size_t at = text.find(key);
  if (at == std::string::npos) return {};
  const std::size_t from = at + key.size();
  return text.substr(from, text.find("\r\n", from) - from);
}

ScriptedServer::ScriptedServer(std::function<Reply(const Received&)> script)
    : script_(std::move(script)), listener_(listen_somewhere(port_)), acceptor_([this] { accept_all(); }) {}

ScriptedServer::~ScriptedServer() {
  stopping_ = true;
  ::shutdown(listener_.get(), SHUT_RDWR);
  acceptor_.join();
  {
    const std::lock_guard lock(mutex_);
    for (const Fd& fd : fds_) ::shutdown(fd.get(), SHUT_RDWR);
  }
  for (std::thread& thread : threads_) thread.join();
}

void ScriptedServer::accept_all() {
  while (!stopping_) {
    if (!wait_for(listener_.get(), POLLIN) || stopping_) return;
    const int fd = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) continue;
    ++connections_;
    set_no_delay(fd);
    const std::lock_guard lock(mutex_);
    fds_.emplace_back(fd);
    threads_.emplace_back([this, fd] { serve(fd); });
  }
}

void ScriptedServer::serve(int fd) {
  std::string buffer;
  for (std::uint64_t n = 0;; ++n) {
    const std::size_t length = read_request(fd, buffer);
    if (length == 0) break;
    Reply reply;
    {
      const std::lock_guard lock(mutex_);
      Received received{buffer.substr(0, length), requests_.size(), n};
      requests_.push_back(received.text);
      reply = script_(received);
    }
    buffer.erase(0, length);
    if (reply.after > Duration::zero()) {
      ::poll(nullptr, 0, static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(reply.after).count()));
    }
    bool sent = true;
    for (const std::string& piece : reply.pieces) {
      // What is corked leaves with the FIN in one segment: who reads the last piece has the end as well.
      if (reply.then == Reply::Then::Close && &piece == &reply.pieces.back()) set_cork(fd);
      sent = sent && send_all(fd, piece);
    }
    if (!sent) break;
    if (reply.then == Reply::Then::Close) {
      ::shutdown(fd, SHUT_WR);
      break;
    }
    if (reply.then == Reply::Then::Reset) {
      set_reset_on_close(fd);
      break;
    }
    if (reply.then == Reply::Then::Hang) {
      char byte = 0;
      while (::recv(fd, &byte, 1, 0) > 0) {
      }
      break;
    }
  }
  const std::lock_guard lock(mutex_);
  fds_.remove_if([fd](const Fd& known) { return known.get() == fd; });
}

std::vector<std::string> ScriptedServer::requests() {
  const std::lock_guard lock(mutex_);
  return requests_;
}

std::string response(int status, std::string_view body, std::string_view more_headers,
                     std::string_view backend) {
  std::string text = "HTTP/1.1 " + std::to_string(status) + " Reason\r\nX-Backend: ";
  text += backend;
  text += "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n";
  text += more_headers;
  text += "\r\n";
  text += body;
  return text;
}

std::uint16_t closed_port() {
  std::uint16_t port = 0;
  listen_somewhere(port);
  return port;
}

}  // namespace dlb::loadgen::test
