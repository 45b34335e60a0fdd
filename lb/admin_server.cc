#include "lb/admin_server.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "common/check.h"
#include "common/json_writer.h"
#include "common/socket.h"
#include "lb/dashboard.h"
#include "lb/handover.h"
#include "lb/metrics.h"

namespace dlb::lb {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr int kBacklog = 64;
constexpr HeaderLine kNoStore{"Cache-Control", "no-store"};

HttpServerOptions server_options() {
  HttpServerOptions out;
  out.max_connections = AdminServer::kMaxConnections;
  out.max_body_bytes = 4096;
  out.max_total_body_bytes = 64 * 1024;
  out.fixed_header_lines = "X-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\n";
  return out;
}

// `Name: value` lines, each with CRLF, as fields of an answer. The views live as long as `lines`.
std::vector<HeaderLine> header_lines(std::string_view lines) {
  std::vector<HeaderLine> out;
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find("\r\n"));
    const std::size_t colon = line.find(": ");
    if (colon != std::string_view::npos) out.push_back({line.substr(0, colon), line.substr(colon + 2)});
    lines.remove_prefix(std::min(lines.size(), line.size() + 2));
  }
  return out;
}

void write_names(JsonWriter& json, std::string_view key, const std::vector<std::string>& names) {
  json.key(key).begin_array();
  for (const std::string& name : names) json.value(name);
  json.end_array();
}

std::vector<std::string> own_names(const Options& options) {
  std::vector<std::string> names;
  std::string_view listen = options.admin_listen;
  names.emplace_back(listen.substr(0, listen.rfind(':')));
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) == 0 && host[0] != '\0') names.emplace_back(host.data());
  return names;
}

}  // namespace

Result<Fd> open_admin_listener(const Options& options, const LoadedOptions& loaded,
                               InheritedSockets& inherited, Log& log) {
  if (options.admin_address.empty()) return Fd{};
  if (Fd handed_over = inherited.take(options.admin_address)) return handed_over;
  auto listener = listen_on(options.admin_address, kBacklog);
  if (listener) return listener;
  if (loaded.given("admin-listen")) {
    return loaded.at("admin-listen",
                     listener.error().text + "; stop what uses the port or choose another address");
  }
  log.warn("no admin listener: its address is in use; give admin-listen another one, or off",
           {{"error", listener.error().text}});
  return Fd{};
}

AdminServer::AdminServer(EventLoop& loop, Fd listener, const Options& options,
                         const ConfigurationStore& configuration, StatusPages& pages, BackendEvents& events,
                         const Predecessor& predecessor, AdminCounters& counters, EventFigures& event_figures,
                         Log& log)
    : loop_(loop),
      configuration_(configuration),
      pages_(pages),
      events_(events),
      predecessor_(predecessor),
      counters_(counters),
      log_(log),
      token_(options.admin_token),
      beyond_loopback_(!options.admin_address.is_loopback()),
      names_(own_names(options)),
      listener_(std::move(listener)),
      event_stream_(loop, pages, configuration, event_figures, [](std::uint64_t) {}),
      mail_(loop, *this, 4) {
  if (!predecessor_.was_there()) on_mail(AdminMail::Start);
}

void AdminServer::freeze() {
  const std::lock_guard lock(mutex_);
  frozen_ = true;
}

void AdminServer::thaw() {
  const std::lock_guard lock(mutex_);
  frozen_ = false;
}

void AdminServer::on_mail(AdminMail mail) {
  if (mail == AdminMail::Start) {
    if (!server_) server_.emplace(loop_, std::move(listener_), *this, server_options());
  } else if (server_) {
    server_->begin_drain();
    server_->close_listener();
    event_stream_.end();
  }
}

