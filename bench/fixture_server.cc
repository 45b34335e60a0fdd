// fixture_server: a backend whose behaviour is decided from outside, for tests, benches and scaling: it tags
// what it answers with its port, serves so many requests at a time in so long a time, fails a share of them,
// hangs, or is slow while it warms up.
//
//   GET  /health           200; 503 during start-delay and after `health=down`
//   GET  /internal/stats   what the balancer polls: the share of its capacity in use as cpu_percent
//   GET  /fixture          its counters
//   POST /fixture?NAME=VALUE&…   from now on, of: service, capacity, fail-share, fail-status, slow,
//                          fail-how, health (up, down), hang (true, false)
//   anything else          waits its turn (first in, first out), takes its time, then: the port, as text
//
// With capacity 1, an exponential service time and Poisson arrivals it is an M/M/1 queue: a service begins
// when the one before it was to end, not when a timer was late for it, and `sojourn_ms` of the counters is
// from arrival to that end.
//
// With `--mode tcp` a connection gets the port as a line, then its own bytes back. One thread, one loop;
// prints `listening PORT` when it is ready. SIGTERM ends it at once: nothing of it is worth a drain.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>

#include "bench/fine_wake.h"
#include "bench/fixture_tcp.h"
#include "bench/service_time.h"
#include "common/histogram.h"
#include "common/http_server.h"
#include "common/io_result.h"
#include "common/json_writer.h"
#include "common/option.h"
#include "common/signals.h"
#include "common/socket.h"
#include "common/timer_heap.h"

