// The rows of the balancer's options, and the rules that go across them. Start-up and reload only.
#include "lb/options.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <utility>

#include "common/log.h"
#include "lb/access_log.h"
#include "lb/admin_options.h"
#include "lb/autoscale_options.h"
#include "lb/tunnel_options.h"

namespace dlb::lb {
namespace {

constexpr std::string_view kPolicyNames[] = {
    "score", "adaptive",   "least_conn", "round_robin", "weighted_round_robin",
    "first", "random_two", "peak_ewma",  "prequal"};
constexpr std::string_view kHealthMethods[] = {"GET", "HEAD", "TCP"};
constexpr double kMaxCount = 1'000'000;
constexpr Duration kMaxTime = std::chrono::hours(24);

constexpr OptionRow kBackendRows[] = {
    option<&BackendOption::id>(
        "id", {.help = "Name in headers, metrics and admin; host:port of the url if not given."}),
    option<&BackendOption::url>("url", {.unit = "url", .help = "http://host:port or unix:/path."}),
    option<&BackendOption::wss>("wss",
                                {.unit = "address", .help = "Where wss-listen sends this backend's share."}),
    option<&BackendOption::weight>(
        "weight", {.min = 0, .max = 65535, .help = "Share of traffic; 0 gets no new request."}),
};

constexpr std::string_view kTcpPolicies[] = {"round_robin", "least_conn"};

constexpr OptionRow kTcpRows[] = {
    option<&TcpOption::listen>("listen",
                               {.unit = "address", .apply = Apply::Restart, .help = "Where it listens."}),
    option<&TcpOption::policy>("policy",
                               {.choices = kTcpPolicies, .help = "How a connection's backend is chosen."}),
    option<&TcpOption::backends>("backends",
                                 {.unit = "addresses", .help = "host:port or unix:/path, 1 to 64 of them."}),
    option<&TcpOption::send_proxy_protocol>(
        "send-proxy-protocol", {.help = "Tell the backend the client's address by a PROXY v2 header."}),
};

constexpr OptionRow kRows[] = {
    // Listening
    option<&Options::listen>("listen",
                             {.unit = "address", .apply = Apply::Restart, .help = "Public HTTP listener."}),
    option<&Options::tls_listen>(
        "tls-listen",
        {.unit = "address", .apply = Apply::Restart, .help = "Public HTTPS listener; \"\": none."}),
    option<&Options::tls_cert>(
        "tls-cert",
        {.unit = "file", .help = "PEM certificate of tls-listen, its chain behind it; SIGHUP re-reads."}),
    option<&Options::tls_key>("tls-key",
                              {.unit = "file", .help = "PEM key of tls-cert, unencrypted; SIGHUP re-reads."}),
    option<&Options::workers>(
        "workers",
        {.min = 0, .max = 64, .apply = Apply::Restart, .help = "Data threads; 0: one per CPU of the quota."}),
    option<&Options::public_status>("public-status",
                                    {.help = "Serve the read-only pages under /lb/ on the public listener."}),
    option<&Options::pid_file>(
        "pid-file", {.unit = "file",
                     .apply = Apply::Restart,
                     .help = "Written when clients are accepted, removed at the end; empty: none."}),

    // Admin
    option<&Options::admin_listen>("admin-listen",
                                   {.unit = "address",
                                    .apply = Apply::Restart,
                                    .help = "Listener for drain, ready, weight and the pages; off: none."}),
    option<&Options::admin_token_file>(
        "admin-token-file",
        {.unit = "file",
         .apply = Apply::Restart,
         .help = "Its first line is the bearer token of admin-listen; needed when that isn't loopback."}),

    // Backends
    option_tables<&Options::backends>("backend", kBackendRows, "One backend: id, url, wss, weight."),
    option<&Options::backend_urls>("backends",
                                   {.unit = "urls", .help = "Short form: URL,URL instead of [[backend]]."}),
    option<&Options::backends_file>(
        "backends-file",
        {.unit = "file", .help = "JSON array of {\"name\",\"url\",\"weight\"} instead of [[backend]]."}),
    option_table<&Options::autoscale>("autoscale", kAutoscaleRows,
                                      "Backends that are started and stopped as the load asks for it."),

    // Layer 4
    option_tables<&Options::tcp>("tcp", kTcpRows,
                                 "One layer-4 listener: listen, policy, backends, send-proxy-protocol."),
    option<&Options::wss_listen>("wss-listen",
                                 {.unit = "address",
                                  .apply = Apply::Restart,
                                  .help = "Passes TLS through to the backends' wss; empty: off."}),
    option<&Options::wss_backends>(
        "wss-backends",
        {.unit = "addresses", .help = "Short form: HOST:PORT,HOST:PORT, the wss of each backend in order."}),
    option<&Options::wss_max_connections>(
        "wss-max-connections",
        {.min = 1, .max = kMaxCount, .unit = "connections", .help = "Through wss-listen; more are closed."}),
    option<&Options::wss_send_proxy_protocol>(
        "wss-send-proxy-protocol",
        {.help = "Tell the backends' wss the client's address by a PROXY v2 header."}),

    // Routing
    option<&Options::policy>("policy", {.choices = kPolicyNames, .help = "How a backend is chosen."}),
    option<&Options::threshold>(
        "threshold",
        {.min = 0,
         .max = 100,
         .unit = "points",
         .help = "Policy score: backends at or over this score are left out while others are under it."}),
    option<&Options::max_memory>(
        "max-memory",
        {.min = 1,
         .max = 100,
         .unit = "percent",
         .help = "Unreclaimable memory at which a backend gets no new request; back 5 points below."}),
    option<&Options::max_total_memory>("max-total-memory",
                                       {.min = 1,
                                        .max = 100,
                                        .unit = "percent",
                                        .help = "Second guard over the same figure; back 4 points below."}),
    option<&Options::max_inflight>(
        "max-inflight", {.min = 1,
                         .max = kMaxCount,
                         .unit = "requests",
                         .help = "Outstanding requests that make the in-flight part of the score 100."}),
    option<&Options::latency_target>(
        "latency-target", {.min = std::chrono::microseconds(1),
                           .max = kMaxTime,
                           .help = "Time to response headers that makes the latency part of the score 100."}),
    option<&Options::backend_cap>(
        "backend-cap", {.min = 0,
                        .max = kMaxCount,
                        .unit = "requests",
                        .help = "Outstanding requests per backend; more wait in a queue. 0: no cap."}),
    option<&Options::backend_queue_timeout>(
        "backend-queue-timeout", {.min = std::chrono::milliseconds(1),
                                  .max = kMaxTime,
                                  .help = "How long a request waits for a slot or a connection before 503."}),
    option<&Options::backend_queue_max>(
        "backend-queue-max",
        {.min = 0, .max = kMaxCount, .unit = "requests", .help = "Requests that may wait."}),
    option<&Options::admission_limit>(
        "admission-limit", {.min = 0,
                            .max = kMaxCount,
                            .unit = "requests",
                            .help = "Concurrent POST /message; more get 503 at once. 0: no limit."}),
    option<&Options::panic_fallback>(
        "panic-fallback",
        {.help = "When every backend fails its checks, use those that still accept connections."}),
    option<&Options::max_ejected_percent>(
        "max-ejected-percent",
        {.min = 0,
         .max = 100,
         .unit = "percent",
         .help = "Backends that may be ejected for failing beside their peers, at least one; 0: none."}),
    option<&Options::ejection_time>(
        "ejection-time", {.min = std::chrono::milliseconds(1),
                          .max = std::chrono::seconds(300),
                          .help = "Of a first ejection; the n-th lasts n times as long, 300s at most."}),
    option<&Options::check_ends_ejection>(
        "check-ends-ejection", {.help = "A health check that passes ends an ejection before its time."}),

    // Health and statistics
    option<&Options::health_interval>(
        "health-interval",
        {.min = std::chrono::milliseconds(10), .max = kMaxTime, .help = "Time between health checks."}),
    option<&Options::stats_interval>(
        "stats-interval",
        {.min = std::chrono::milliseconds(10), .max = kMaxTime, .help = "Time between statistics polls."}),
    option<&Options::monitor_timeout>("monitor-timeout",
                                      {.min = std::chrono::milliseconds(10),
                                       .max = kMaxTime,
                                       .help = "Bound on one check or poll, from connect to verdict."}),
    option<&Options::failure_limit>(
        "failure-limit", {.min = 1,
                          .max = 1000,
                          .help = "Failed checks, or failed connects, in a row that take a backend out."}),
    option<&Options::health_method>(
        "health-method",
        {.choices = kHealthMethods, .help = "GET or HEAD of health-path, or TCP: a connect is enough."}),
    option<&Options::health_path>("health-path", {.unit = "path", .help = "What a health check asks for."}),
    option<&Options::stats_path>(
        "stats-path", {.unit = "path", .help = "Where statistics are; \"\": the backends have none."}),

    // Upstream side
    option<&Options::connect_timeout>(
        "connect-timeout", {.min = std::chrono::milliseconds(1), .max = kMaxTime, .help = "To a backend."}),
    option<&Options::backend_timeout>(
        "backend-timeout",
        {.min = std::chrono::milliseconds(1), .max = kMaxTime, .help = "To response headers."}),
    option<&Options::backend_body_timeout>(
        "backend-body-timeout",
        {.min = std::chrono::milliseconds(1), .max = kMaxTime, .help = "Without a byte of a response body."}),
    option<&Options::proxy_max_idle>(
        "proxy-max-idle",
        {.min = 0, .max = kMaxCount, .unit = "connections", .help = "Idle backend connections kept."}),
    option<&Options::proxy_max_idle_per_host>(
        "proxy-max-idle-per-host",
        {.min = 0, .max = kMaxCount, .unit = "connections", .help = "The same per backend."}),
    option<&Options::proxy_max_conns_per_host>(
        "proxy-max-conns-per-host",
        {.min = 1,
         .max = kMaxCount,
         .unit = "connections",
         .help = "Busy connections per backend, feeds apart; more requests wait."}),
    option<&Options::proxy_max_feed_conns_per_host>(
        "proxy-max-feed-conns-per-host", {.min = 1,
                                          .max = kMaxCount,
                                          .unit = "connections",
                                          .help = "Busy feed connections per backend; more feeds wait."}),
    option<&Options::proxy_idle_timeout>("proxy-idle-timeout",
                                         {.min = std::chrono::milliseconds(1),
                                          .max = kMaxTime,
                                          .help = "When an idle backend connection is closed."}),
    option<&Options::proxy_buffer_bytes>(
        "proxy-buffer-bytes",
        {.min = kib(4), .max = mib(16), .help = "Buffer per direction of a running exchange."}),
    option<&Options::proxy_feed_read_buffer_bytes>(
        "proxy-feed-read-buffer-bytes",
        {.max = mib(64), .help = "Socket read buffer of feed connections; 0: not set."}),
    option<&Options::proxy_feed_buffer_bytes>(
        "proxy-feed-buffer-bytes",
        {.max = mib(16), .help = "Buffer per running feed body; 0: as proxy-buffer-bytes."}),
    option<&Options::feed_paths>("feed-paths",
                                 {.unit = "paths", .help = "Paths that use the isolated feed transport."}),
    option<&Options::deny_paths>("deny-paths", {.unit = "path prefixes", .help = "Never forwarded: 404."}),
    option<&Options::no_replay_paths>(
        "no-replay-paths", {.unit = "paths", .help = "A GET on these has effects: never replayed."}),
    option<&Options::retry_keyed_paths>(
        "retry-keyed-paths",
        {.unit = "paths", .help = "Requests with Idempotency-Key on these may be replayed."}),

    // Client side
    option<&Options::client_max_connections>(
        "client-max-connections",
        {.min = 0, .max = kMaxCount, .unit = "connections", .help = "0: no limit."}),
    option<&Options::client_connection_burst>(
        "client-connection-burst",
        {.min = 0,
         .max = kMaxCount,
         .unit = "connections",
         .help = "Connections over client-max-connections, while memory is clear of its limits."}),
    option<&Options::client_new_timeout>(
        "client-new-timeout",
        {.min = std::chrono::milliseconds(1),
         .max = kMaxTime,
         .help = "At the cap, a connection that has been silent from its start for this long makes room."}),
    option<&Options::client_idle_timeout>(
        "client-idle-timeout",
        {.min = std::chrono::milliseconds(1), .max = kMaxTime, .help = "Between two requests."}),
    option<&Options::client_header_timeout>(
        "client-header-timeout",
        {.min = std::chrono::milliseconds(1),
         .max = kMaxTime,
         .help = "From the first byte of a request to the end of its head: then 408."}),
    option<&Options::client_body_timeout>("client-body-timeout",
                                          {.min = std::chrono::milliseconds(1),
                                           .max = kMaxTime,
                                           .help = "Without progress of a request body."}),
    option<&Options::client_write_timeout>("client-write-timeout",
                                           {.min = std::chrono::milliseconds(1),
                                            .max = kMaxTime,
                                            .help = "Without progress of a response to the client."}),
    option<&Options::tunnel_timeout>("tunnel-timeout",
                                     {.min = std::chrono::milliseconds(1),
                                      .max = std::chrono::hours(24 * 30),
                                      .help = "A tunnel without a byte in either direction."}),
    option<&Options::client_min_rate>(
        "client-min-rate",
        {.max = mib(1024), .help = "Bytes a second; a slower reader or uploader is cut. 0: off."}),
    option<&Options::client_min_rate_window>(
        "client-min-rate-window",
        {.min = std::chrono::milliseconds(10),
         .max = kMaxTime,
         .help = "Over how long of the client's own time client-min-rate is judged."}),
    option<&Options::max_header_bytes>("max-header-bytes",
                                       {.min = kib(1), .max = mib(1), .help = "Request head; over it 431."}),
    option<&Options::max_body_bytes>(
        "max-body-bytes", {.max = ByteSize{std::uint64_t{1} << 40}, .help = "Request body; over it 413."}),
    option<&Options::abort_on_client_fin>(
        "abort-on-client-fin",
        {.help = "A client that shuts its sending side before its response begins counts as gone."}),
    option<&Options::trusted_proxies>(
        "trusted-proxies",
        {.unit = "addresses",
         .help = "Peers whose X-Forwarded-* fields and PROXY headers are believed: addresses, networks."}),
    option<&Options::accept_proxy_protocol>(
        "accept-proxy-protocol",
        {.help = "listen and tls-listen take only peers in trusted-proxies, and a PROXY header first."}),
    option<&Options::socket_read_buffer_bytes>(
        "socket-read-buffer-bytes",
        {.max = mib(64), .apply = Apply::Restart, .help = "Of every connection; 0: tuned by the kernel."}),
    option<&Options::socket_write_buffer_bytes>(
        "socket-write-buffer-bytes",
        {.max = mib(64), .apply = Apply::Restart, .help = "Of every connection; 0: tuned by the kernel."}),
    option<&Options::client_feed_write_buffer_bytes>(
        "client-feed-write-buffer-bytes",
        {.max = mib(64), .help = "Socket write buffer of a client from its first feed on; 0: not set."}),

    // Stopping
    option<&Options::drain_notice>(
        "drain-notice",
        {.max = kMaxTime, .help = "After SIGTERM: /lb/health says 503, requests are still taken."}),
    option<&Options::drain_timeout>(
        "drain-timeout", {.max = kMaxTime, .help = "After the notice: how long running requests may take."}),

    option<&Options::tunnel_drain_timeout>(
        "tunnel-drain-timeout",
        {.max = kMaxTime,
         .help = "After the drain: tunnels are closed one by one over this time; 0: at once."}),

    // The balancer's own memory
    option<&Options::lb_max_memory>(
        "lb-max-memory",
        {.min = 1,
         .max = 100,
         .unit = "percent",
         .help = "Our own unreclaimable memory at which new requests get 503; off 5 points below."}),
    option<&Options::lb_max_socket_bytes>("lb-max-socket-bytes",
                                          {.max = mib(1024 * 1024),
                                           .help = "TCP socket memory at which new requests get 503; from "
                                                   "half of it on new sockets are small. 0: off."}),
    option<&Options::cgroup_root>(
        "cgroup-root",
        {.unit = "folder", .apply = Apply::Restart, .help = "Where the cgroup file systems are."}),

    // Logging
    option<&Options::access_log>("access-log",
                                 {.unit = "file",
                                  .apply = Apply::Restart,
                                  .help = "A line for each request; -: standard output, or off."}),
    option<&Options::access_log_format>("access-log-format",
                                        {.choices = kAccessFormats,
                                         .apply = Apply::Restart,
                                         .help = "Lines as nginx and Apache write them, or JSON lines."}),
    option<&Options::access_log_private_paths>(
        "access-log-private-paths", {.unit = "paths", .help = "The query of these paths is not logged."}),
    option<&Options::log_level>("log-level", {.choices = kLogLevels, .help = "Least level that is logged."}),
    option<&Options::log_format>(
        "log-format",
        {.choices = kLogFormats, .apply = Apply::Restart, .help = "Lines of key=value, or JSON lines."}),
};

Error located(std::string_view place, std::string_view text) {
  return Error{place.empty() ? std::string(text) : fmt::format("{}: {}", place, text)};
}

// `http://host[:port][/]` or `unix:/path` to an address text. `host:port` alone is taken too.
Result<std::string> address_text_of(std::string_view url) {
  if (url.empty()) return Error{"a backend needs a url, for example url = \"http://127.0.0.1:6001\""};
  if (url.starts_with("https://")) {
    return Error{fmt::format(
        "url \"{}\": https to backends is not supported; use http:// on a network you trust", url)};
  }
  if (url.starts_with("unix:")) return std::string(url);
  std::string_view rest = url;
  if (rest.starts_with("http://")) {
    rest.remove_prefix(7);
  } else if (rest.find("://") != std::string_view::npos) {
    return Error{fmt::format("url \"{}\": only http:// and unix:/path are known", url)};
  }
  if (rest.ends_with('/')) rest.remove_suffix(1);
  if (rest.find_first_of("/?#@ ") != std::string_view::npos) {
    return Error{
        fmt::format("url \"{}\": give scheme, host and port only, such as http://127.0.0.1:6001", url)};
  }
  const std::size_t bracket = rest.rfind(']');
  const std::size_t colon = rest.rfind(':');
  const bool has_port =
      colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket);
  if (rest.empty() || (has_port && colon == 0)) {
    return Error{fmt::format("url \"{}\": a host is missing", url)};
  }
  return has_port ? std::string(rest) : fmt::format("{}:80", rest);
}

Result<std::vector<BackendOption>> read_backends_file(const std::string& path) {
  const std::ifstream file(path, std::ios::binary);
  if (!file) return Error{fmt::format("backends-file {}: can't be read", path)};
  std::ostringstream text;
  text << file.rdbuf();
  const simdjson::padded_string padded(text.str());

  const auto wrong = [&](std::string_view what) { return Error{fmt::format("{}: {}", path, what)}; };
  simdjson::dom::parser parser;
  simdjson::dom::array rows;
  if (const auto error = parser.parse(padded).get(rows); error != simdjson::SUCCESS) {
    return wrong(fmt::format("expected a JSON array of {{\"name\",\"url\",\"weight\"}}: {}",
                             simdjson::error_message(error)));
  }
  std::vector<BackendOption> out;
  for (const simdjson::dom::element row : rows) {
    BackendOption backend;
    backend.place = fmt::format("{}: entry {}", path, out.size() + 1);
    simdjson::dom::object object;
    if (row.get(object) != simdjson::SUCCESS) return located(backend.place, "expected an object");
    for (const auto& [key, value] : object) {
      std::string_view string;
      std::int64_t number = 0;
      if ((key == "name" || key == "id") && value.get(string) == simdjson::SUCCESS) {
        backend.id = std::string(string);
      } else if (key == "url" && value.get(string) == simdjson::SUCCESS) {
        backend.url = std::string(string);
      } else if (key == "wss" && value.get(string) == simdjson::SUCCESS) {
        backend.wss = std::string(string);
      } else if (key == "weight" && value.get(number) == simdjson::SUCCESS && number >= 0 &&
                 number <= 65535) {
        backend.weight = number;
      } else {
        return located(backend.place,
                       fmt::format("\"{}\": expected name, url or wss (text), or weight (0 to 65535)", key));
      }
    }
    out.push_back(std::move(backend));
  }
  return out;
}

// Leaves the backends of the one source that was given in options.backends.
Result<void> take_backends(const LoadedOptions& loaded, Options& options) {
  const int sources = (options.backends.empty() ? 0 : 1) + (options.backend_urls.empty() ? 0 : 1) +
                      (options.backends_file.empty() ? 0 : 1);
  if (sources == 0) {
    if (options.autoscale.on()) return {};
    return Error{
        "no backends: give [[backend]] rows in the file, --backends URL,URL or --backends-file FILE"};
  }
  if (sources > 1) {
    const std::string_view name = options.backend_urls.empty() ? "backends-file" : "backends";
    return loaded.at(name,
                     "backends are given twice; use only one of [[backend]], backends and backends-file");
  }
  if (!options.backend_urls.empty()) {
    for (const std::string& url : options.backend_urls) {
      options.backends.emplace_back();
      options.backends.back().url = url;
      options.backends.back().place = loaded.place("backends");
    }
    options.backend_urls.clear();
  } else if (!options.backends_file.empty()) {
    auto read = read_backends_file(options.backends_file);
    if (!read) return loaded.at("backends-file", read.error().text);
    if (read->empty())
      return loaded.at("backends-file", fmt::format("{}: the array is empty", options.backends_file));
    options.backends = std::move(*read);
    options.backends_file.clear();
  }
  return {};
}

Result<void> finish_backend(BackendOption& backend) {
  const auto text = address_text_of(backend.url);
  if (!text) return located(backend.place, text.error().text);
  if (backend.id.empty()) backend.id = *text;
  if (backend.id.size() > 128) return located(backend.place, "id: at most 128 characters");
  // Ids go into header fields and paths.
  for (const char c : backend.id) {
    if (c <= ' ' || c >= 0x7f || c == '"' || c == '\\') {
      return located(
          backend.place,
          fmt::format("id \"{}\": printable ASCII without spaces, quotes and backslashes", backend.id));
    }
  }
  auto address = Address::parse(*text);
  if (!address)
    return located(backend.place, fmt::format("url \"{}\": {}", backend.url, address.error().text));
  if (!address->is_unix() && address->port() == 0) {
    return located(backend.place, fmt::format("url \"{}\": port 0 can't be connected to", backend.url));
  }
  backend.address = *address;
  return {};
}

Result<void> check_path(const LoadedOptions& loaded, std::string_view name, std::string_view path) {
  for (const char c : path) {
    if (c <= ' ' || c == 0x7f || c == '#')
      return loaded.at(name, fmt::format("\"{}\" can't be in a request", path));
  }
  if (!path.starts_with('/')) return loaded.at(name, fmt::format("\"{}\": a path begins with /", path));
  return {};
}

// accept-proxy-protocol without anybody who may send a header would serve nobody.
Result<void> finish_trusted_proxies(const LoadedOptions& loaded, Options& options) {
  for (std::string& proxy : options.trusted_proxies) {
    const auto network = Network::parse(proxy);
    if (!network) return loaded.at("trusted-proxies", network.error().text);
    proxy = network->to_string();
    options.trusted_networks.add(*network);
  }
  if (options.accept_proxy_protocol && options.trusted_networks.empty()) {
    return loaded.at("accept-proxy-protocol",
                     "accept-proxy-protocol needs trusted-proxies: who may say whom it speaks for");
  }
  return {};
}

// tls-listen, tls-cert and tls-key stand and fall together. What is in the files: tls_certificates.h.
Result<void> check_tls(const LoadedOptions& loaded, const Options& options) {
  const std::pair<std::string_view, const std::string*> files[] = {{"tls-cert", &options.tls_cert},
                                                                   {"tls-key", &options.tls_key}};
  for (const auto& [name, file] : files) {
    if (options.tls_listen.empty() && !file->empty()) {
      return loaded.at(name, fmt::format("{} is of no use without tls-listen", name));
    }
    if (!options.tls_listen.empty() && file->empty()) {
      return loaded.at("tls-listen", fmt::format("tls-listen needs {}: give the path of a PEM file", name));
    }
  }
  return {};
}

}  // namespace

