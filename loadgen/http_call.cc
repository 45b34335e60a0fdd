#include "loadgen/http_call.h"

#include <cerrno>

#include "loadgen/connection.h"

namespace dlb::loadgen {
namespace {

constexpr Duration kTurn = std::chrono::milliseconds(100);

std::string why_ended(ExchangeEnd end) {
  switch (end) {
    case ExchangeEnd::Complete:
      return {};
    case ExchangeEnd::ConnectFailed:
      return "no connection";
    case ExchangeEnd::TimedOut:
      return "no whole answer in time";
    case ExchangeEnd::Malformed:
      return "the answer is not valid HTTP";
    case ExchangeEnd::Reset:
    case ExchangeEnd::ShortBody:
      break;
  }
  return "the connection was closed before the answer's end";
}

class Exchange final : public ConnectionUser {
 public:
  Exchange(ConnectionContext& context, const Target& target, const HttpCall& call)
      : call_(call), connection_(context, *this, {}) {
    const bool post = call.method == HttpMethod::Post;
    request_ = (post                              ? "POST "
                : call.method == HttpMethod::Head ? "HEAD "
                                                  : "GET ") +
               target.base_path + call.path + " HTTP/1.1\r\nHost: " + target.host +
               "\r\nUser-Agent: dlb-loadgen\r\nConnection: close\r\n" + call.headers;
    if (post) {
      request_ +=
          "Content-Type: application/json\r\nContent-Length: " + std::to_string(call.body.size()) + "\r\n";
    }
    request_ += "\r\n" + call.body;
    const int err = connection_.connect(target);
    if (err != 0) on_end(connection_, ExchangeEnd::ConnectFailed, err);
  }

  bool done() const { return done_; }
  const Error& error() const { return error_; }
  HttpAnswer& answer() { return answer_; }

  void on_connected(Connection& connection) override { connection.send(request_, call_.method); }
  void on_head(Connection&, const ResponseHead& head) override {
    answer_.status = head.status;
    const auto field = [&](std::string_view name) {
      const HeaderField* const found = head.fields.find(name);
      return found == nullptr ? std::string() : std::string(found->value);
    };
    answer_.etag = field("ETag");
    answer_.encoding = field("Content-Encoding");
    answer_.backend = field("X-Load-Balancer-Backend");
    if (answer_.backend.empty()) answer_.backend = field("X-Backend");
  }
  void on_body(Connection&, std::string_view bytes) override {
    if (call_.on_body) return call_.on_body(bytes);
    too_long_ = too_long_ || answer_.body.size() + bytes.size() > kMaxHttpAnswerBytes;
    if (!too_long_) answer_.body += bytes;
  }
  void on_end(Connection&, ExchangeEnd end, int err) override {
    done_ = true;
    if (too_long_) error_.text = "the answer is over 4 MiB";
    if (end == ExchangeEnd::Complete) return;
    error_ = err == 0 ? Error{why_ended(end)} : errno_error(why_ended(end), err);
    error_.code = end != ExchangeEnd::ConnectFailed ? 0 : err != 0 ? err : ETIMEDOUT;
  }
  void on_idle_close(Connection&) override {}

 private:
  const HttpCall& call_;
  std::string request_;
  HttpAnswer answer_;
  Error error_;
  bool too_long_ = false;
  bool done_ = false;
  Connection connection_;
};

}  // namespace

Result<HttpAnswer> http_call(EventLoop& loop, const Target& target, const HttpCall& call, Duration timeout,
                             const bool& stop, const TlsContext* tls) {
  ConnectionContext context(loop, timeout, Duration::zero());
  context.tls = tls;
  context.deadline_is_idle_time = static_cast<bool>(call.on_body);
  Exchange exchange(context, target, call);
  while (!exchange.done() && !stop) loop.run_once(kTurn);
  if (!exchange.done()) return Error{"interrupted"};
  if (!context.tls_failures.empty()) return Error{"no TLS, " + context.tls_failures.front().text};
  if (!exchange.error().text.empty()) return exchange.error();
  return std::move(exchange.answer());
}

}  // namespace dlb::loadgen
