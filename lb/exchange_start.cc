// How an exchange starts: checks, the forwarded head, the body bytes that are here already; or one of our own
// pages.
#include <array>
#include <string>

#include "lb/downstream.h"
#include "lb/exchange.h"
#include "lb/head_writer.h"
#include "lb/path_rules.h"
#include "lb/upgrade_rules.h"
#include "lb/worker.h"

namespace dlb::lb {
namespace {

constexpr std::string_view kRetryAfter = "Retry-After: 1\r\n";

bool idempotent(HttpMethod method) {
  switch (method) {
    case HttpMethod::Get:
    case HttpMethod::Head:
    case HttpMethod::Options:
    case HttpMethod::Put:
    case HttpMethod::Delete:
      return true;
    default:
      return false;
  }
}

std::string_view write_request_id(Rng& rng, std::array<char, 32>& out) {
  static constexpr char kHex[] = "0123456789abcdef";
  for (std::size_t half = 0; half < 2; ++half) {
    std::uint64_t bits = rng.next();
    for (std::size_t i = 0; i < 16; ++i, bits >>= 4) out[half * 16 + i] = kHex[bits & 15];
  }
  return {out.data(), out.size()};
}

}  // namespace

void Exchange::start(const RequestHead& head, std::size_t head_bytes, Buffer& in) {
  method_ = head.method;
  request_head_bytes_ = static_cast<std::uint32_t>(head_bytes);
  if (worker_.shared().access_log != nullptr) {
    access_.begin(worker_.acquire_access_block());
    access_.take(head, worker_.options().access_log_private_paths);
  }
  http10_client_ = head.minor_version == 0;
  client_keep_alive_ = head.keep_alive;
  client_ends_ = !head.keep_alive;
  if (head.path.starts_with("/lb/")) return serve_own_page(head, head_bytes, in);

  forwarded_ = true;
  worker_.metrics().requests_total.add();
  worker_.metrics().requests_in_progress.add();
  if (const auto refusal = check_request(head)) {
    if (take_body(head, head_bytes, in, {}) == MessageRelay::Intake::Bad) client_keep_alive_ = false;
    return answer(refusal->status, refusal->code, refusal->detail, refusal->extra);
  }

  const Options& options = worker_.options();
  if (path_matches(head.path, options.feed_paths)) {
    transport_class_ = TransportClass::Feed;
    worker_.metrics().feed_requests.add();
  }
  const bool keyed = head.fields.find(HeaderId::IdempotencyKey) != nullptr;
  replay_path_ = (idempotent(method_) && !path_matches(head.path, options.no_replay_paths)) ||
                 (keyed && path_matches(head.path, options.retry_keyed_paths));
  if (head.upgrade) upgrade_offer_ = offered_protocols(head);
  Buffer request_head = forwarded_head(head, in.size() > head_bytes);
  const bool head_fits = request_head.valid();
  const bool body_good =
      take_body(head, head_bytes, in, std::move(request_head)) != MessageRelay::Intake::Bad;
  client_keep_alive_ = client_keep_alive_ && body_good;
  if (!head_fits) return answer(431, "headers_too_large", "the head is too large to be forwarded");
  if (!body_good) return answer(400, "bad_request", request_.reason());
  if (request_.payload_bytes() > options.max_body_bytes.bytes) {  // in chunks, and here already
    client_keep_alive_ = false;
    return answer(413, "too_large", "the body is larger than max-body-bytes");
  }
  request_.hold();
  route();
}

// What keeps a request from being forwarded, as our answer. Takes its place under admission-limit when
// nothing does.
std::optional<Exchange::Refusal> Exchange::check_request(const RequestHead& head) {
  const Options& options = worker_.options();
  if (worker_.shedding()) {
    worker_.metrics().shed.add();
    return Refusal{503, "overloaded", "the balancer is short of memory", kRetryAfter};
  }
  if (head.method == HttpMethod::Connect)
    return Refusal{501, "not_implemented", "CONNECT is not served here"};
  if (path_reaches(head.path, options.deny_paths))
    return Refusal{404, "not_found", "there is nothing at this path"};
  if (head.expect_unknown)
    return Refusal{417, "expectation_failed", "only Expect: 100-continue is understood"};
  if (head.framing == BodyFraming::Length && head.content_length > options.max_body_bytes.bytes) {
    return Refusal{413, "too_large", "the body is larger than max-body-bytes"};
  }
  if (options.admission_limit == 0 || head.method != HttpMethod::Post || head.path != "/message") return {};
  if (!worker_.shared().admissions.try_reserve(static_cast<std::uint32_t>(options.admission_limit))) {
    worker_.metrics().admission_rejected.add();
    return Refusal{503, "overloaded", "too many messages are being posted at once", kRetryAfter};
  }
  admitted_ = true;
  worker_.metrics().admission_in_flight.add();
  return {};
}

// The head for the backend; !valid() when it is too large for any block.
Buffer Exchange::forwarded_head(const RequestHead& head, bool body_is_here) {
  std::array<char, PeerAddress::kTextBytes> host;
  std::array<char, 32> request_id;
  ForwardContext context;
  context.client_host = downstream_.peer().write_host(host);
  context.proto = downstream_.secure() ? "https" : "http";
  context.request_id = write_request_id(worker_.rng(), request_id);
  if (access_.wanted()) {
    const std::string_view given = head.fields.value(HeaderId::XRequestId);
    access_.take_request_id(sane_request_id(given) ? given : context.request_id);
  }
  context.trusted_peer = downstream_.trusted();
  // A body that is here already needs no permission; an HTTP/1.0 client would not understand it.
  context.forward_expect = head.expect_continue && !http10_client_ && !body_is_here;
  context.upgrade = upgrade_offer_;
  backend_owes_continue_ = context.forward_expect;
  Buffer block = worker_.acquire_block(request_head_bound(head));
  if (block.valid() && !write_request_head(head, context, block)) block.reset();
  return block;
}

// What is behind the head in `in` is this request's body or the next request. A body that isn't all here
// takes the whole block. Views into the head are gone after this.
MessageRelay::Intake Exchange::take_body(const RequestHead& head, std::size_t head_bytes, Buffer& in,
                                         Buffer request_head) {
  const std::size_t behind = in.size() - head_bytes;
  request_.start(std::move(request_head), head.framing, head.content_length, head.framing);
  in.consume(head_bytes);
  if (request_.source_ended() || behind == 0) return MessageRelay::Intake::More;
  if (head.framing == BodyFraming::Length && behind > head.content_length) {
    Buffer body = worker_.acquire_block(head.content_length);
    if (!body.valid()) return MessageRelay::Intake::Bad;
    body.append(in.data().substr(0, head.content_length));
    in.consume(head.content_length);
    return request_.give_block(std::move(body));
  }
  return request_.give_block(std::move(in));
}

void Exchange::serve_own_page(const RequestHead& head, std::size_t head_bytes, Buffer& in) {
  const std::string path(head.path);
  const std::string query(head.query);
  const std::string accept(head.fields.value(HeaderId::Accept));
  const bool reads = head.method == HttpMethod::Get || head.method == HttpMethod::Head;
  const bool has_body = head.framing == BodyFraming::Chunked || head.content_length > 0;
  if (take_body(head, head_bytes, in, {}) == MessageRelay::Intake::Bad) client_keep_alive_ = false;
  if (!worker_.options().public_status) return answer(404, "not_found", "there is nothing at this path");
  worker_.metrics().requests_local.add();
  if (!reads) {
    return answer(405, "method_not_allowed", "the balancer's own pages are read-only here",
                  "Allow: GET, HEAD\r\n");
  }
  if (path == "/lb/events") return serve_events(has_body);
  OwnPages::Page page = worker_.shared().pages.render(path, query, accept);
  answer_page(page.status, page.content_type, std::move(page.body), page.extra);
}

// Hands the connection to the readers of /lb/events: no request is in progress on it any more.
void Exchange::serve_events(bool has_body) {
  if (has_body) {
    client_keep_alive_ = client_keep_alive_ && request_.source_ended();
    return answer(400, "bad_request", "a reader of events sends no body");
  }
  if (!worker_.event_stream().reserve())
    return answer(503, "too_many_readers", "as many read events as may", "Retry-After: 5\r\n");
  status_ = 200;
  enter(State::Answering);
  note_end('-', '-');
  Buffer unread;
  Transport transport = downstream_.hand_over(unread);
  worker_.metrics().client_active.add();
  abandon();
  worker_.event_stream().begin(std::move(transport), method_ == HttpMethod::Head);
}

void Exchange::answer_bad_head(int status, std::string_view reason, std::string_view bytes) {
  client_keep_alive_ = false;
  request_head_bytes_ = static_cast<std::uint32_t>(bytes.size());
  if (worker_.shared().access_log != nullptr) {
    access_.begin(worker_.acquire_access_block());
    access_.take_bad(bytes);
  }
  if (status == 408) note_end('c', 'R');
  std::string_view code = "bad_request";
  if (status == 408) code = "timeout";
  if (status == 414) code = "uri_too_long";
  if (status == 431) code = "headers_too_large";
  if (status == 501) code = "not_implemented";
  if (status == 505) code = "version_not_supported";
  answer(status, code, reason);
}

}  // namespace dlb::lb
