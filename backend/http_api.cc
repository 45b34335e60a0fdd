#include "backend/http_api.h"

#include <array>
#include <cstddef>
#include <functional>
#include <utility>

#include "backend/chat_room.h"
#include "backend/etag.h"
#include "backend/form_input.h"
#include "backend/home_page.h"
#include "backend/internal_stats.h"
#include "backend/metrics.h"
#include "common/check.h"
#include "common/clock.h"
#include "common/json_writer.h"
#include "common/metric.h"
#include "common/process_stats.h"

namespace dlb::backend {
namespace {

constexpr std::string_view kReadOnly = "GET, HEAD, OPTIONS";
constexpr HeaderLine kRetryAfter{"Retry-After", "1"};
// A posted message, also by GET, must never be answered by a cache.
constexpr HeaderLine kNoStore{"Cache-Control", "no-store"};

std::string_view source_name(MessageSource source) { return source == MessageSource::Http ? "http" : "wss"; }

// `"message":{...` up to the text: what is known before the store has answered.
std::string message_json_head(const NewMessage& message) {
  std::string out;
  out.reserve(message.id.size() + message.client_name.size() + message.text.size() + 160);
  out += R"("message":{"message-id":)";
  append_json_string(out, message.id);
  out += R"(,"client-name":)";
  append_json_string(out, message.client_name);
  out += R"(,"msg":)";
  append_json_string(out, message.text);
  return out;
}

std::string message_json(const PutOutcome& outcome, std::string_view head) {
  std::string out;
  out.reserve(head.size() + 160);
  out += outcome.status == PutStatus::Created ? R"({"status":"created","duplicate":false,)"
                                              : R"({"status":"duplicate","duplicate":true,)";
  out += head;
  out += R"(,"timestamp":")";
  out += iso8601_utc(outcome.timestamp_us);
  out += R"(","sequence":)";
  append_json_integer(out, outcome.sequence);
  out += R"(,"source":")";
  out += source_name(outcome.source);
  out += "\"}}";
  return out;
}

// Fields that may stand once only. True with `value` (empty when absent) unless it is repeated.
bool single_field(const HeaderFields& fields, HeaderId id, std::optional<std::string_view>& value) {
  for (const HeaderField& field : fields.all()) {
    if (field.id != id) continue;
    if (value) return false;
    value = field.value;
  }
  return true;
}

std::string joined_field(const HeaderFields& fields, HeaderId id) {
  std::string out;
  for (const HeaderField& field : fields.all()) {
    if (field.id != id) continue;
    if (!out.empty()) out += ',';
    out += field.value;
  }
  return out;
}

std::uint64_t prober_of(const HttpRequest& request) {
  std::string who = request.peer.host();
  if (const HeaderField* agent = request.head.fields.find("User-Agent")) {
    who += '\n';
    who += agent->value;
  }
  return std::hash<std::string>{}(who);
}

std::uint64_t microseconds(Duration duration) {
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(duration).count();
  return us < 0 ? 0 : static_cast<std::uint64_t>(us);
}

// Kept by whoever likes, but asked about each time: that is what the ETag is for.
std::array<HeaderLine, 4> feed_headers(std::string_view etag) {
  return {{{"Cache-Control", "no-cache"},
           {"Vary", "Accept-Encoding"},
           {"ETag", etag},
           {"Content-Encoding", "gzip"}}};
}

}  // namespace

const HttpApi::Route HttpApi::kRoutes[] = {
    {"/message", "GET, POST, OPTIONS", true, &HttpApi::handle_message},
    {"/feed", kReadOnly, false, &HttpApi::handle_feed},
    {"/health", kReadOnly, false, &HttpApi::handle_health},
    {"/healthz", kReadOnly, false, &HttpApi::handle_healthz},
    {"/internal/stats", kReadOnly, false, &HttpApi::handle_internal_stats},
    {"/info", kReadOnly, false, &HttpApi::handle_info},
    {"/metrics", kReadOnly, false, &HttpApi::handle_metrics},
    {"/", kReadOnly, false, &HttpApi::handle_page},
};

HttpApi::HttpApi(EventLoop& loop, HttpApiConfig config)
    : loop_(loop),
      config_(std::move(config)),
      gzip_(loop, *this, config_.feed_gzip_bytes),
      started_(loop.now()) {}

