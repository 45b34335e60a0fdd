// Options: every setting of the balancer with its default. One row array (options.cc) ties each member to its
// name, bounds, unit and help; file, environment, command line, --help, -t, --print-config and the README
// table come from it. A setting whose feature is not there yet is not declared, so that it is refused instead
// of silently ignored.
//
// Plain values, no behaviour. Made at start and by each reload, then never changed; the data path reads it
// through its Configuration. Rows that need a restart say so; reloads change all others.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/address.h"
#include "common/clock.h"
#include "common/option.h"
#include "common/result.h"
#include "lb/network_list.h"
#include "lb/policy/policy.h"

namespace dlb::lb {

// One row of [[backend]], of --backends or of the backends file.
struct BackendOption {
  std::string id;           // unique; `host:port` of the url when not given
  std::string url;          // http://host:port, or unix:/path
  std::string wss;          // where wss-listen sends this backend's share
  std::int64_t weight = 1;  // 0: gets no new request
  Address address;          // the url, resolved by finish_options()
  Address wss_address;      // likewise
  std::string place;        // where it was given, for messages: `FILE:LINE`
};

// One row of [[tcp]]: a layer-4 listener.
struct TcpOption {
  std::string listen;
  std::string policy = "round_robin";
  std::vector<std::string> backends;  // host:port or unix:/path
  bool send_proxy_protocol = false;
  std::vector<Address> addresses;  // of `backends`, resolved by finish_options()
  std::string place;
};

// [autoscale]: instances that the balancer starts and stops itself.
struct AutoscaleOptions {
  std::string command;  // "": no autoscaling
  std::int64_t min = 1;
  std::int64_t max = 0;  // 0: as many as there are ports
  std::string ports;
  Duration up_after = std::chrono::seconds(2);
  Duration idle_after = std::chrono::seconds(60);
  Duration interval = std::chrono::seconds(1);
  Duration start_timeout = std::chrono::seconds(30);
  Duration replace_after = std::chrono::seconds(10);
  Duration stop_timeout = std::chrono::seconds(10);

  // Set by finish_options().
  std::vector<std::string> words;               // of `command`
  std::uint16_t first_port = 0, last_port = 0;  // of `ports`

  bool on() const { return !command.empty(); }
};

enum class HealthMethod : std::uint8_t { Get, Head, Tcp };

struct Options {
  // Listening
  std::string listen = ":8080";
  std::string tls_listen;  // "": no TLS
  std::string tls_cert;
  std::string tls_key;
  std::int64_t workers = 1;   // 0: one per CPU of the quota
  bool public_status = true;  // the public listener serves /lb/health, /lb/status, /lb/metrics

  std::string pid_file;  // "": none

  // Admin
  std::string admin_listen = "127.0.0.1:9180";  // "off": none
  std::string admin_token_file;
  Address admin_address;    // of `admin_listen`, set by finish_options(); empty: off
  std::string admin_token;  // likewise, of the file; empty: none is asked for

  // Backends: exactly one of the three sources, or none beside [autoscale], whose instances come behind them.
  // `backends` is [[backend]], and after finish_options() whichever it was.
  std::vector<BackendOption> backends;
  std::vector<std::string> backend_urls;  // --backends URL,URL
  std::string backends_file;              // JSON array of {"name","url","weight"?}

  AutoscaleOptions autoscale;

  // Layer 4
  std::vector<TcpOption> tcp;
  std::string wss_listen;                 // empty: off
  std::vector<std::string> wss_backends;  // --wss-backends HOST:PORT,…: of the backends, in their order
  std::int64_t wss_max_connections = 512;
  bool wss_send_proxy_protocol = false;

  // Routing
  std::string policy = "score";
  PolicyKind policy_kind = PolicyKind::Score;  // of `policy`, set by finish_options()
  double threshold = 75;                       // score, 0-100
  double max_memory = 95;                      // percent, unreclaimable
  double max_total_memory = 98;                // percent, unreclaimable
  std::int64_t max_inflight = 100;             // outstanding requests that count as 100 points
  Duration latency_target = std::chrono::milliseconds(100);
  std::int64_t backend_cap = 0;  // outstanding requests per backend, 0: no cap
  Duration backend_queue_timeout = std::chrono::seconds(10);
  std::int64_t backend_queue_max = 1024;  // waiting requests, all workers together
  std::int64_t admission_limit = 0;       // concurrent POST /message, 0: no limit
  bool panic_fallback = true;
  double max_ejected_percent = 34;                    // of the backends; 0: none is ejected
  Duration ejection_time = std::chrono::seconds(10);  // the first; the n-th is n times as long
  bool check_ends_ejection = false;

