// The checks by HTTP: is it there, and does it take, keep and show a message as it must?
#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>

#include "common/json_writer.h"
#include "loadgen/feed_checker.h"
#include "loadgen/gunzip.h"
#include "loadgen/ledger.h"
#include "loadgen/payload.h"
#include "loadgen/verify_checks.h"

namespace dlb::loadgen {
namespace {

using simdjson::dom::element;

constexpr std::string_view kName = "verify";
constexpr std::string_view kText = "Sent by loadgen verify: \"quotes\", \\, ünïcode, 日本語, 🙂";
constexpr std::string_view kOtherText = "another text under the same id";

std::string message_body(std::string_view id, std::string_view text) {
  std::string body;
  JsonWriter(body)
      .begin_object()
      .field("client-name", kName)
      .field("message-id", id)
      .field("msg", text)
      .end_object();
  return body;
}

// What an answer to a post says.
struct PostAnswer {
  bool duplicate = false;
  std::string id;
  std::string text;
  std::string timestamp;
  std::int64_t sequence = 0;
};

Result<PostAnswer> read_post(const HttpAnswer& answer) {
  simdjson::dom::parser parser;
  element root;
  PostAnswer out;
  std::string_view id;
  std::string_view text;
  std::string_view timestamp;
  const bool good = parser.parse(answer.body).get(root) == simdjson::SUCCESS &&
                    root["duplicate"].get(out.duplicate) == simdjson::SUCCESS &&
                    root["message"]["message-id"].get(id) == simdjson::SUCCESS &&
                    root["message"]["msg"].get(text) == simdjson::SUCCESS &&
                    root["message"]["timestamp"].get(timestamp) == simdjson::SUCCESS &&
                    root["message"]["sequence"].get(out.sequence) == simdjson::SUCCESS;
  if (!good) return Error{"the answer to a post is not of the API's shape"};
  out.id = id;
  out.text = text;
  out.timestamp = timestamp;
  return out;
}

Error wrong_status(std::string_view what, const HttpAnswer& answer, int expected) {
  return Error{fmt::format("{} was answered {} instead of {}{}{}", what, answer.status, expected,
                           answer.backend.empty() ? "" : " by ", answer.backend)};
}

std::string by(const HttpAnswer& answer) { return answer.backend.empty() ? "" : ", by " + answer.backend; }

}  // namespace

void VerifyChecks::http_rows() {
  using V = VerifyChecks;
  row("health", "the process and its log; a balancer is unhealthy when no backend is", &V::health);
  const bool there = report_.rows.back().outcome != CheckOutcome::Unreachable;
  row("status", "lb ctl status, and the log of each backend that is not healthy", &V::status,
      there && balancer_);
  if (report_.rows.back().outcome == CheckOutcome::Skip && there && !stop_) {
    report_.rows.back().found = "no balancer's /lb/status here";
  }
  if (!targets_.backends.empty()) {
    row("backends", "the log of the backend; can it reach its database?", &V::backend_health, there);
  }
  row("message", "the backend's log: its database, its encryption key", &V::post, there);
  const bool taken = sequence_ > 0;
  row("duplicate", "do all backends use one database?", &V::repeat, taken);
  row("conflict", "do all backends use one database?", &V::conflict, taken);
  row("bad message", "is something else listening here?", &V::bad_message, there);
  row("feed has it once", "do all backends use one database and one encryption key?", &V::feed, taken);
  row("etag", "does something between change or drop ETag and If-None-Match?", &V::etag, taken);
  row("gzip", "does something between compress or unpack bodies?", &V::gzip, taken);
}

Result<HttpAnswer> VerifyChecks::call(const Target& target, const HttpCall& call) {
  const Duration left = std::max<Duration>(deadline_ - monotonic_now(), std::chrono::milliseconds(1));
  auto answer = http_call(loop_, target, call, left, stop_, targets_.tls);
  if (!answer) unreachable_ = answer.error().code != 0;
  if (!answer) return Error{target.url + ": " + answer.error().text};
  return answer;
}

Result<HttpAnswer> VerifyChecks::post_message(std::string_view id, std::string_view text) {
  HttpCall post{HttpMethod::Post, "/message", fmt::format("Idempotency-Key: {}\r\n", id),
                message_body(id, text)};
  return call(targets_.target, post);
}

VerifyChecks::Finding VerifyChecks::health() {
  auto answer = call(targets_.target, {HttpMethod::Get, "/lb/health", {}, {}});
  if (!answer) return answer.error();
  if (answer->status == 200) {
    balancer_ = true;
    return std::string("a balancer with a healthy backend");
  }
  if (answer->status == 503) return Error{"a balancer without a healthy backend, or one that is leaving"};
  answer = call(targets_.target, {HttpMethod::Get, "/health", {}, {}});
  if (!answer) return answer.error();
  if (answer->status != 200) return wrong_status("GET /health", *answer, 200);
  return "healthy" + by(*answer);
}

VerifyChecks::Finding VerifyChecks::status() {
  const auto answer = call(targets_.target, {HttpMethod::Get, "/lb/status", {}, {}});
  if (!answer) return answer.error();
  if (answer->status == 404)
    return std::string("- the balancer shows no status here (public-status = false)");
  if (answer->status != 200) return wrong_status("GET /lb/status", *answer, 200);
  simdjson::dom::parser parser;
  element root;
  simdjson::dom::array backends;
  if (parser.parse(answer->body).get(root) != simdjson::SUCCESS ||
      root["backends"].get(backends) != simdjson::SUCCESS) {
    return Error{"/lb/status is not JSON with a list of backends"};
  }
  std::string down;
  std::size_t count = 0;
  for (const element backend : backends) {
    std::string_view id;
    bool healthy = false;
    if (backend["id"].get(id) != simdjson::SUCCESS || backend["healthy"].get(healthy) != simdjson::SUCCESS) {
      return Error{"a backend in /lb/status has no id or health"};
    }
    ++count;
    if (!healthy) down += (down.empty() ? "" : ", ") + std::string(id);
  }
  if (count == 0) return Error{"the balancer has no backends"};
  if (!down.empty()) return Error{fmt::format("not healthy: {} (of {})", down, count)};
  return fmt::format("{} backends, all healthy", count);
}

VerifyChecks::Finding VerifyChecks::backend_health() {
  for (const Target& backend : targets_.backends) {
    const auto answer = call(backend, {HttpMethod::Get, "/health", {}, {}});
    if (!answer) return answer.error();
    if (answer->status != 200) return wrong_status(backend.url + "/health", *answer, 200);
  }
  return fmt::format("{} healthy", targets_.backends.size());
}

VerifyChecks::Finding VerifyChecks::post() {
  const auto answer = post_message(id_text(1), kText);
  if (!answer) return answer.error();
  if (answer->status != 201) return wrong_status("a new message", *answer, 201);
  const auto said = read_post(*answer);
  if (!said) return said.error();
  if (said->id != id_text(1) || said->text != kText || said->duplicate || said->sequence <= 0) {
    return Error{"the answer names another message than the one that was sent"};
  }
  sequence_ = said->sequence;
  timestamp_ = said->timestamp;
  return fmt::format("201, sequence {}{}", sequence_, by(*answer));
}

VerifyChecks::Finding VerifyChecks::repeat() {
  // More often than there are backends, so that another one than the first answers too.
  const int times = 2 * static_cast<int>(std::clamp<std::size_t>(targets_.backends.size(), 2, 8));
  std::string last;
  for (int i = 0; i < times; ++i) {
    const auto answer = post_message(id_text(1), kText);
    if (!answer) return answer.error();
    if (answer->status != 200) return wrong_status("the same message again", *answer, 200);
    const auto said = read_post(*answer);
    if (!said) return said.error();
    if (!said->duplicate) return Error{"the same message again is not called a duplicate" + by(*answer)};
    if (said->sequence != sequence_ || said->timestamp != timestamp_ || said->text != kText) {
      return Error{fmt::format("sequence {} at {}, and when it was taken {} at {}{}", said->sequence,
                               said->timestamp, sequence_, timestamp_, by(*answer))};
    }
  }
  return fmt::format("{} times 200 with the same sequence and timestamp", times);
}

VerifyChecks::Finding VerifyChecks::conflict() {
  const auto answer = post_message(id_text(1), kOtherText);
  if (!answer) return answer.error();
  if (answer->status != 409) return wrong_status("another text under the same id", *answer, 409);
  return "409" + by(*answer);
}

VerifyChecks::Finding VerifyChecks::bad_message() {
  const auto answer =
      call(targets_.target, {HttpMethod::Post, "/message", {}, R"({"client-name":"verify"})"});
  if (!answer) return answer.error();
  if (answer->status != 400) return wrong_status("a message without text", *answer, 400);
  return "400" + by(*answer);
}

Result<std::string> VerifyChecks::check_feed(const Target& target) {
  Ledger ledger;
  ledger.add(id(1), content_hash(kName, kText), Promise::Accepted);
  FeedChecker checker(ledger);
  int status = 0;
  HttpCall get{HttpMethod::Get, "/feed", {}, {}};
  get.on_body = [&](std::string_view bytes) { checker.feed(bytes); };
  const auto answer = call(target, get);
  if (!answer) return answer.error();
  status = answer->status;
  if (status != 200) return wrong_status("GET /feed", *answer, 200);
  const FeedSummary summary = checker.finish();
  if (summary.faults.any()) {
    std::string wrong = summary.faults.malformed;
    for (const std::string& example : summary.faults.examples) wrong += (wrong.empty() ? "" : "; ") + example;
    return Error{target.url + ": " + wrong};
  }
  return fmt::format("{} rows", summary.rows);
}

VerifyChecks::Finding VerifyChecks::feed() {
  auto found = check_feed(targets_.target);
  for (const Target& backend : targets_.backends) {
    if (!found) return found;
    found = check_feed(backend);
  }
  if (!found) return found;
  return "once, unaltered, in " + *found +
         (targets_.backends.empty() ? "" : fmt::format(", at {} backends too", targets_.backends.size()));
}

std::string VerifyChecks::page_path() const { return fmt::format("/feed?after={}&limit=1", sequence_ - 1); }

VerifyChecks::Finding VerifyChecks::etag() {
  // A tag changes with every message of anybody, so this may need a quiet moment.
  for (int i = 0; i < kTries; ++i) {
    const auto whole = call(targets_.target, {HttpMethod::Get, page_path(), {}, {}});
    if (!whole) return whole.error();
    if (whole->status != 200) return wrong_status("a page of the feed", *whole, 200);
    if (whole->etag.empty()) return Error{"a page of the feed has no ETag" + by(*whole)};
    const auto again =
        call(targets_.target,
             {HttpMethod::Get, page_path(), fmt::format("If-None-Match: {}\r\n", whole->etag), {}});
    if (!again) return again.error();
    if (again->status == 304)
      return again->body.empty() ? Finding("304" + by(*again)) : Error{"304 with a body"};
    if (again->status != 200 || again->etag == whole->etag) {
      return wrong_status("If-None-Match with its ETag", *again, 304);
    }
  }
  return std::string("- the history changed each time between two requests");
}

VerifyChecks::Finding VerifyChecks::gzip() {
  for (int i = 0; i < kTries; ++i) {
    const auto plain = call(targets_.target, {HttpMethod::Get, page_path(), {}, {}});
    if (!plain) return plain.error();
    const auto packed =
        call(targets_.target, {HttpMethod::Get, page_path(), "Accept-Encoding: gzip\r\n", {}});
    if (!packed) return packed.error();
    if (packed->status != 200) return wrong_status("a page of the feed", *packed, 200);
    if (packed->encoding != "gzip")
      return Error{"the feed is not compressed for who accepts gzip" + by(*packed)};
    const auto unpacked = gunzip(packed->body, kMaxHttpAnswerBytes);
    if (!unpacked) return Error{"the compressed feed is not valid gzip" + by(*packed)};
    if (*unpacked == plain->body) {
      return fmt::format("the same {} bytes, compressed {}", plain->body.size(), packed->body.size());
    }
    if (unpacked->find(id_text(1)) == std::string::npos) {
      return Error{"the compressed feed shows another page" + by(*packed)};
    }
  }
  return std::string("- the history changed each time between two requests");
}

}  // namespace dlb::loadgen
