// HttpSession's part from an answer to its last byte and the end of the connection: the service's answers,
// the server's own refusals, the 100, and the lingering close.
#include <utility>

#include "common/http_session.h"

namespace dlb {
namespace {

constexpr std::size_t kWriteBytesPerTurn = 512 * 1024;

// The `error` of the server's own answers.
std::string_view error_code(int status) {
  switch (status) {
    case 408:
      return "timeout";
    case 413:
      return "too_large";
    case 414:
      return "uri_too_long";
    case 417:
      return "expectation_failed";
    case 431:
      return "headers_too_large";
    case 501:
      return "not_implemented";
    case 503:
      return "unavailable";
    case 505:
      return "version_not_supported";
    default:
      return "bad_request";
  }
}

}  // namespace

void HttpSession::respond(HttpExchange& x, int status, std::string_view content_type,
                          std::span<const HeaderLine> headers, HttpBody body, bool close_after) {
  x.answered = true;
  x.closing = close_after || !x.keep_alive || server_.draining_;
  ResponseText text;
  text.status = status;
  text.fixed_lines = server_.options_.fixed_header_lines;
  text.date_line = parts_.date.at(server_.loop_.now());
  text.content_type = content_type;
  text.content_length = body.size;
  if (x.closing) {
    text.connection = ConnectionLine::Close;
  } else if (x.http10) {
    text.connection = ConnectionLine::KeepAlive;
  }
  text.headers = headers;
  std::string& out = parts_.response_head;
  out.clear();
  if (interim_left_ == kContinue.size()) interim_left_ = 0;
  out.append(kContinue.substr(kContinue.size() - interim_left_));  // a 100 that was cut must end first
  interim_left_ = 0;
  append_response_head(out, text);
  const bool with_body = !x.head_only && status_has_body(status);
  x.cursor.start(out, with_body ? std::move(body) : HttpBody{});
  enter(State::Writing, &parts_.write);
  watch_rate();
  write_answer();
  if (state_ == State::Writing) {
    x.cursor.keep_head();
  } else if (!driving_ && state_ == State::Idle && (!buffer_.empty() || transport_.read_ready())) {
    server_.loop_.make_runnable(transport_.source());
  } else if (!driving_ && state_ == State::Lingering) {
    drive();
  }
}

HttpSession::Step HttpSession::write_answer() {
  HttpExchange& x = *exchange();
  std::size_t budget = kWriteBytesPerTurn;
  while (!x.cursor.done()) {
    const IoResult sent = x.cursor.write(transport_);
    if (sent.status == IoStatus::WouldBlock) return Step::Wait;
    if (!sent.ok()) {
      close();
      return Step::Wait;
    }
    server_.counters_.bytes_written += sent.bytes;
    progress_ += sent.bytes;
    if (x.cursor.done()) break;
    parts_.write.arm(timer_);
    if (sent.bytes >= budget) {
      server_.loop_.make_runnable(transport_.source());
      return Step::Wait;
    }
    budget -= sent.bytes;
  }
  answer_written(x);
  return Step::Again;
}

void HttpSession::answer_written(HttpExchange& x) {
  ++server_.counters_.responses;
  const bool closing = x.closing;
  retire_exchange();
  rate_timer_.cancel();
  if (closing) {
    start_lingering();
  } else {
    enter(State::Idle, &parts_.idle);
    if (!in_service_ && buffer_.empty()) buffer_.reset();
  }
}

// Closing at once could send a RST for input that was not read, and the RST could overtake the answer at the
// client.
void HttpSession::start_lingering() {
  transport_.shutdown_write();
  if (!in_service_) {
    buffer_.reset();
    head_block_.reset();
  }
  enter(State::Lingering, &parts_.linger);
}

HttpSession::Step HttpSession::drop_input() {
  if (!in_service_) {
    buffer_.reset();
    head_block_.reset();
  }
  const IoResult got = read_into({parts_.drop.get(), HttpServer::Parts::kDropBytes});
  if (got.ok()) return Step::Again;
  if (got.status != IoStatus::WouldBlock) close();
  return Step::Wait;
}

HttpSession::Step HttpSession::refuse(int status, std::string_view detail) {
  ++server_.counters_.refusals;
  HttpExchange* x = exchange();
  respond(x == nullptr ? new_exchange() : *x, status, HttpServer::kJson, {},
          error_body(error_code(status), detail), true);
  return Step::Again;
}

bool HttpSession::write_interim() {
  const std::string_view left = kContinue.substr(kContinue.size() - interim_left_);
  const IoResult sent = transport_.write(left);
  if (sent.status == IoStatus::Error) {
    close();
    return false;
  }
  interim_left_ = static_cast<std::uint8_t>(interim_left_ - sent.bytes);
  server_.counters_.bytes_written += sent.bytes;
  return true;
}

}  // namespace dlb