namespace dlb::bench {
namespace {

struct FixtureOptions {
  std::string listen = "127.0.0.1:0";
  std::string mode = "http";
  std::string service = "fixed 0";
  std::int64_t capacity = 0;
  std::int64_t queue = 1024;
  double fail_share = 0;
  std::int64_t fail_status = 500;
  std::string fail_how = "status";
  double slow = 1;
  Duration start_delay{};
  Duration slow_start{};
  double slow_start_factor = 10;
  std::int64_t seed = 1;
};

constexpr std::string_view kModes[] = {"http", "tcp"};
constexpr std::string_view kFailures[] = {"status", "close", "reset", "short"};
constexpr OptionRow kRows[] = {
    option<&FixtureOptions::listen>("listen", {.unit = "address", .help = "Port 0: a free one."}),
    option<&FixtureOptions::mode>("mode", {.choices = kModes, .help = "tcp: the port as a line, then echo."}),
    option<&FixtureOptions::service>(
        "service", {.help = "Time a request takes: fixed, exponential, uniform, lognormal."}),
    option<&FixtureOptions::capacity>("capacity", {.max = 1e6, .help = "Requests served at a time; 0: any."}),
    option<&FixtureOptions::queue>("queue", {.max = 1e6, .help = "Requests that may wait; over it 503."}),
    option<&FixtureOptions::fail_share>("fail-share", {.max = 1, .help = "Of the requests, at once."}),
    option<&FixtureOptions::fail_status>("fail-status",
                                         {.min = 0, .max = 599, .help = "0: closes without an answer."}),
    option<&FixtureOptions::fail_how>(
        "fail-how",
        {.choices = kFailures,
         .help = "status; close, reset: without an answer; short: half of a body. GET only, but status."}),
    option<&FixtureOptions::slow>("slow", {.min = 0.001, .max = 1e6, .help = "Times the service time."}),
    option<&FixtureOptions::start_delay>("start-delay", {.help = "Unhealthy for that long at first."}),
    option<&FixtureOptions::slow_start>("slow-start", {.help = "Behind start-delay: from slow to normal."}),
    option<&FixtureOptions::slow_start_factor>(
        "slow-start-factor", {.min = 1, .max = 1000, .help = "How slow at the start of slow-start."}),
    option<&FixtureOptions::seed>("seed", {.max = 1e18, .help = "Of service times and failures."}),
};
constexpr OptionTable kTable{.program = "fixture_server",
                             .intro = "A backend that behaves as it is told.",
                             .environment_prefix = "",
                             .rows = kRows};

// What can be changed while it runs.
struct Behaviour {
  ServiceTime service;
  std::int64_t capacity = 0;
  double fail_share = 0;
  std::int64_t fail_status = 500;
  std::string fail_how = "status";
  double slow = 1;
  bool healthy = true;
  bool hangs = false;
};

template <class Number>
bool read_number(std::string_view text, Number low, Number high, Number& out) {
  Number value{};
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc{} || end != text.data() + text.size() || !(value >= low && value <= high))
    return false;
  out = value;
  return true;
}

bool read_flag(std::string_view text, std::string_view yes, std::string_view no, bool& out) {
  if (text != yes && text != no) return false;
  out = text == yes;
  return true;
}

bool change(Behaviour& behaviour, std::string_view name, std::string value) {
  if (name == "service") {
    std::ranges::replace(value, '+', ' ');
    auto parsed = ServiceTime::parse(value);
    if (!parsed) return false;
    behaviour.service = std::move(parsed.value());
    return true;
  }
  if (name == "capacity") return read_number<std::int64_t>(value, 0, 1'000'000, behaviour.capacity);
  if (name == "fail-share") return read_number(value, 0.0, 1.0, behaviour.fail_share);
  if (name == "fail-status") return read_number<std::int64_t>(value, 0, 599, behaviour.fail_status);
  if (name == "fail-how") {
    behaviour.fail_how = std::move(value);
    return std::ranges::find(kFailures, behaviour.fail_how) != std::end(kFailures);
  }
  if (name == "slow") return read_number(value, 0.001, 1e6, behaviour.slow);
  if (name == "health") return read_flag(value, "up", "down", behaviour.healthy);
  if (name == "hang") return read_flag(value, "true", "false", behaviour.hangs);
  return false;
}

class HttpFixture final : public HttpService {
 public:
  HttpFixture(EventLoop& loop, TimerHeap& timers, const FixtureOptions& options, ServiceTime service,
              Fd listener)
      : loop_(loop),
        timers_(timers),
        options_(options),
        rng_(static_cast<std::uint64_t>(options.seed)),
        began_(monotonic_now()) {
    behaviour_.service = std::move(service);
    behaviour_.capacity = options.capacity;
    behaviour_.fail_share = options.fail_share;
    behaviour_.fail_status = options.fail_status;
    behaviour_.fail_how = options.fail_how;
    behaviour_.slow = options.slow;
    HttpServerOptions http;
    http.max_connections = 20'000;
    http.min_rate = 0;
    server_.emplace(loop, std::move(listener), *this, http);
    tag_ = std::to_string(server_->port());
  }

  std::uint16_t port() const { return server_->port(); }

  void on_request(HttpToken token, const HttpRequest& request) override {
    const std::string_view path = request.head.path;
    if (path == "/health" || path == "/healthz") return answer_health(token);
    if (path == "/internal/stats") return answer_stats(token);
    if (path == "/fixture") {
      return request.head.method == HttpMethod::Post ? answer_change(token, request.head.query)
                                                     : answer_counters(token);
    }
    ++requests_;
    if (rng_.unit() < behaviour_.fail_share) {
      ++failed_;
      if (behaviour_.fail_status == 0 || behaviour_.fail_how != "status") return drop(token);
      return respond(token, static_cast<int>(behaviour_.fail_status));
    }
    if (behaviour_.hangs) return;  // until the client leaves
    if (behaviour_.capacity == 0 || served_.size() < static_cast<std::size_t>(behaviour_.capacity)) {
      return serve({token, loop_.now()}, loop_.now());
    }
    if (waiting_.size() >= static_cast<std::size_t>(options_.queue)) {
      ++refused_;
      return respond(token, 503);
    }
    waiting_.push_back({token, loop_.now()});
  }

