#include "loadgen/options.h"

#include <charconv>

#include "loadgen/report_parts.h"

namespace dlb::loadgen {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

constexpr std::string_view kModes[] = {"reuse", "fresh-stage", "fresh-user", "no-keepalive", "auto"};
constexpr std::string_view kArrivals[] = {"even", "poisson"};
constexpr std::int64_t kDefaultRequests = 10'000;
constexpr double kMaxOperations = 1e9;
constexpr double kLeastRate = 0.001;
constexpr double kProfileFeedPercent = 5;

constexpr OptionRow kRows[] = {
    option<&Options::url>("url",
                          {.unit = "urls",
                           .help = "Base URL of what is loaded, http://HOST[:PORT][/PATH]; users are spread "
                                   "over several, separated by commas."}),
    option<&Options::profile>(
        "profile",
        {.unit = "name",
         .help = "A benchmark with a name: stages in place of users, duration and rate; see below."}),
    option<&Options::users>("users",
                            {.min = 1, .max = 100'000, .help = "Users, each with one request at a time."}),
    option<&Options::requests>("requests",
                               {.min = 0,
                                .max = kMaxOperations,
                                .help = "Operations of all users together; 0: until the duration is "
                                        "over, or 10000 without one."}),
    option<&Options::duration>(
        "duration", {.max = hours(24 * 30), .help = "No operation begins after this time; 0: no limit."}),
    option<&Options::warmup>("warmup",
                             {.max = hours(24),
                              .help = "Load like the measured one for this time before it; not counted, "
                                      "but its messages are verified."}),
    option<&Options::stage_issue_timeout>(
        "stage-issue-timeout",
        {.max = hours(24),
         .help = "A stage issues for this time at most; what it has not issued by then "
                 "never is. 0: no limit, or the profile's."}),
    option<&Options::message_min>(
        "message-min", {.min = 1, .max = 65536, .unit = "bytes", .help = "Shortest text of a message."}),
    option<&Options::message_max>(
        "message-max",
        {.min = 1, .max = 65536, .unit = "bytes", .help = "Longest text; lengths are uniform."}),
    option<&Options::interval_min>(
        "interval-min", {.max = hours(24), .help = "Shortest pause of a user between two operations."}),
    option<&Options::interval_max>("interval-max",
                                   {.max = hours(24), .help = "Longest pause; pauses are uniform."}),
    option<&Options::rate>("rate", {.max = 1e6,
                                    .unit = "a second",
                                    .help = "Open model: operations begin at this rate, whatever the answers "
                                            "do, by the next user who is free; 0: closed model."}),
    option<&Options::arrival>("arrival", {.choices = kArrivals,
                                          .help = "Open model: intended times at equal distances, or as "
                                                  "those of many independent people."}),
    option<&Options::queue_max>("queue-max",
                                {.max = 1e7,
                                 .unit = "operations",
                                 .help = "Open model: so many wait when all users are busy; over it an "
                                         "operation is not issued."}),
    option<&Options::feed_percent>(
        "feed-percent", {.max = 100, .unit = "percent", .help = "Operations that read the whole feed."}),
    option<&Options::seed>("seed",
                           {.min = 0,
                            .max = 9007199254740992.0,
                            .help = "Same seed, same operations and bytes; 0: a new one by the clock."}),
    option<&Options::connection_mode>(
        "connection-mode",
        {.choices = kModes,
         .help =
             "reuse: idle connections are shared and kept over stages; fresh-stage: each stage begins with "
             "none; fresh-user: each user has its own; no-keepalive: one a request; auto: reuse, in a "
             "profile fresh-stage."}),
    option<&Options::response_read_delay>(
        "response-read-delay",
        {.max = hours(1), .help = "Wait this long after a request was sent before reading its response."}),
    option<&Options::request_timeout>("request-timeout",
                                      {.min = milliseconds(1),
                                       .max = hours(1),
                                       .help = "From the start of an operation to its last byte."}),
    option<&Options::verify_feed>("verify-feed",
                                  {.help = "Read the feed at the end and look for every accepted message."}),
    option<&Options::verify_urls>(
        "verify-urls", {.unit = "urls",
                        .help = "Also check the feeds of these (backends, by commas), which must be "
                                "byte-equal; switches verify-feed on."}),
    option<&Options::max_errors>(
        "max-errors", {.unit = "N or P%", .help = "Failed operations that still let the run pass."}),
    option<&Options::fail>("fail", {.unit = "thresholds",
                                    .help = "What the run must have reached, such as p99(post)<50ms, "
                                            "errors<0.1%, lost==0: see below. One on errors takes the "
                                            "place of max-errors, one on lost, duplicated or altered "
                                            "switches verify-feed on."}),
    option<&Options::metrics_interval>("metrics-interval",
                                       {.min = milliseconds(50),
                                        .max = hours(1),
                                        .help = "Progress is shown, and balancer and backends are asked how "
                                                "they are, this often."}),
    option<&Options::lb_url>("lb-url", {.unit = "url",
                                        .help = "Where the balancer answers /lb/status and /lb/metrics; "
                                                "empty: at the first url; none: nobody is asked."}),
    option<&Options::system_urls>(
        "system-urls", {.unit = "NAME=URL",
                        .help = "The backends' own urls by name; empty: what the balancer says, or "
                                "verify-urls."}),
    option<&Options::out_dir>(
        "out-dir", {.unit = "path", .help = "Where the files of a run go (see Output); empty: no files."}),
    option<&Options::experiment>("experiment", {.help = "Name of the run in files: A-Z a-z 0-9 . _ -"}),
};

bool is_name(std::string_view text) {
  if (text.empty() || text.size() > 100 || text.front() == '.' || text.front() == '-') return false;
  return text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") ==
         std::string_view::npos;
}

ConnectionMode mode_of(std::string_view name) {
  if (name == "fresh-stage") return ConnectionMode::FreshStage;
  if (name == "fresh-user") return ConnectionMode::FreshUser;
  if (name == "no-keepalive") return ConnectionMode::NoKeepAlive;
  return ConnectionMode::Reuse;
}

}  // namespace

const OptionTable kOptionTable = {
    .program = "loadgen",
    .intro = "Posts messages and reads feeds as many users do, and checks that nothing was lost or doubled.",
    .environment_prefix = "LOADGEN_",
    .rows = kRows,
};

bool ErrorLimit::allows(std::uint64_t failed, std::uint64_t done) const {
  const double limit = percent ? value / 100 * static_cast<double>(done) : value;
  return static_cast<double>(failed) <= limit;
}

Result<ErrorLimit> parse_error_limit(std::string_view text) {
  ErrorLimit limit;
  limit.percent = !text.empty() && text.back() == '%';
  if (limit.percent) text.remove_suffix(1);
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), limit.value);
  const bool good = parsed.ec == std::errc() && parsed.ptr == text.data() + text.size() && limit.value >= 0 &&
                    limit.value <= (limit.percent ? 100 : kMaxOperations);
  if (!good) return Error{"a number of failed operations (3) or a share of them (0.5%) is expected"};
  return limit;
}

