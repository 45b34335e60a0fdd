// Options: every setting of the generator with its default, tied to names, bounds and help by one row array
// (options.cc). What is not there yet is not declared, so that it is refused instead of ignored. Plain
// values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/clock.h"
#include "common/option.h"
#include "common/result.h"
#include "loadgen/plan.h"
#include "loadgen/source_addresses.h"
#include "loadgen/stage.h"
#include "loadgen/stage_list.h"
#include "loadgen/thresholds.h"

namespace dlb::loadgen {

// How many failed operations a run may have and still pass: a number or a share of the operations done.
struct ErrorLimit {
  double value = 0;
  bool percent = false;

  bool allows(std::uint64_t failed, std::uint64_t done) const;
};

// `3` or `0.5%`.
Result<ErrorLimit> parse_error_limit(std::string_view text);

struct Options {
  std::vector<std::string> url = {"http://127.0.0.1:8080"};  // users are spread over several evenly
  std::string profile;  // "" or one of profile_names(): its stages in place of users, rate and duration
  std::int64_t users = 100;
  // Of all users together; 0: no limit, or 10,000 when there is no duration either.
  std::int64_t requests = 0;
  Duration duration{};             // 0: until all requests are done
  Duration warmup{};               // a stage before, that isn't counted
  Duration cooldown{};             // the load goes on behind the last counted stage
  Duration stage_issue_timeout{};  // 0: none, or the profile's
  std::string stages;              // stage_list.h; "": one
  Duration ramp_up{};              // closed model: users begin within it
  std::int64_t message_min = 16;
  std::int64_t message_max = 512;
  Duration interval_min{};
  Duration interval_max{};
  double rate = 0;  // operations a second of the open model; 0: closed
  std::string arrival = "even";
  std::int64_t queue_max = 100'000;
  double feed_percent = 0;
  double duplicate_percent = 0;
  std::int64_t seed = 0;  // 0: taken from the clock, and reported
  std::string connection_mode = "auto";
  std::int64_t requests_per_connection = 0;  // 0: no limit
  std::vector<std::string> source_addresses;
  std::string ca;  // PEM file; "": the system's
  bool insecure = false;
  Duration response_read_delay{};
  double slow_reader_percent = 0;
  std::int64_t slow_reader_rate = 64 * 1024;  // bytes a second, each
  std::int64_t held_new_connections = 0;
  std::string held_new_stage;  // "": the last one
  Duration held_new_age = std::chrono::seconds(10);
  Duration request_timeout = std::chrono::seconds(10);
  bool verify_feed = false;
  std::vector<std::string> verify_urls;
  Duration verify_timeout = std::chrono::minutes(10);  // of one feed; 0: no limit
  std::string max_errors = "0";
  std::vector<std::string> fail;         // one threshold each, after finish_options()
  std::string lb_url;                    // of the balancer's own pages; empty: the first url; "none"
  std::vector<std::string> system_urls;  // NAME=URL of the backends; empty: the balancer tells
  std::vector<std::string> wss_url;      // of the chat
  std::int64_t subscribers = 0;          // beside an HTTP load
  std::int64_t publishers = 0;           // of the chat profile's users; 0: as many as the rate needs
  std::string chat_key;                  // a file; empty: a new key
  double reconnect_percent = 0;
  Duration settle_timeout = std::chrono::seconds(10);
  Duration metrics_interval = std::chrono::seconds(1);
  std::string out_dir = "results";
  std::string experiment = "run";

  // Made by finish_options().
  bool chat = false;             // the profile: users of the chat are the load
  bool sample_first_url = true;  // not where all load goes to wss-url, and nobody gave a url
  bool payload_altered = false;  // of a profile: other operations than it is defined with
  ConnectionMode mode = ConnectionMode::Reuse;
  Arrival arrival_pattern = Arrival::Even;
  ErrorLimit error_limit;
  std::vector<Threshold> thresholds;
  std::vector<StageSpec> stage_list;  // of stages
  SourceAddresses sources;
  std::string held_stage;  // with held connections: the name of the stage that they are opened in

  bool any_rate() const;  // a stage of the open model
};

// The option table of `loadgen`, for load_options(), finish_action() and the README.
extern const OptionTable kOptionTable;

// Rules that go across rows, and defaults that depend on others. The error is one line that says where and
// what.
Result<void> finish_options(const LoadedOptions& loaded, Options& options);

std::string_view connection_mode_name(ConnectionMode mode);

}  // namespace dlb::loadgen
