// chat_fanout: one publisher and many subscribers of the chat, for fanout.py. All sessions are registered and
// get every message; each checks that sequences follow one another. Messages are signed ahead.
//
//   chat_fanout SUBSCRIBERS MESSAGES RATE BYTES URL[,URL…]
//
// The publisher is at the first URL, subscribers are spread over the rest (over the first, when there is
// one). Prints `ready` when all are registered, and publishes when a line comes on the standard input: RATE
// messages a second, each at its planned time. Then one line:
//
//   deliveries N missing M seconds S cpu C ack A50 A99 delivery D50 D99 after_ack B50 B99
//
// Times in µs: from the planned time to the acknowledgement and to each delivery; from the acknowledgement to
// each delivery behind it (0 for one before it). cpu: this process's seconds. Exit code 1 when a session is
// lost, 2 for bad usage.
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/clock.h"
#include "common/event_loop.h"
#include "common/histogram.h"
#include "common/process_stats.h"
#include "common/rsa_pss.h"
#include "common/timer_heap.h"
#include "common/tls_context.h"
#include "loadgen/chat_protocol.h"
#include "loadgen/ws_client.h"

namespace dlb::loadgen {
namespace {

[[noreturn]] void fail(const std::string& what, int code = 1) {
  std::fprintf(stderr, "chat_fanout: %s\n", what.c_str());
  std::exit(code);
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S+00:00", &parts);
  return text;
}

double cpu_seconds() {
  const ProcessStats stats = read_process_stats();
  return stats.user_cpu_seconds + stats.system_cpu_seconds;
}

// The number behind `key`; -1: none. Members of our own server's frames, whose order is known.
std::int64_t number_behind(std::string_view text, std::string_view key) {
  const std::size_t at = text.find(key);
  if (at == std::string_view::npos) return -1;
  std::int64_t value = -1;
  std::from_chars(text.data() + at + key.size(), text.data() + text.size(), value);
  return value;
}

// Of this run alone: names and ids of an earlier one stay in the store.
const std::string& run_name() {
  static const std::string name = "fanout-" + std::to_string(::getpid()) + "-";
  return name;
}

class Session;

struct Plan {
  std::size_t subscribers = 0;
  std::size_t messages = 0;
  std::int64_t rate = 0;
  std::size_t bytes = 0;
  std::vector<WsUrl> urls;
};

// What all sessions share: the plan, the times of each message, and the figures.
class Run final : public HeapTimerHandler {
 public:
  Run(EventLoop& loop, const Plan& plan, const RsaPrivateKey& key);

  void execute();
  void registered();
  void acknowledged(std::size_t message, std::int64_t sequence);
  void delivered(std::size_t message);
  void on_heap_timer(HeapTimer& timer) override;

  const RsaPrivateKey& key() const { return key_; }

 private:
  struct Published {
    std::string request;
    TimePoint planned{};
    TimePoint acked{};
    std::vector<TimePoint> before_ack;
  };
  void connect_some();
  bool done() const { return acked_ == plan_.messages && deliveries_ == plan_.messages * plan_.subscribers; }

  static constexpr std::size_t kConnectingAtOnce = 64;

  EventLoop& loop_;
  const Plan& plan_;
  const RsaPrivateKey& key_;
  std::optional<TlsContext> tls_;
  WsClientTimers session_timers_;
  TimerHeap timers_;
  HeapTimer publish_;
  HeapTimer give_up_;
  std::deque<std::unique_ptr<Session>> sessions_;  // [0] publishes
  std::vector<Published> published_;
  std::size_t registered_ = 0;
  std::size_t sent_ = 0;
  std::size_t acked_ = 0;
  std::uint64_t deliveries_ = 0;
  bool over_ = false;
  TimePoint last_{};
  Histogram ack_, delivery_, after_ack_;
};

class Session final : public WsClientUser {
 public:
  Session(EventLoop& loop, WsClientTimers& timers, const TlsContext* tls, Run& run, std::string name,
          bool counts)
      : client_(loop, timers, tls, *this), run_(run), name_(std::move(name)), counts_(counts) {}

  void open(const WsUrl& url) {
    if (const auto opened = client_.open(url); !opened) fail(opened.error().text);
  }
  void send(std::string_view text) { client_.send_text(text); }

  void on_ws_open() override { client_.send_text(register_request(run_.key(), name_, utc_now(), -1)); }
  void on_ws_end(const WsClientEnd& end) override { fail(name_ + ": " + end.why); }