  void on_abandoned(HttpToken token) override {
    ++abandoned_;
    std::erase_if(waiting_, [&](const Arrival& arrival) { return arrival.token == token; });
    if (served_.erase(token) != 0) serve_next(loop_.now());
  }

 private:
  struct Arrival {
    HttpToken token;
    TimePoint when;
  };
  // One request that is being worked on.
  struct Service final : HeapTimerHandler {
    Service(HttpFixture& fixture, Arrival which)
        : owner(fixture), arrival(which), timer(fixture.timers_, *this) {}
    void on_heap_timer(HeapTimer&) override { owner.done(arrival.token); }
    HttpFixture& owner;
    Arrival arrival;
    HeapTimer timer;
  };

  double slowness() const {
    const Duration warm = loop_.now() - began_ - options_.start_delay;
    if (warm >= options_.slow_start || options_.slow_start.count() == 0) return behaviour_.slow;
    const double part = std::max(0.0, seconds(warm) / seconds(options_.slow_start));
    return behaviour_.slow * (options_.slow_start_factor + (1 - options_.slow_start_factor) * part);
  }

  void serve(Arrival arrival, TimePoint from) {
    const double drawn = static_cast<double>(behaviour_.service.draw(rng_).count()) * slowness();
    auto service = std::make_unique<Service>(*this, arrival);
    service->timer.arm_at(std::max(from, arrival.when) + Duration(static_cast<Duration::rep>(drawn)));
    served_.emplace(arrival.token, std::move(service));
    active_max_ = std::max(active_max_, served_.size());
  }

  void done(HttpToken token) {
    const auto owned = served_.extract(token);  // its timer runs: it goes at the end of this call
    const Service& service = *owned.mapped();
    const TimePoint was_to_end = service.timer.deadline();
    sojourn_us_.record(static_cast<std::uint64_t>((was_to_end - service.arrival.when).count()) / 1000);
    respond(token, 200);
    serve_next(was_to_end);
  }

  // A server has been free since `from`.
  void serve_next(TimePoint from) {
    while (!waiting_.empty() &&
           (behaviour_.capacity == 0 || served_.size() < static_cast<std::size_t>(behaviour_.capacity))) {
      const Arrival next = waiting_.front();
      waiting_.pop_front();
      serve(next, from);
    }
  }

  void respond(HttpToken token, int status) {
    const std::array<HeaderLine, 1> tag = {HeaderLine{"X-Fixture-Port", tag_}};
    server_->respond(token, status, "text/plain", tag, HttpBody::of(tag_ + "\n"));
  }

  void drop(HttpToken token) {
    // Not with a body, which is still in the server's hands.
    auto taken = server_->take_over(token);
    if (!taken) return respond(token, 500);
    if (behaviour_.fail_how == "short") {
      static constexpr std::string_view kHalf =
          "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 64\r\n\r\nhalf of what was "
          "promised, no more";
      [[maybe_unused]] const IoResult written = taken->transport.write(kHalf);  // an empty socket takes it
    }
    if (behaviour_.fail_how == "reset") set_reset_on_close(taken->transport.fd());
    taken->transport.close(loop_);
  }

  void answer_health(HttpToken token) {
    const bool up = behaviour_.healthy && loop_.now() - began_ >= options_.start_delay;
    server_->respond(token, up ? 200 : 503, HttpServer::kJson, {},
                     HttpBody::of(up ? R"({"status":"ok"})" : R"({"status":"starting"})"));
  }

  void answer_stats(HttpToken token) {
    std::string body;
    const double used = behaviour_.capacity == 0 ? 0.0
                                                 : 100.0 * static_cast<double>(served_.size()) /
                                                       static_cast<double>(behaviour_.capacity);
    JsonWriter(body).begin_object().field("cpu_percent", used, 1).end_object();
    server_->respond(token, 200, HttpServer::kJson, {}, HttpBody::of(std::move(body)));
  }