void HttpApi::bind(HttpServer& server, MessageStore& store, ResourceSampler& resources,
                   ProbeObserver& probes) {
  server_ = &server;
  store_ = &store;
  resources_ = &resources;
  probes_ = &probes;
}

void HttpApi::serve_websockets(WsServer& sockets, HttpServer* tls_port) {
  sockets_ = &sockets;
  tls_port_ = tls_port;
}

SocketFigures HttpApi::socket_figures() const {
  SocketFigures out;
  if (sockets_ != nullptr) {
    const WsServerCounters& counters = sockets_->counters();
    out = {sockets_->open_sessions(), counters.opened, counters.ended_slow, counters.messages_read,
           counters.messages_sent};
  }
  if (chat_ != nullptr) {
    const ChatCounters& counters = chat_->counters();
    out.names_online = chat_->online();
    out.verifications = counters.verified;
    out.verify_seconds_sum = counters.verify_seconds_sum;
    out.broadcasts = counters.broadcasts;
  }
  return out;
}

HttpServer& HttpApi::server_of(HttpToken token) const {
  return HttpServer::tag_of(token) == 0 ? *server_ : *tls_port_;
}

std::string HttpApi::fixed_header_lines(std::string_view backend_id) {
  std::string lines = "X-Backend: ";
  lines += backend_id;
  lines +=
      "\r\nAccess-Control-Allow-Origin: *\r\n"
      "Access-Control-Expose-Headers: ETag, Retry-After, X-Backend, X-Request-Id\r\n";
  return lines;
}

void HttpApi::on_request(HttpToken token, const HttpRequest& request) {
  const Route* route = nullptr;
  for (const Route& candidate : kRoutes) {
    if (candidate.path == request.head.path) route = &candidate;
  }
  const HttpMethod method = request.head.method;
  if (method == HttpMethod::Options) return handle_options(token, route);
  if (sockets_ != nullptr && (request.tls || config_.ws_plain) &&
      sockets_->upgrade(server_of(token), token, request)) {
    ++counters_.other_requests;
    return;
  }
  if (route == nullptr) {
    ++counters_.other_requests;
    return respond_error(token, 404, "not_found", "There is nothing at this path.");
  }
  const bool allowed =
      method == HttpMethod::Get || method == (route->post ? HttpMethod::Post : HttpMethod::Head);
  if (!allowed) {
    ++counters_.other_requests;
    const HeaderLine allow{"Allow", route->allow};
    return respond_error(token, 405, "method_not_allowed", "This path does not take that method; see Allow.",
                         {&allow, 1});
  }
  (this->*route->handler)(token, request);
}

void HttpApi::handle_options(HttpToken token, const Route* route) {
  ++counters_.other_requests;
  const std::array<HeaderLine, 4> headers{{
      {"Allow", route == nullptr ? std::string_view("GET, HEAD, POST, OPTIONS") : route->allow},
      {"Access-Control-Allow-Methods", "GET, HEAD, POST, OPTIONS"},
      {"Access-Control-Allow-Headers", "Content-Type, Idempotency-Key"},
      {"Access-Control-Max-Age", "86400"},
  }};
  respond(token, 204, {}, headers, HttpBody{});
}

MessageOrError HttpApi::read_message(const HttpRequest& request) {
  std::optional<std::string_view> key;
  if (!single_field(request.head.fields, HeaderId::IdempotencyKey, key)) {
    return field_error("Idempotency-Key", "is given more than once");
  }
  if (request.head.method == HttpMethod::Get) return input_.from_form(request.head.query, key);
  std::optional<std::string_view> type;
  if (!single_field(request.head.fields, HeaderId::ContentType, type)) {
    return field_error("Content-Type", "is given more than once");
  }
  switch (body_kind(type.value_or(std::string_view{}))) {
    case BodyKind::Json:
      return input_.from_json(request.body, key);
    case BodyKind::Form:
      return input_.from_form(request.body, key);
    case BodyKind::Unsupported:
      break;
  }
  InputError error =
      field_error("Content-Type", "must be application/json or application/x-www-form-urlencoded");
  error.status = 415;
  error.code = "unsupported_media_type";
  return error;
}

