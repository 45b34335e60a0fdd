#include "common/ws_server.h"

#include <algorithm>
#include <utility>

#include "common/turn_share.h"
#include "common/ws_handshake.h"
#include "common/ws_session.h"

namespace dlb {
namespace {

constexpr Duration kFlushBudget = std::chrono::milliseconds(2);  // a turn

std::uint64_t& end_counter(WsServerCounters& counters, WsEnd end) {
  switch (end) {
    case WsEnd::PeerClosed:
      return counters.ended_by_peer;
    case WsEnd::ProtocolError:
      return counters.ended_protocol;
    case WsEnd::ByService:
      return counters.ended_by_service;
    case WsEnd::SlowConsumer:
      return counters.ended_slow;
    case WsEnd::Overload:
      return counters.ended_overload;
    case WsEnd::MissedPong:
      return counters.ended_pong;
    case WsEnd::NotConfirmed:
      return counters.ended_unconfirmed;
    case WsEnd::Drained:
      return counters.ended_drained;
    case WsEnd::Broken:
      break;
  }
  return counters.ended_broken;
}

}  // namespace

WsServer::WsServer(EventLoop& loop, WsServerOptions options)
    : loop_(loop), options_(std::move(options)), parts_(std::make_unique<Parts>(loop, options_)) {
  loop_.add_timer_source(*this);
  loop_.add_turn_end_hook(*this);
}

WsServer::~WsServer() {
  parts_->sessions.for_each([](WsSession& session) { session.drop(); });
  parts_->sessions.reap();
  loop_.remove_turn_end_hook(*this);
  loop_.remove_timer_source(*this);
}

void WsServer::add_route(WsRoute route) {
  routes_.push_back(std::make_unique<RouteEntry>(loop_, std::move(route)));
}

WsServer::RouteEntry* WsServer::find_route(std::string_view path) const {
  for (const auto& entry : routes_) {
    const auto& paths = entry->route.paths;
    if (std::find(paths.begin(), paths.end(), path) != paths.end()) return entry.get();
  }
  return nullptr;
}

// ---- opening ----

bool WsServer::refuse(HttpServer& http, HttpToken token, int status, std::string_view code,
                      std::string_view detail) {
  const HeaderLine upgrade[] = {{"Upgrade", "websocket"}, {"Sec-WebSocket-Version", "13"}};
  const HeaderLine allow[] = {{"Allow", "GET, HEAD, OPTIONS"}};
  const HeaderLine retry[] = {{"Retry-After", "1"}};
  std::span<const HeaderLine> headers;
  if (status == 426) headers = upgrade;
  if (status == 405) headers = allow;
  if (status == 503) headers = retry;
  http.respond_error(token, status, code, detail, headers);
  return true;
}

bool WsServer::upgrade(HttpServer& http, HttpToken token, const HttpRequest& request) {
  RouteEntry* const entry = find_route(request.head.path);
  if (entry == nullptr) return false;
  if (request.head.path == "/" && !asks_for_websocket(request.head)) return false;
  const WsHandshake handshake = judge_ws_handshake(request.head, options_.origins);
  if (handshake.status != 101) {
    ++(handshake.status == 403 ? counters_.refused_origin : counters_.refused_request);
    return refuse(http, token, handshake.status, handshake.code, handshake.detail);
  }
  if (draining_) {
    ++counters_.refused_draining;
    return refuse(http, token, 503, "unavailable", "This backend is shutting down.");
  }
  if (is_full()) {
    ++counters_.refused_full;
    return refuse(http, token, 503, "unavailable", "All WebSocket sessions are taken.");
  }
  std::optional<TakenConnection> taken = http.take_over(token);
  if (!taken) {
    ++counters_.refused_request;
    return refuse(http, token, 400, "bad_request", "A WebSocket request has no body.");
  }
  ++counters_.opened;
  ++open_;
  WsSession* const session = parts_->sessions.create(*this, *entry, std::move(*taken));
  DLB_CHECK(session != nullptr);
  const std::string& lines = http.options().fixed_header_lines;
  session->start(std::make_shared<const WsFrame>(ws_switching_response(handshake.key, lines)));
  const WsOpen open{request.head.path, request.head.query, handshake.origin, request.peer, request.tls};
  entry->route.service->on_open(session->token(), open);
  return true;
}

// Sessions that are closing are short-lived, but they hold descriptors: as many again is enough of them.
bool WsServer::is_full() const {
  const std::size_t most = options_.max_sessions;
  return most > 0 && (open_ >= most || parts_->sessions.live() >= 2 * most + 16);
}

// ---- what services do ----

WsSession* WsServer::find_open(WsToken token) const {
  WsSession* const session = parts_->sessions.get(Handle<WsSession>::unpack(token));
  return session != nullptr && session->is_open() ? session : nullptr;
}

bool WsServer::send(WsToken token, const WsFramePtr& frame) {
  WsSession* const session = find_open(token);
  return session != nullptr && session->send(frame, WsQueue::Kind::Live);
}

bool WsServer::send_answer(WsToken token, const WsFramePtr& frame) {
  WsSession* const session = find_open(token);
  return session != nullptr && session->send(frame, WsQueue::Kind::Answer);
}

bool WsServer::send_text(WsToken token, std::string_view text) {
  return is_open(token) && send_answer(token, WsFrame::text(text));
}

void WsServer::close(WsToken token, std::uint16_t code, std::string_view reason) {
  if (WsSession* const session = find_open(token)) session->close(code, reason, WsEnd::ByService);
}

std::size_t WsServer::queued_bytes(WsToken token) const {
  const WsSession* const session = find_open(token);
  return session != nullptr ? session->queued_bytes() : 0;
}

bool WsServer::is_open(WsToken token) const { return find_open(token) != nullptr; }

void WsServer::confirm(WsToken token) {
  if (WsSession* const session = find_open(token)) session->confirm();
}

void WsServer::pause_reading(WsToken token) {
  if (WsSession* const session = find_open(token)) session->pause_reading();
}

void WsServer::resume_reading(WsToken token) {
  if (WsSession* const session = find_open(token)) session->resume_reading();
}

// ---- the end of a turn ----

void WsServer::note_end(WsService& service, WsToken token, WsEnd end) {
  ++end_counter(counters_, end);
  --open_;
  ended_.push_back({&service, token, end});
}

void WsServer::want_flush(Handle<WsSession> handle) {
  WsSession* const session = parts_->sessions.get(handle);
  if (session == nullptr || std::exchange(session->flush_queued, true)) return;
  parts_->flush.push_back(handle);
}

// What a turn has gathered goes out in one write each; many sessions are spread over turns. A write takes 1
// to 15 µs, by size and TLS, so it is time that bounds them.
void WsServer::flush_some() {
  auto& waiting = parts_->flush;
  if (waiting.empty()) return;
  // A write by TLS takes a hundred times what a look at the clock does.
  const TimePoint end = turn_share(loop_, kFlushBudget);
  for (std::size_t left = waiting.size(); left > 0 && monotonic_now() < end; --left) {
    WsSession* const session = parts_->sessions.get(waiting.front());
    waiting.pop_front();
    if (session == nullptr) continue;
    session->flush_queued = false;
    session->flush();
  }
}

void WsServer::tell_ended() {
  std::vector<Ended> ended;
  ended.swap(ended_);
  for (const Ended& each : ended) each.service->on_close(each.token, each.end);
}

void WsServer::on_turn_end() {
  flush_some();
  tell_ended();
  parts_->sessions.reap();
}

// ---- draining ----

void WsServer::begin_drain(Duration spread) {
  if (std::exchange(draining_, true)) return;
  drain_begin_ = loop_.now();
  drain_spread_ = spread;
  parts_->sessions.for_each([this](WsSession& session) {
    if (session.is_open()) drain_waiting_.push_back(session.token());
  });
  drain_total_ = drain_waiting_.size();
  drain_some(loop_.now());
}

// The k-th of n sessions goes at k/n of the spread.
void WsServer::drain_some(TimePoint now) {
  while (!drain_waiting_.empty() && next_drain() <= now) {
    WsSession* const session = find_open(drain_waiting_.back());
    drain_waiting_.pop_back();
    if (session != nullptr) session->close(ws_close::kGoingAway, "shutting down", WsEnd::Drained);
  }
}

TimePoint WsServer::next_drain() const {
  if (drain_waiting_.empty()) return kNever;
  const auto done = static_cast<std::int64_t>(drain_total_ - drain_waiting_.size());
  return drain_begin_ + drain_spread_ / static_cast<std::int64_t>(drain_total_) * done;
}

TimePoint WsServer::next_deadline() const {
  if (!ended_.empty() || !parts_->flush.empty()) return loop_.now();  // another hook has added to them
  return next_drain();
}

void WsServer::expire(TimePoint now) { drain_some(now); }

std::size_t WsServer::cut_all() {
  const std::size_t cut = parts_->sessions.live();
  parts_->sessions.for_each([](WsSession& session) { session.cut(ws_close::kGoingAway, WsEnd::Drained); });
  return cut;
}

std::size_t WsServer::closing_sessions() const { return parts_->sessions.live() - open_; }
std::uint64_t WsServer::collected_bytes() const { return parts_->collected; }

}  // namespace dlb