  // Health and statistics
  Duration health_interval = std::chrono::seconds(1);
  Duration stats_interval = std::chrono::milliseconds(500);
  Duration monitor_timeout = std::chrono::milliseconds(2500);
  std::int64_t failure_limit = 2;
  std::string health_method = "GET";
  HealthMethod health_method_kind = HealthMethod::Get;  // of `health_method`, set by finish_options()
  std::string health_path = "/health";
  std::string stats_path = "/internal/stats";  // "": the backends have none

  // Upstream side
  Duration connect_timeout = std::chrono::seconds(2);
  Duration backend_timeout = std::chrono::seconds(15);       // to response headers
  Duration backend_body_timeout = std::chrono::seconds(60);  // without progress of a response body
  std::int64_t proxy_max_idle = 256;
  std::int64_t proxy_max_idle_per_host = 64;
  std::int64_t proxy_max_conns_per_host = 200;
  std::int64_t proxy_max_feed_conns_per_host = 4;
  Duration proxy_idle_timeout = std::chrono::seconds(10);
  ByteSize proxy_buffer_bytes = kib(16);
  ByteSize proxy_feed_read_buffer_bytes;
  ByteSize proxy_feed_buffer_bytes;  // 0: proxy_buffer_bytes
  std::vector<std::string> feed_paths = {"/feed"};
  std::vector<std::string> deny_paths = {"/internal/"};
  std::vector<std::string> no_replay_paths = {"/message"};
  std::vector<std::string> retry_keyed_paths = {"/message"};

  // Client side
  std::int64_t client_max_connections = 2600;             // 0: no limit
  std::int64_t client_connection_burst = 0;               // more while memory is clear of its limits
  Duration client_new_timeout = std::chrono::seconds(2);  // silent that long: may be closed to make room
  Duration client_idle_timeout = std::chrono::seconds(5);
  Duration client_header_timeout = std::chrono::seconds(10);
  Duration client_body_timeout = std::chrono::seconds(30);   // without progress
  Duration client_write_timeout = std::chrono::seconds(30);  // without progress
  Duration tunnel_timeout = std::chrono::hours(1);           // without a byte in either direction
  ByteSize client_min_rate = kib(1);                         // a second, while the client owes bytes; 0: off
  Duration client_min_rate_window = std::chrono::seconds(30);
  ByteSize max_header_bytes = kib(16);
  ByteSize max_body_bytes = mib(8);
  bool abort_on_client_fin = false;          // a half-closed client that waits for its answer counts as gone
  std::vector<std::string> trusted_proxies;  // addresses and networks
  NetworkList trusted_networks;              // `trusted_proxies`, set by finish_options()
  bool accept_proxy_protocol = false;        // public listeners: a PROXY header comes first, from those
  ByteSize socket_read_buffer_bytes;         // 0: tuned by the kernel
  ByteSize socket_write_buffer_bytes;
  ByteSize client_feed_write_buffer_bytes;  // 0: socket_write_buffer_bytes

  // Stopping
  Duration drain_notice = std::chrono::seconds(1);
  Duration drain_timeout = std::chrono::seconds(5);
  Duration tunnel_drain_timeout = std::chrono::seconds(60);  // 0: cut

  // The balancer's own memory
  double lb_max_memory = 80;                // percent, unreclaimable: at it the guard sheds load
  ByteSize lb_max_socket_bytes = mib(160);  // of TCP sockets; 0: off
  std::string cgroup_root = "/sys/fs/cgroup";

  // Logging
  std::string access_log = "off";  // FILE, `-`: standard output, or off
  std::string access_log_format = "combined";
  std::vector<std::string> access_log_private_paths = {"/message"};
  std::string log_level = "info";
  std::string log_format = "text";
};

// The option table of `lb`, for load_options(), finish_action() and the README.
extern const OptionTable kOptionTable;

// What rows alone cannot check: takes the backends from the one source that was given, names those without
// id, resolves their addresses, reads policy and health method. Blocks on name lookups: start-up or control
// thread. The error is one line that says where, what and what to do.
Result<void> finish_options(const LoadedOptions& loaded, Options& options);

}  // namespace dlb::lb