void HttpApi::handle_message(HttpToken token, const HttpRequest& request) {
  ++counters_.message_requests;
  MessageOrError input = read_message(request);
  if (const auto* error = std::get_if<InputError>(&input)) {
    return respond_error(token, error->status, error->code, error->detail, {&kNoStore, 1});
  }
  NewMessage message = std::get<NewMessage>(std::move(input));
  if (message.id.empty()) message.id = ids_.make();
  const auto place =
      pending_
          .insert_or_assign(token, Pending{.received = request.received, .text = message_json_head(message)})
          .first;
  if (config_.reserve_names) {
    const std::string& name = place->second.held.emplace(std::move(message)).client_name;
    return store_->chat().find_key(name, token);
  }
  store_->put(std::move(message), token);  // may answer before it returns
}

void HttpApi::on_name(std::uint64_t token, const OwnerAnswer& answer) {
  const auto found = pending_.find(token);
  if (found == pending_.end() || !found->second.held.has_value()) return;
  NewMessage message = *std::exchange(found->second.held, std::nullopt);
  if (answer.kind == OwnerAnswer::Kind::Nobody) return store_->put(std::move(message), token);
  pending_.erase(found);
  if (answer.kind == OwnerAnswer::Kind::Known) {
    return respond_error(token, 403, "name_reserved", "This client-name belongs to a key: use it on WSS.",
                         {&kNoStore, 1});
  }
  const std::array<HeaderLine, 2> retry{kNoStore, kRetryAfter};
  respond_error(token, 503, "unavailable", "Nothing was stored; try again.", retry);
}

void HttpApi::handle_feed(HttpToken token, const HttpRequest& request) {
  ++counters_.feed_requests;
  const auto parsed = parse_feed_query(request.head.query);
  if (const auto* error = std::get_if<InputError>(&parsed)) {
    return respond_error(token, error->status, error->code, error->detail);
  }
  FeedQuery query = std::get<FeedQuery>(parsed);
  query.head = request.head.method == HttpMethod::Head;
  query.unless = joined_field(request.head.fields, HeaderId::IfNoneMatch);
  query.gzip = accepts_gzip(joined_field(request.head.fields, HeaderId::AcceptEncoding));
  pending_.insert_or_assign(token, Pending{true, request.received, query.unless, query.gzip, query.paged});
  store_->feed(query, token);
}

void HttpApi::on_abandoned(HttpToken token) {
  if (pending_.erase(token) == 0) return;
  ++counters_.abandoned;
  store_->cancel(token);
  gzip_.cancel(token);
}

void HttpApi::on_put(std::uint64_t token, const PutOutcome& outcome) {
  auto node = pending_.extract(token);
  if (node.empty()) return;
  const Pending& pending = node.mapped();
  counters_.message_us.record(microseconds(loop_.now() - pending.received));
  const std::array<HeaderLine, 2> retry{kNoStore, kRetryAfter};
  switch (outcome.status) {
    case PutStatus::Created:
    case PutStatus::Duplicate:
      return respond(token, outcome.status == PutStatus::Created ? 201 : 200, HttpServer::kJson,
                     {&kNoStore, 1}, HttpBody::of(message_json(outcome, pending.text)));
    case PutStatus::Conflict:
      return respond_error(token, 409, "id_conflict", "This message-id is taken by another message.",
                           {&kNoStore, 1});
    case PutStatus::Unavailable:
      return respond_error(token, 503, "unavailable",
                           outcome.detail.empty() ? "Nothing was stored; try again." : outcome.detail, retry);
    case PutStatus::OutcomeUnknown:
      return respond_error(
          token, 503, "outcome_unknown",
          "The database was lost while it committed; a retry with the same message-id tells.", retry);
    case PutStatus::Refused:
      return respond_error(token, 500, "refused",
                           outcome.detail.empty() ? "The store refuses this message." : outcome.detail,
                           {&kNoStore, 1});
  }
}