void AdminServer::on_request(HttpToken token, const HttpRequest& request) {
  count(counters_.requests);
  const RequestHead& head = request.head;
  if (foreign(token, head)) return;
  const bool reads = head.method == HttpMethod::Get || head.method == HttpMethod::Head;
  // The page shows nothing by itself; it asks for the token that all it wants to show needs.
  if (head.path == "/lb/dashboard" && reads) return serve_dashboard(token);
  if (unauthorized(token, head)) return;
  const AdminRoute route = admin_route(head.path);
  if (route.kind == AdminRoute::Kind::Nothing) {
    return server_->respond_error(token, 404, "not_found", "there is nothing at this path");
  }
  if (route.changes() ? head.method != HttpMethod::Post : !reads) {
    const HeaderLine allow[] = {{"Allow", route.changes() ? "POST" : "GET, HEAD"}};
    return server_->respond_error(token, 405, "method_not_allowed", "this path takes another method", allow);
  }
  if (head.path == "/lb/events") return serve_events(token, request);
  if (route.kind == AdminRoute::Kind::Page) return serve_page(token, head);
  if (route.kind == AdminRoute::Kind::Reload) return serve_reload(token);
  serve_backend(token, request, route);
}

void AdminServer::on_abandoned(HttpToken token) {
  std::erase(reloads_asked_, token);
  std::erase(reloads_begun_, token);
}

bool AdminServer::frozen() {
  const std::lock_guard lock(mutex_);
  return frozen_;
}

void AdminServer::respond_frozen(HttpToken token) {
  const HeaderLine retry[] = {{"Retry-After", "1"}};
  server_->respond_error(token, 503, "upgrading", "another process is taking over: ask it", retry, true);
}

void AdminServer::set_reloader(Reloader& reloader) {
  reloader_ = &reloader;
  reloader.set_watcher(*this);
}

void AdminServer::serve_reload(HttpToken token) {
  if (reloader_ == nullptr || frozen()) return respond_frozen(token);
  reloads_asked_.push_back(token);
  reloader_->request();
}

// Whoever asks while the file is being read is answered by the next reading: this one may have read it
// already.
void AdminServer::on_reload_begins() {
  reloads_begun_.insert(reloads_begun_.end(), reloads_asked_.begin(), reloads_asked_.end());
  reloads_asked_.clear();
}

void AdminServer::on_reload_ends(const ReloadOutcome& outcome) {
  const bool refused = !outcome.error.empty();
  std::string body;
  JsonWriter json(body);
  json.begin_object();
  if (refused) {
    json.field("error", "bad_configuration").field("detail", outcome.error);
  } else {
    json.field("generation", outcome.generation);
    write_names(json, "changed", outcome.changed);
    write_names(json, "needs_restart", outcome.needs_restart);
    json.field("backends_added", outcome.backends_added).field("backends_leaving", outcome.backends_leaving);
  }
  json.end_object();
  const HeaderLine headers[] = {kNoStore};
  for (const HttpToken token : std::exchange(reloads_begun_, {}))
    server_->respond(token, refused ? 422 : 200, HttpServer::kJson, headers, HttpBody::of(body + '\n'));
}

// Who may not ask. Pages of other sites first: they learn nothing, not even that there is a token.
bool AdminServer::foreign(HttpToken token, const RequestHead& head) {
  const HeaderField* const origin = head.fields.find(HeaderId::Origin);
  const HeaderField* const site = head.fields.find("sec-fetch-site");
  const bool foreign_page = (origin != nullptr && !origin_is_ours(origin->value, head.authority)) ||
                            (site != nullptr && site->value != "same-origin" && site->value != "none");
  if (foreign_page || !host_is_ours(head.authority, beyond_loopback_, names_)) {
    count(counters_.foreign);
    server_->respond_error(token, 403, "forbidden",
                           foreign_page ? "this request comes from another site's page"
                                        : "the Host field does not name this listener",
                           {}, true);
    return true;
  }
  return false;
}

