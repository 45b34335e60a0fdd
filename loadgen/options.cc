#include "loadgen/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "loadgen/plan.h"
#include "loadgen/report_parts.h"
#include "loadgen/signed_messages.h"
#include "loadgen/traffic_options.h"
#include "loadgen/wss_options.h"

namespace dlb::loadgen {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

constexpr std::string_view kModes[] = {"reuse", "fresh-stage", "fresh-user", "no-keepalive", "auto"};
constexpr std::string_view kArrivals[] = {"even", "poisson"};
constexpr std::int64_t kDefaultRequests = 10'000;
constexpr double kMaxOperations = 1e9;
constexpr double kLeastRate = 0.001;
constexpr std::int64_t kMaxChatUsers = 20'000;
constexpr double kChatRate = 10;
constexpr Duration kChatDuration = std::chrono::seconds(10);
constexpr double kProfileFeedPercent = 5;
constexpr std::string_view kOfTheProfile[] = {"users", "duration", "rate", "warmup", "cooldown"};
constexpr std::string_view kNotOfChat[] = {"warmup",
                                           "feed-percent",
                                           "subscribers",
                                           "interval-min",
                                           "interval-max",
                                           "connection-mode",
                                           "response-read-delay",
                                           "stage-issue-timeout",
                                           "cooldown",
                                           "held-new-connections",
                                           "held-new-stage",
                                           "held-new-age",
                                           "source-addresses",
                                           "slow-reader-percent",
                                           "slow-reader-rate",
                                           "duplicate-percent",
                                           "requests-per-connection",
                                           "queue-max",
                                           "ramp-up"};
constexpr std::string_view kAltersProfile[] = {
    "feed-percent",         "message-min",       "message-max",
    "interval-min",         "interval-max",      "connection-mode",
    "response-read-delay",  "duplicate-percent", "requests-per-connection",
    "slow-reader-percent",  "ramp-up",           "request-timeout",
    "held-new-connections", "source-addresses",  "subscribers"};

constexpr OptionRow kRows[] = {
    option<&Options::url>(
        "url", {.unit = "urls",
                .help = "Base URL of what is loaded, http:// or https://HOST[:PORT][/PATH]; users are spread "
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
    option<&Options::cooldown>("cooldown",
                               {.max = hours(24),
                                .help = "The load goes on for this time behind the last operation or the "
                                        "duration; not counted, but its messages are verified."}),
    option<&Options::stage_issue_timeout>(
        "stage-issue-timeout",
        {.max = hours(24),
         .help = "A stage issues for this time at most; what it has not issued by then "
                 "never is. 0: no limit, or the profile's."}),
    option<&Options::stages>(
        "stages", {.unit = "stages",
                   .help = "Several stages one after the other, such as users=100 duration=10s; users=200 "
                           "rate=500: see below. What one doesn't name is as the options say."}),
    option<&Options::ramp_up>(
        "ramp-up", {.max = hours(24),
                    .help = "Closed model: the users of a stage begin at even distances within this time."}),
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
    option<&Options::duplicate_percent>(
        "duplicate-percent",
        {.max = 100,
         .unit = "percent",
         .help = "Operations that post once more what the same user posted before, byte for byte."}),
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
    option<&Options::requests_per_connection>(
        "requests-per-connection",
        {.max = 1e9, .help = "A connection is closed after so many and another one opened; 0: no limit."}),
    option<&Options::source_addresses>(
        "source-addresses",
        {.unit = "addresses",
         .help =
             "Local addresses to come from, such as 127.1.0.0/24 or 127.0.0.2-127.0.0.9, several by commas; "
             "user u has the u-th, going round. Empty: the system's choice."}),
    option<&Options::ca>(
        "ca", {.unit = "path", .help = "https, wss: PEM certificates to believe instead of the system's."}),
    option<&Options::insecure>("insecure", {.help = "https, wss: believe any certificate."}),
    option<&Options::response_read_delay>(
        "response-read-delay",
        {.max = hours(1), .help = "Wait this long after a request was sent before reading its response."}),
    option<&Options::slow_reader_percent>(
        "slow-reader-percent",
        {.max = 100,
         .unit = "percent",
         .help = "Users who read no faster than slow-reader-rate, each on a connection of its own; their "
                 "latencies are kept apart."}),
    option<&Options::slow_reader_rate>(
        "slow-reader-rate",
        {.min = 1000, .max = 1e9, .unit = "bytes a second", .help = "Of each slow reader."}),
    option<&Options::held_new_connections>("held-new-connections",
                                           {.max = 100'000,
                                            .help = "Connections beside the users' that say nothing until "
                                                    "they are held-new-age old, and then post one "
                                                    "message; counted apart."}),
    option<&Options::held_new_stage>(
        "held-new-stage",
        {.unit = "stage",
         .help = "They are opened when this one begins: its number, from 1, or name; empty: the last."}),
    option<&Options::held_new_age>("held-new-age", {.max = hours(24), .help = "How long they are silent."}),
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
    option<&Options::verify_timeout>(
        "verify-timeout",
        {.max = hours(24),
         .help = "A feed that has not ended after this time is given up: not checked. 0: no limit."}),
    option<&Options::max_errors>(
        "max-errors", {.unit = "N or P%", .help = "Failed operations that still let the run pass."}),
    option<&Options::fail>("fail", {.unit = "thresholds",
                                    .help = "What the run must have reached, such as p99(post)<50ms, "
                                            "errors<0.1%, lost==0: see below. One on errors takes the "
                                            "place of max-errors, one on lost, duplicated or altered "
                                            "switches verify-feed on."}),
    wss_url_row<Options>("The chat's WebSockets, wss://HOST[:PORT][/PATH], several by commas: chat users are "
                         "spread over them."),
    option<&Options::subscribers>(
        "subscribers",
        {.min = 0,
         .max = 20'000,
         .help = "Chat users beside an HTTP load, who must get each of its messages once and in order."}),
    option<&Options::publishers>(
        "publishers",
        {.min = 0,
         .max = 20'000,
         .help = "Profile chat: so many of the users publish, each its share of the rate; 0: one "
                 "for each 10 messages a second."}),
    option<&Options::chat_key>(
        "chat-key",
        {.unit = "path",
         .help = "The chat users' key, PKCS#8 in PEM, made on first use: they keep their names, and "
                 "with the seed their messages. Empty: a new key, so new names."}),
    option<&Options::reconnect_percent>(
        "reconnect-percent",
        {.max = 100,
         .unit = "percent",
         .help = "So many of the chat users that don't publish drop once during the run, and resume."}),
    option<&Options::settle_timeout>(
        "settle-timeout",
        {.max = hours(1), .help = "At the end chat users have this time to get what they have not got yet."}),
    option<&Options::metrics_interval>("metrics-interval",
                                       {.min = milliseconds(50),
                                        .max = hours(1),
                                        .help = "Progress is shown, and balancer and backends are asked how "
                                                "they are, this often."}),
    option<&Options::lb_url>("lb-url",
                             {.unit = "url",
                              .help = "Where the balancer answers /lb/status and /lb/metrics; "
                                      "empty: at the first url, if profile chat has one; none: nobody is "
                                      "asked."}),
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

Result<void> finish_subscribers(const LoadedOptions& loaded, const Options& options) {
  if (options.insecure && !options.ca.empty()) return loaded.at("insecure", "makes --ca meaningless");
  if (options.subscribers > 0 && options.wss_url.empty()) {
    return loaded.at("subscribers", "wss-url must say where");
  }
  if (options.subscribers == 0 && !options.wss_url.empty()) {
    return loaded.at("wss-url", "subscribers must say how many, or -profile chat");
  }
  return {};
}

// The chat's users are the load: one stage in the open model.
Result<void> finish_chat_profile(const LoadedOptions& loaded, Options& options) {
  options.chat = true;
  options.sample_first_url = loaded.given("url");
  if (options.wss_url.empty()) return loaded.at("wss-url", "profile chat needs to know where");
  if (options.insecure && !options.ca.empty()) return loaded.at("insecure", "makes --ca meaningless");
  Options defaults;
  for (const ChangedOption& changed : changed_options(kOptionTable, defaults, options)) {
    if (std::ranges::find(kNotOfChat, changed.name) != std::end(kNotOfChat)) {
      return loaded.at(changed.name, "has no meaning with profile chat");
    }
  }
  if (options.users > kMaxChatUsers) return loaded.at("users", "of the chat are at most 20000");
  if (options.publishers > options.users) return loaded.at("publishers", "are users: more than there are");
  if (options.rate == 0) options.rate = kChatRate;
  if (options.requests == 0 && options.duration == Duration::zero()) options.duration = kChatDuration;
  double intended = static_cast<double>(options.requests);
  if (options.duration > Duration::zero()) {  // what comes first ends it
    const double due = std::ceil(options.rate * seconds(options.duration));
    intended = options.requests > 0 ? std::min(intended, due) : due;
  }
  if (intended > static_cast<double>(SignedMessages::kMax)) {
    return loaded.at("rate", "is more than can be signed ahead: at most 400000 messages in all");
  }
  return {};
}

// A profile is a benchmark with a name: what makes it what it is stays as it is, or is noted.
Result<void> finish_profile(const LoadedOptions& loaded, Options& options) {
  if (options.profile.empty()) return finish_subscribers(loaded, options);
  if (options.profile == kChatProfile) return finish_chat_profile(loaded, options);
  if (!is_profile(options.profile)) {
    return loaded.at("profile", "is one of " + joined_by_commas(profile_names()));
  }
  // By value, not by what was given: the whole table, printed and fed back, gives everything.
  Options as_defined;
  if (loaded.given("feed-percent")) as_defined.feed_percent = kProfileFeedPercent;
  for (const ChangedOption& changed : changed_options(kOptionTable, as_defined, options)) {
    if (std::ranges::find(kOfTheProfile, changed.name) != std::end(kOfTheProfile)) {
      return loaded.at(changed.name, "is the profile's: leave one of the two out");
    }
    if (std::ranges::find(kAltersProfile, changed.name) != std::end(kAltersProfile)) {
      options.payload_altered = true;
    }
  }
  if (!loaded.given("feed-percent")) options.feed_percent = kProfileFeedPercent;
  if (!loaded.given("verify-feed")) options.verify_feed = true;
  return finish_subscribers(loaded, options);
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
    if (threshold.intended && !options.any_rate()) {
      return loaded.at("fail", threshold.text + ": there are intended times only with a rate");
    }
    if (threshold.quantity == Quantity::Errors && !loaded.given("max-errors")) options.max_errors = "100%";
  }
  if (need_verification(options.thresholds, options.chat)) options.verify_feed = true;
  return {};
}

// The chat's users say nothing to the default url, so nobody has named a feed that could be read.
Result<void> finish_chat_feed(const LoadedOptions& loaded, const Options& options) {
  if (!options.chat || !options.verify_feed || loaded.given("url")) return {};
  const std::string_view asked = !options.verify_urls.empty()  ? "verify-urls"
                                 : loaded.given("verify-feed") ? "verify-feed"
                                                               : "fail";
  return loaded.at(asked, "reads a feed, and with profile chat -url must say where one is");
}

}  // namespace

Result<void> finish_options(const LoadedOptions& loaded, Options& options) {
  if (options.url.empty()) return loaded.at("url", "at least one url is needed");
  if (auto finished = finish_profile(loaded, options); !finished) return finished;
  if (options.requests == 0 && options.duration == Duration::zero() && options.profile.empty() &&
      options.stages.empty()) {
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
  if (auto finished = finish_traffic(loaded, options); !finished) return finished;
  if (auto finished = finish_thresholds(loaded, options); !finished) return finished;
  if (auto finished = finish_chat_feed(loaded, options); !finished) return finished;
  auto limit = parse_error_limit(options.max_errors);
  if (!limit) return loaded.at("max-errors", limit.error().text);
  options.error_limit = *limit;
  return {};
}

bool Options::any_rate() const {
  const auto plan = plan_of(*this, 0);
  return std::ranges::any_of(plan.stages, [](const StagePlan& stage) { return stage.rate > 0; });
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