void HttpApi::on_feed(std::uint64_t token, const FeedAnswer& answer) {
  auto node = pending_.extract(token);
  if (node.empty()) return;
  Pending& pending = node.mapped();
  if (!answer.available) {
    counters_.feed_us.record(microseconds(loop_.now() - pending.received));
    return respond_error(token, 503, "unavailable",
                         answer.detail.empty() ? "The feed can't be read now; try again." : answer.detail,
                         {&kRetryAfter, 1});
  }
  const std::string compressed = pending.gzip ? gzip_etag(answer.etag) : std::string();
  pending.gzip = !compressed.empty();
  for (const std::string_view tag : {std::string_view(compressed), std::string_view(answer.etag)}) {
    if (tag.empty() || pending.text.empty() || !etag_matches(pending.text, tag)) continue;
    counters_.feed_us.record(microseconds(loop_.now() - pending.received));
    const auto headers = feed_headers(tag);
    return respond(token, 304, {}, std::span(headers).first(3), HttpBody{});
  }
  HttpBody body = answer.body;
  if (body.parts == nullptr) pending.gzip = false;  // it was not read, only measured
  if (pending.gzip) {
    const GzipFeeds::Started started = gzip_.start(token, body, !pending.paged);
    if (started == GzipFeeds::Started::Queued) {
      pending.text = compressed;
      pending_.insert(std::move(node));
      return;
    }
    pending.gzip = started == GzipFeeds::Started::Done;
  }
  counters_.feed_us.record(microseconds(loop_.now() - pending.received));
  respond_feed(token, pending.gzip ? std::string_view(compressed) : answer.etag, pending.gzip,
               std::move(body));
}

void HttpApi::on_gzip(std::uint64_t token, HttpBody body) {
  const auto node = pending_.extract(token);
  if (node.empty()) return;
  counters_.feed_us.record(microseconds(loop_.now() - node.mapped().received));
  respond_feed(token, node.mapped().text, true, std::move(body));
}

void HttpApi::respond_feed(HttpToken token, std::string_view etag, bool gzip, HttpBody body) {
  const auto headers = feed_headers(etag);
  const std::size_t count = gzip ? 4 : etag.empty() ? 2 : 3;
  respond(token, 200, HttpServer::kJson, std::span(headers).first(count), std::move(body));
}

void HttpApi::handle_health(HttpToken token, const HttpRequest& request) {
  ++counters_.probe_requests;
  probes_->on_probe(prober_of(request));
  const bool database_up = store_->healthy();
  const bool draining = server_->draining();
  std::string out;
  JsonWriter json(out);
  json.begin_object()
      .field("status", draining      ? "draining"
                       : database_up ? "ok"
                                     : "unavailable")
      .field("database", database_up ? "ok" : "down")
      .field("backend-id", config_.backend_id)
      .end_object();
  respond_probe(token, database_up && !draining, std::move(out));
}

void HttpApi::handle_healthz(HttpToken token, const HttpRequest& request) {
  ++counters_.probe_requests;
  probes_->on_probe(prober_of(request));
  const bool draining = server_->draining();
  std::string out;
  JsonWriter json(out);
  json.begin_object()
      .field("status", draining ? "draining" : "ok")
      .field("backend-id", config_.backend_id)
      .end_object();
  respond_probe(token, !draining, std::move(out));
}

void HttpApi::respond_probe(HttpToken token, bool ok, std::string body) {
  const std::array<HeaderLine, 2> headers{kNoStore, kRetryAfter};
  respond(token, ok ? 200 : 503, HttpServer::kJson, {headers.data(), ok ? std::size_t{1} : std::size_t{2}},
          HttpBody::of(std::move(body)));
}

std::uint64_t HttpApi::in_flight_besides_this() const {
  std::size_t active = server_->active_exchanges();
  if (tls_port_ != nullptr) active += tls_port_->active_exchanges();
  return active == 0 ? 0 : active - 1;
}

void HttpApi::handle_internal_stats(HttpToken token, const HttpRequest&) {
  ++counters_.other_requests;
  RequestFigures figures{in_flight_besides_this(), server_->counters().requests};
  if (tls_port_ != nullptr) figures.total += tls_port_->counters().requests;
  respond(token, 200, HttpServer::kJson, {&kNoStore, 1},
          HttpBody::of(internal_stats_json(config_.backend_id, resources_->latest(), figures, store_->stats(),
                                           socket_figures())));
}