bool AdminServer::unauthorized(HttpToken token, const RequestHead& head) {
  if (token_.empty() || bearer_is(head.fields.value(HeaderId::Authorization), token_)) {
    return false;
  }
  count(counters_.unauthorized);
  const HeaderLine challenge[] = {{"WWW-Authenticate", "Bearer realm=\"dlb\""}};
  server_->respond_error(token, 401, "unauthorized", "the token of admin-token-file is needed", challenge,
                         true);
  return true;
}

void AdminServer::serve_page(HttpToken token, const RequestHead& head) {
  OwnPages::Page page = pages_.render(head.path, head.query, head.fields.value(HeaderId::Accept));
  server_->respond(token, page.status, page.content_type, header_lines(page.extra),
                   HttpBody::of(std::move(page.body)));
}

void AdminServer::serve_dashboard(HttpToken token) {
  std::vector<HeaderLine> headers = header_lines(dashboard_header_lines());
  headers.push_back(kNoStore);
  const auto actions = token_.empty() ? DashboardActions::Open : DashboardActions::Token;
  server_->respond(token, 200, "text/html; charset=utf-8", headers,
                   HttpBody::of(std::string(dashboard_page(actions))));
}

void AdminServer::serve_events(HttpToken token, const HttpRequest& request) {
  const RequestHead& head = request.head;
  if (head.framing == BodyFraming::Chunked ||
      (head.framing == BodyFraming::Length && head.content_length > 0))
    return server_->respond_error(token, 400, "bad_request", "a reader of events sends no body");
  if (!event_stream_.reserve()) {
    const HeaderLine retry[] = {{"Retry-After", "5"}};
    return server_->respond_error(token, 503, "too_many_readers", "as many read events as may", retry);
  }
  const bool head_only = head.method == HttpMethod::Head;
  auto taken = server_->take_over(token);
  DLB_CHECK(taken);
  event_stream_.begin(std::move(taken->transport), head_only);
}

void AdminServer::serve_backend(HttpToken token, const HttpRequest& request, const AdminRoute& route) {
  const auto configuration = configuration_.current();
  const BackendSet& backends = configuration->backends;
  const auto found = std::ranges::find_if(
      backends.members(), [&](std::uint32_t index) { return backends.at(index).id == route.backend; });
  if (found == backends.members().end()) {
    return server_->respond_error(token, 404, "no_such_backend", "there is no backend of this id");
  }
  Backend& backend = backends.at(*found);
  const Change done = route.changes() ? change(backends, backend, route, request.head.query) : Change::Done;
  if (done == Change::BadValue)
    return server_->respond_error(token, 400, "bad_request", "value is to be a number from 0 to 65535");
  if (done == Change::Frozen) return respond_frozen(token);
  const HeaderLine headers[] = {kNoStore};
  server_->respond(token, 200, HttpServer::kJson, headers, HttpBody::of(pages_.render_backend(backend)));
}

AdminServer::Change AdminServer::change(const BackendSet& backends, Backend& backend, const AdminRoute& route,
                                        std::string_view query) {
  const std::lock_guard lock(mutex_);
  if (frozen_) return Change::Frozen;
  const bool drains = route.kind == AdminRoute::Kind::Drain;
  if (route.kind == AdminRoute::Kind::Weight) {
    const auto weight = weight_value(query);
    if (!weight) return Change::BadValue;
    backend.weight.store(*weight, kRelaxed);
    log_.info("weight changed by admin", {{"backend", backend.id}, {"weight", *weight}});
  } else {
    const AdminState state = drains ? AdminState::Drain : AdminState::Ready;
    if (backend.admin.exchange(state, kRelaxed) != state) {
      log_.info(drains ? "backend drained by admin" : "backend ready by admin",
                {{"backend", backend.id}, {"in_flight", backend.slots.taken()}});
    }
  }
  count(counters_.changes);
  tell_of_setting(backends, backend, events_);
  predecessor_.tell(describe_setting(backend) + '\n');
  return Change::Done;
}

}  // namespace dlb::lb
