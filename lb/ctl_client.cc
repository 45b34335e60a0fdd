#include "lb/ctl_client.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <optional>
#include <utility>

#include "common/fd.h"
#include "common/http_parser.h"
#include "common/socket.h"

namespace dlb::lb {
namespace {

// False: the deadline has come first.
bool wait_for(int fd, short events, TimePoint deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - monotonic_now()).count();
    if (left <= 0) return false;
    pollfd entry{.fd = fd, .events = events, .revents = 0};
    if (::poll(&entry, 1, static_cast<int>(std::min<decltype(left)>(left, 60'000))) > 0) return true;
  }
}

Error broken(const Address& address, std::string_view how) {
  return Error{fmt::format("{}: {}", address.to_string(), how)};
}

Result<Fd> connect_to(const Address& address, TimePoint deadline) {
  bool in_progress = false;
  auto socket = connect_start(address, &in_progress);
  if (!socket) return socket;
  if (!in_progress) return socket;
  if (!wait_for(socket->get(), POLLOUT, deadline)) return broken(address, "no connection in time");
  if (const int err = take_socket_error(socket->get()); err != 0)
    return errno_error("connect " + address.to_string(), err);
  return socket;
}

Result<void> send_all(int fd, std::string_view text, const Address& address, TimePoint deadline) {
  while (!text.empty()) {
    const ssize_t sent = ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      text.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      if (!wait_for(fd, POLLOUT, deadline)) return broken(address, "it does not read");
    } else if (errno != EINTR) {
      return errno_error("send to " + address.to_string(), errno);
    }
  }
  return {};
}

// The answer in `bytes`; nothing while they lack its end. `closed`: no more will come.
Result<std::optional<AdminAnswer>> answer_in(const Address& address, std::string_view bytes, bool closed) {
  HeadParser parser;
  const auto head = std::make_unique<ResponseHead>();
  std::size_t scanned = 0;
  const ParseResult parsed = parser.parse_response(bytes, scanned, HeadLimits{}, HttpMethod::Get, *head);
  if (parsed.status == ParseStatus::Bad || head->framing == BodyFraming::Chunked)
    return broken(address, "what answers is no balancer");
  const bool counted = head->framing == BodyFraming::Length;
  if (counted && head->content_length > AdminClient::kMaxAnswerBytes)
    return broken(address, "the answer is too long to be a balancer's");
  const std::string_view body = bytes.substr(std::min(bytes.size(), parsed.head_bytes));
  const bool whole =
      parsed.status == ParseStatus::Complete &&
      (counted ? body.size() >= head->content_length : closed || head->framing == BodyFraming::None);
  if (!whole && closed) return broken(address, "the answer broke off");
  if (!whole) return std::optional<AdminAnswer>();
  return std::optional(
      AdminAnswer{head->status, std::string(counted ? body.substr(0, head->content_length) : body)});
}

}  // namespace

Result<AdminAnswer> AdminClient::ask(std::string_view method, std::string_view target,
                                     Duration timeout) const {
  const TimePoint deadline = monotonic_now() + timeout;
  const auto socket = connect_to(address_, deadline);
  if (!socket) return socket.error();
  std::string request = fmt::format(
      "{} {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nUser-Agent: lb-ctl\r\n", method, target, host_);
  if (!token_.empty()) request += "Authorization: Bearer " + token_ + "\r\n";
  if (method == "POST") request += "Content-Length: 0\r\n";
  request += "\r\n";
  if (auto sent = send_all(socket->get(), request, address_, deadline); !sent) return sent.error();

  std::string bytes;
  std::array<char, 65536> block;
  for (;;) {
    const ssize_t got = ::recv(socket->get(), block.data(), block.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) {
      if (!wait_for(socket->get(), POLLIN, deadline)) return broken(address_, "no answer in time");
      continue;
    }
    if (got < 0) return errno_error("read from " + address_.to_string(), errno);
    bytes.append(block.data(), static_cast<std::size_t>(got));
    if (bytes.size() > kMaxAnswerBytes) return broken(address_, "the answer has no end");
    auto answer = answer_in(address_, bytes, got == 0);
    if (!answer) return answer.error();
    if (*answer) return std::move(**answer);
  }
}

}  // namespace dlb::lb