const OptionTable kOptionTable = {
    .program = "lb",
    .intro =
        "The dlb load balancer: HTTP/1.1 in front of several backends, by score of CPU, requests in flight "
        "and latency.",
    .environment_prefix = "LB_",
    .rows = kRows,
    .apply = Apply::Live,
};

Result<void> finish_options(const LoadedOptions& loaded, Options& options) {
  if (auto finished = finish_autoscale_options(loaded, options); !finished) return finished;
  if (auto taken = take_backends(loaded, options); !taken) return taken;
  for (BackendOption& backend : options.backends) {
    if (auto finished = finish_backend(backend); !finished) return finished;
  }
  for (std::size_t i = 0; i < options.backends.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const BackendOption& here = options.backends[i];
      if (here.id == options.backends[j].id) {
        return located(here.place,
                       fmt::format("two backends are called \"{}\"; give each an id of its own", here.id));
      }
    }
  }

  if (auto checked = check_autoscale_backends(loaded, options); !checked) return checked;
  if (auto finished = finish_tunnel_options(loaded, options); !finished) return finished;
  if (auto finished = finish_admin_options(loaded, options); !finished) return finished;

  const auto policy = policy_from_name(options.policy);
  if (!policy) return loaded.at("policy", fmt::format("\"{}\" is no policy", options.policy));
  options.policy_kind = *policy;
  options.health_method_kind = options.health_method == "TCP"    ? HealthMethod::Tcp
                               : options.health_method == "HEAD" ? HealthMethod::Head
                                                                 : HealthMethod::Get;
  if (auto tls = check_tls(loaded, options); !tls) return tls;
  if (auto proxies = finish_trusted_proxies(loaded, options); !proxies) return proxies;
  if (auto checked = check_path(loaded, "health-path", options.health_path); !checked) return checked;
  if (!options.stats_path.empty()) {
    if (auto checked = check_path(loaded, "stats-path", options.stats_path); !checked) return checked;
  }
  const std::pair<std::string_view, const std::vector<std::string>*> lists[] = {
      {"feed-paths", &options.feed_paths},
      {"deny-paths", &options.deny_paths},
      {"no-replay-paths", &options.no_replay_paths},
      {"retry-keyed-paths", &options.retry_keyed_paths},
  };
  for (const auto& [name, paths] : lists) {
    for (const std::string& path : *paths) {
      if (auto checked = check_path(loaded, name, path); !checked) return checked;
    }
  }
  return {};
}

}  // namespace dlb::lb