  void on_ws_text(std::string_view text) override {
    if (text.starts_with(R"({"type":"message")")) {
      const std::int64_t sequence = number_behind(text, R"("sequence":)");
      if (last_ >= 0 && sequence != last_ + 1) fail(name_ + ": a gap behind " + std::to_string(last_));
      last_ = sequence;
      const std::int64_t message = number_behind(text, R"("message-id":")" + run_name());
      if (message < 0) fail(name_ + ": somebody else writes here");
      if (counts_) run_.delivered(static_cast<std::size_t>(message));
    } else if (text.starts_with(R"({"type":"ack")")) {
      run_.acknowledged(static_cast<std::size_t>(number_behind(text, R"("message-id":")" + run_name())),
                        number_behind(text, R"("sequence":)"));
    } else if (text.starts_with(R"({"type":"registered")")) {
      run_.registered();
    } else if (text.starts_with(R"({"type":"error")")) {
      fail(name_ + ": " + std::string(text));
    }
  }

 private:
  WsClient client_;
  Run& run_;
  std::string name_;
  bool counts_;
  std::int64_t last_ = -1;
};

Run::Run(EventLoop& loop, const Plan& plan, const RsaPrivateKey& key)
    : loop_(loop),
      plan_(plan),
      key_(key),
      session_timers_(loop),
      timers_(loop),
      publish_(timers_, *this),
      give_up_(timers_, *this) {
  if (plan.urls[0].tls) {
    auto made = TlsContext::client({false, ""});
    if (!made) fail(made.error().text);
    tls_.emplace(std::move(*made));
  }
  const std::string padding(plan.bytes, 'x');
  published_.resize(plan.messages);
  for (std::size_t i = 0; i < plan.messages; ++i) {
    published_[i].request =
        message_request(key, run_name() + "publisher", run_name() + std::to_string(i), padding);
  }
}

void Run::connect_some() {
  while (sessions_.size() <= plan_.subscribers && sessions_.size() < registered_ + kConnectingAtOnce) {
    const std::size_t i = sessions_.size();
    const std::size_t others = plan_.urls.size() - 1;
    const WsUrl& url = i == 0 || others == 0 ? plan_.urls[0] : plan_.urls[1 + i % others];
    const std::string name = run_name() + (i == 0 ? "publisher" : std::to_string(i));
    sessions_.push_back(
        std::make_unique<Session>(loop_, session_timers_, tls_ ? &*tls_ : nullptr, *this, name, i > 0));
    sessions_.back()->open(url);
  }
}

void Run::registered() {
  if (++registered_ <= plan_.subscribers) return connect_some();
  std::printf("ready\n");
  std::fflush(stdout);
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) == 1 && byte != '\n') {
  }
  const TimePoint now = monotonic_now();
  for (std::size_t i = 0; i < published_.size(); ++i) {
    published_[i].planned =
        now + std::chrono::nanoseconds(1'000'000'000 * static_cast<std::int64_t>(i) / plan_.rate);
  }
  publish_.arm_at(now);
  give_up_.arm_at(published_.back().planned + std::chrono::seconds(20));
}

void Run::on_heap_timer(HeapTimer& timer) {
  if (&timer == &give_up_) {
    over_ = true;
    return;
  }
  const TimePoint now = monotonic_now();
  while (sent_ < published_.size() && published_[sent_].planned <= now) {
    sessions_[0]->send(published_[sent_].request);
    ++sent_;
  }
  if (sent_ < published_.size()) publish_.arm_at(published_[sent_].planned);
}

namespace {
std::uint64_t micros(Duration time) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, time.count() / 1000));
}
}  // namespace

void Run::acknowledged(std::size_t message, std::int64_t) {
  Published& which = published_.at(message);
  which.acked = last_ = monotonic_now();
  ++acked_;
  ack_.record(micros(which.acked - which.planned));
  if (!which.before_ack.empty()) after_ack_.record_n(0, which.before_ack.size());
  which.before_ack = {};
  over_ = over_ || done();
}

void Run::delivered(std::size_t message) {
  Published& which = published_.at(message);
  last_ = monotonic_now();
  ++deliveries_;
  delivery_.record(micros(last_ - which.planned));
  if (which.acked == TimePoint{}) {
    which.before_ack.push_back(last_);
  } else {
    after_ack_.record(micros(last_ - which.acked));
  }
  over_ = over_ || done();
}

void Run::execute() {
  connect_some();
  double cpu = 0;
  while (!over_) {
    if (cpu == 0 && sent_ > 0) cpu = cpu_seconds();
    loop_.run_once(std::chrono::seconds(1));
  }
  const auto of = [](const Histogram& times, double percent) {
    return static_cast<unsigned long long>(times.percentile(percent));
  };
  std::printf(
      "deliveries %llu missing %llu seconds %.3f cpu %.3f ack %llu %llu delivery %llu %llu after_ack %llu "
      "%llu\n",
      static_cast<unsigned long long>(deliveries_),
      static_cast<unsigned long long>(plan_.messages * plan_.subscribers - deliveries_),
      static_cast<double>((last_ - published_[0].planned).count()) / 1e9, cpu_seconds() - cpu, of(ack_, 50),
      of(ack_, 99), of(delivery_, 50), of(delivery_, 99), of(after_ack_, 50), of(after_ack_, 99));
  std::fflush(stdout);
  std::_Exit(0);  // the sessions go as they are
}

int run(int argc, char** argv) {
  if (argc != 6) fail("SUBSCRIBERS MESSAGES RATE BYTES URL[,URL…]", 2);
  Plan plan;
  plan.subscribers = static_cast<std::size_t>(std::atoll(argv[1]));
  plan.messages = static_cast<std::size_t>(std::atoll(argv[2]));
  plan.rate = std::atoll(argv[3]);
  plan.bytes = static_cast<std::size_t>(std::atoll(argv[4]));
  if (plan.subscribers < 1 || plan.messages < 1 || plan.rate < 1 || plan.bytes < 1)
    fail("numbers above 0", 2);
  for (std::string_view urls = argv[5]; !urls.empty();) {
    const std::size_t end = std::min(urls.find(','), urls.size());
    auto url = parse_ws_url(urls.substr(0, end));
    if (!url) fail(url.error().text, 2);
    plan.urls.push_back(std::move(*url));
    urls.remove_prefix(std::min(end + 1, urls.size()));
  }
  auto key = RsaPrivateKey::generate();
  if (!key) fail(key.error().text);
  EventLoop loop;
  Run(loop, plan, *key).execute();
  return 0;
}

}  // namespace
}  // namespace dlb::loadgen

int main(int argc, char** argv) { return dlb::loadgen::run(argc, argv); }