  void answer_counters(HttpToken token) {
    std::string body;
    JsonWriter json(body);
    json.begin_object().field("port", port()).field("requests", requests_).field("failed", failed_);
    json.field("refused", refused_).field("abandoned", abandoned_).field("active", served_.size());
    json.field("active_max", active_max_).field("waiting", waiting_.size());
    json.key("sojourn_ms").begin_object().field("count", sojourn_us_.count());
    json.field("mean", sojourn_us_.mean() / 1000, 3);
    for (const auto& [name, percent] : {std::pair{"p50", 50.0}, {"p90", 90.0}, {"p99", 99.0}}) {
      json.field(name, static_cast<double>(sojourn_us_.percentile(percent)) / 1000, 3);
    }
    json.end_object().end_object();
    server_->respond(token, 200, HttpServer::kJson, {}, HttpBody::of(std::move(body)));
  }

  void answer_change(HttpToken token, std::string_view query) {
    Behaviour next = behaviour_;
    while (!query.empty()) {
      const std::string_view pair = query.substr(0, query.find('&'));
      query.remove_prefix(std::min(query.size(), pair.size() + 1));
      const std::size_t equals = pair.find('=');
      if (equals == std::string_view::npos ||
          !change(next, pair.substr(0, equals), std::string(pair.substr(equals + 1)))) {
        return server_->respond_error(token, 400, "bad_change",
                                      "unknown name, or a value that it doesn't take");
      }
    }
    behaviour_ = std::move(next);
    serve_next(loop_.now());
    answer_counters(token);
  }

  EventLoop& loop_;
  TimerHeap& timers_;
  const FixtureOptions& options_;
  Behaviour behaviour_;
  Rng rng_;
  const TimePoint began_;
  std::string tag_;
  std::deque<Arrival> waiting_;
  std::unordered_map<HttpToken, std::unique_ptr<Service>> served_;
  std::size_t active_max_ = 0;
  Histogram sojourn_us_;  // of requests that were served
  std::uint64_t requests_ = 0, failed_ = 0, refused_ = 0, abandoned_ = 0;
  std::optional<HttpServer> server_;
};

int fail(const std::string& text, int code) {
  std::fprintf(stderr, "fixture_server: %s\n", text.c_str());
  return code;
}

// SIGTERM and SIGINT.
struct Stop final : SignalHandler {
  explicit Stop(EventLoop& which) : loop(which) {}
  void on_signal(int) override { loop.stop(); }
  EventLoop& loop;
};

int run(int argc, char** argv) {
  block_signals({SIGINT, SIGTERM});
  FixtureOptions options;
  const char* const no_environment[] = {nullptr};
  const auto loaded = load_options(kTable, options, argc, argv, no_environment);
  if (!loaded) return fail(loaded.error().text, 2);
  if (const auto code = finish_action(kTable, *loaded, options); code) return *code;
  auto service = ServiceTime::parse(options.service);
  if (!service) return fail(loaded->at("service", service.error().text).text, 2);
  const auto address = Address::parse(options.listen);
  if (!address) return fail(loaded->at("listen", address.error().text).text, 2);
  auto listener = listen_on(*address, 1024);
  if (!listener) return fail(loaded->at("listen", listener.error().text).text, 1);
  const std::uint16_t port = local_address(listener->get()).port();

  EventLoop loop;
  TimerHeap timers(loop);
  const FineWake fine(loop, timers);
  Stop stop(loop);
  const SignalSource signals(loop, {SIGINT, SIGTERM}, stop);
  std::optional<HttpFixture> http;
  std::optional<TcpFixture> tcp;
  if (options.mode == "tcp") {
    tcp.emplace(loop, std::move(*listener), std::to_string(port) + "\n");
  } else {
    http.emplace(loop, timers, options, std::move(*service), std::move(*listener));
  }
  std::printf("listening %u\n", static_cast<unsigned>(port));
  std::fflush(stdout);
  loop.run();
  return 0;
}

}  // namespace
}  // namespace dlb::bench

int main(int argc, char** argv) { return dlb::bench::run(argc, argv); }