void HttpApi::handle_info(HttpToken token, const HttpRequest&) {
  ++counters_.other_requests;
  std::string out;
  JsonWriter json(out);
  json.begin_object()
      .field("backend-id", config_.backend_id)
      .field("version", config_.version)
      .field("store", config_.store_kind);
  json.key("limits")
      .begin_object()
      .field("message-id-characters", kMessageIdMaxCharacters)
      .field("client-name-characters", kClientNameMaxCharacters)
      .field("msg-bytes", kMessageMaxBytes)
      .field("body-bytes", config_.max_body_bytes)
      .field("feed-page-messages", 1000)
      .end_object();
  json.key("wss")
      .begin_object()
      .field("enabled", tls_port_ != nullptr)
      .field("port", tls_port_ != nullptr ? tls_port_->port() : std::uint16_t{0})
      .key("url");
  if (config_.public_wss_url.empty()) {
    json.null();
  } else {
    json.value(config_.public_wss_url);
  }
  json.end_object().end_object();
  respond(token, 200, HttpServer::kJson, {&kNoStore, 1}, HttpBody::of(std::move(out)));
}

std::string HttpApi::metrics_text(bool as_json) const {
  MetricsView view{.api = counters_,
                   .http = server_->counters(),
                   .ws = sockets_ != nullptr ? sockets_->counters() : WsServerCounters{},
                   .loop = loop_.counters(),
                   .resources = resources_->latest(),
                   .store = store_->stats(),
                   .process = read_process_stats(),
                   .in_flight = in_flight_besides_this(),
                   .connections = server_->open_connections(),
                   .gzip_plain_bytes = gzip_.gzip().compressed_bytes(),
                   .gzip_kept_bytes = gzip_.gzip().memory(),
                   .draining = server_->draining(),
                   .uptime_seconds = seconds(loop_.now() - started_)};
  if (tls_port_ != nullptr) {
    view.http += tls_port_->counters();
    view.connections += tls_port_->open_connections();
  }
  if (sockets_ != nullptr) {
    view.ws_open = sockets_->open_sessions();
    view.ws_closing = sockets_->closing_sessions();
    view.ws_collected_bytes = sockets_->collected_bytes();
  }
  if (chat_ != nullptr) {
    view.chat = chat_->counters();
    view.chat_names = chat_->online();
    view.chat_unverified = chat_->unverified();
    view.chat_parsed_keys = chat_->parsed_keys();
  }
  return as_json ? metrics_json(view, config_.backend_id) : metrics_prometheus(view, config_.backend_id);
}

void HttpApi::handle_metrics(HttpToken token, const HttpRequest& request) {
  ++counters_.other_requests;
  bool as_json = false;
  FormReader reader(request.head.query);
  while (reader.next()) {
    if (reader.name() != "format") continue;
    as_json = reader.value() == "json";
    if (!as_json && reader.value() != "prometheus") {
      return respond_error(token, 400, "bad_request", "format must be json or prometheus");
    }
  }
  if (reader.fault()) return respond_error(token, 400, reader.fault()->code, reader.fault()->detail);
  respond(token, 200, as_json ? HttpServer::kJson : kPrometheusContentType, {&kNoStore, 1},
          HttpBody::of(metrics_text(as_json)));
}

void HttpApi::handle_page(HttpToken token, const HttpRequest&) {
  ++counters_.other_requests;
  const std::array<HeaderLine, 3> headers{{{"Cache-Control", "no-cache"},
                                           {"Content-Security-Policy", home_page_policy()},
                                           {"X-Content-Type-Options", "nosniff"}}};
  respond(token, 200, "text/html; charset=utf-8", headers, home_page());
}

void HttpApi::respond(HttpToken token, int status, std::string_view content_type,
                      std::span<const HeaderLine> headers, HttpBody body) {
  count_response(status);
  server_of(token).respond(token, status, content_type, headers, std::move(body));
}

void HttpApi::respond_error(HttpToken token, int status, std::string_view code, std::string_view detail,
                            std::span<const HeaderLine> headers) {
  count_response(status);
  server_of(token).respond_error(token, status, code, detail, headers);
}

void HttpApi::count_response(int status) {
  if (status >= 500) {
    ++counters_.responses_5xx;
  } else if (status >= 400) {
    ++counters_.responses_4xx;
  } else if (status >= 300) {
    ++counters_.responses_3xx;
  } else {
    ++counters_.responses_2xx;
  }
}

}  // namespace dlb::backend