namespace {

// A profile is a benchmark with a name: what makes it what it is stays as it is, or is noted.
Result<void> finish_profile(const LoadedOptions& loaded, Options& options) {
  if (options.profile.empty()) return {};
  if (!is_profile(options.profile)) {
    return loaded.at("profile", "is one of " + joined_by_commas(profile_names()));
  }
  for (const std::string_view name : {"users", "duration", "rate", "warmup"}) {
    if (loaded.given(name)) return loaded.at(name, "is the profile's: leave one of the two out");
  }
  for (const std::string_view name : {"feed-percent", "message-min", "message-max", "interval-min",
                                      "interval-max", "connection-mode", "response-read-delay"}) {
    options.payload_altered = options.payload_altered || loaded.given(name);
  }
  if (!loaded.given("feed-percent")) options.feed_percent = kProfileFeedPercent;
  if (!loaded.given("verify-feed")) options.verify_feed = true;
  return {};
}

Result<void> finish_thresholds(const LoadedOptions& loaded, Options& options) {
  std::string list;  // put together again: an option's list is cut at commas
  for (const std::string& part : options.fail) list += (list.empty() ? "" : ",") + part;
  auto thresholds = parse_thresholds(list);
  if (!thresholds) return loaded.at("fail", thresholds.error().text);
  options.thresholds = std::move(*thresholds);
  options.fail.clear();
  for (const Threshold& threshold : options.thresholds) {
    options.fail.push_back(threshold.text);
    if (threshold.intended && options.rate <= 0) {
      return loaded.at("fail", threshold.text + ": there are intended times only with a rate");
    }
    if (threshold.quantity == Quantity::Errors && !loaded.given("max-errors")) options.max_errors = "100%";
  }
  if (need_verification(options.thresholds)) options.verify_feed = true;
  return {};
}

}  // namespace

Result<void> finish_options(const LoadedOptions& loaded, Options& options) {
  if (options.url.empty()) return loaded.at("url", "at least one url is needed");
  if (auto finished = finish_profile(loaded, options); !finished) return finished;
  if (options.requests == 0 && options.duration == Duration::zero() && options.profile.empty()) {
    options.requests = kDefaultRequests;
  }
  if (!loaded.given("message-max") && options.message_max < options.message_min) {
    options.message_max = options.message_min;
  }
  if (!loaded.given("message-min") && options.message_min > options.message_max) {
    options.message_min = options.message_max;
  }
  if (options.message_min > options.message_max) return loaded.at("message-min", "is over message-max");
  if (!loaded.given("interval-max") && options.interval_max < options.interval_min) {
    options.interval_max = options.interval_min;
  }
  if (options.interval_min > options.interval_max) return loaded.at("interval-min", "is over interval-max");
  options.arrival_pattern = options.arrival == "poisson" ? Arrival::Poisson : Arrival::Even;
  if (options.rate > 0 && options.interval_max > Duration::zero()) {
    return loaded.at("interval-max", "users pause in the closed model only: with a rate, leave it out");
  }
  if (options.rate > 0 && options.rate < kLeastRate) return loaded.at("rate", "must be 0 or at least 0.001");
  if (options.response_read_delay >= options.request_timeout) {
    return loaded.at("response-read-delay", "must be under request-timeout, else every operation times out");
  }
  if (!is_name(options.experiment)) {
    return loaded.at("experiment",
                     "is used in file names: letters, digits, dot, underscore, hyphen; at most 100");
  }
  if (!options.verify_urls.empty()) options.verify_feed = true;
  options.mode = mode_of(options.connection_mode);
  if (!options.profile.empty() && options.connection_mode == "auto")
    options.mode = ConnectionMode::FreshStage;
  if (auto finished = finish_thresholds(loaded, options); !finished) return finished;
  auto limit = parse_error_limit(options.max_errors);
  if (!limit) return loaded.at("max-errors", limit.error().text);
  options.error_limit = *limit;
  return {};
}

std::string_view connection_mode_name(ConnectionMode mode) {
  switch (mode) {
    case ConnectionMode::Reuse:
      return "reuse";
    case ConnectionMode::FreshStage:
      return "fresh-stage";
    case ConnectionMode::FreshUser:
      return "fresh-user";
    case ConnectionMode::NoKeepAlive:
      break;
  }
  return "no-keepalive";
}

}  // namespace dlb::loadgen
