#include "loadgen/verifier.h"

#include <openssl/evp.h>

#include <algorithm>
#include <memory>

#include "common/check.h"
#include "common/units.h"
#include "loadgen/connection.h"
#include "loadgen/payload.h"

namespace dlb::loadgen {
namespace {

constexpr int kAttempts = 6;
constexpr Duration kFirstPause = std::chrono::milliseconds(250);  // doubled each time: 7.75 s in all
// Bodies of backends are compared after a run; a message whose answer was lost may still be on its way.
constexpr int kCompareRounds = 3;
constexpr Duration kComparePause = std::chrono::milliseconds(500);
constexpr Duration kTurn = std::chrono::milliseconds(100);

class Digest {
 public:
  Digest() : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
    DLB_CHECK(context_ != nullptr && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
  }
  void update(std::string_view bytes) {
    DLB_CHECK(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
  }
  std::string hex() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> raw{};
    unsigned length = 0;
    DLB_CHECK(EVP_DigestFinal_ex(context_.get(), raw.data(), &length) == 1);
    static constexpr char kHex[] = "0123456789abcdef";
    std::string text;
    for (unsigned i = 0; i < length; ++i) {
      text += kHex[raw[i] >> 4];
      text += kHex[raw[i] & 0xf];
    }
    return text;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

// One GET /feed into a checker and a digest.
class FeedFetch final : public ConnectionUser {
 public:
  FeedFetch(ConnectionContext& context, const Target& target, Ledger& ledger, FeedRowUser* rows)
      : request_(target.host, target.base_path, false),
        checker_(ledger, rows),
        connection_(context, *this, {}) {
    const int err = connection_.connect(target);
    if (err != 0) on_end(connection_, ExchangeEnd::ConnectFailed, err);
  }

  bool done() const { return done_; }
  CheckedFeed result(const Target& target) {
    CheckedFeed feed;
    feed.url = target.url;
    feed.error = error_;
    feed.fetched = error_.empty();
    feed.sha256 = digest_.hex();
    feed.summary = checker_.finish();
    return feed;
  }

  void on_connected(Connection& connection) override {
    connection.send(request_.get_feed(), HttpMethod::Get);
  }
  void on_head(Connection&, const ResponseHead& head) override { status_ = head.status; }
  void on_body(Connection&, std::string_view bytes) override {
    if (status_ != 200) return;
    digest_.update(bytes);
    checker_.feed(bytes);
  }
  void on_end(Connection&, ExchangeEnd end, int err) override {
    done_ = true;
    if (end == ExchangeEnd::Complete) {
      if (status_ != 200) error_ = "GET /feed was answered with status " + std::to_string(status_);
      return;
    }
    error_ = end == ExchangeEnd::ConnectFailed ? "no connection"
             : end == ExchangeEnd::TimedOut    ? "no byte came within the time-out"
             : end == ExchangeEnd::Malformed   ? "the response is not valid HTTP"
                                               : "the connection was closed before the feed's end";
    if (err != 0) error_ = errno_error(error_, err).text;
  }
  void on_idle_close(Connection&) override {}

 private:
  RequestWriter request_;
  FeedChecker checker_;
  Digest digest_;
  int status_ = 0;
  bool done_ = false;
  std::string error_;
  Connection connection_;
};

}  // namespace

bool Verification::passed() const {
  return !interrupted && feed.passed() && backends_equal &&
         std::all_of(backends.begin(), backends.end(), [](const CheckedFeed& b) { return b.passed(); });
}

void Verifier::wait(Duration time) {
  const TimePoint until = monotonic_now() + time;
  while (!stop_ && monotonic_now() < until) loop_.run_once(std::min(kTurn, until - monotonic_now()));
}

CheckedFeed Verifier::check(const Target& target) {
  CheckedFeed feed;
  Duration pause = kFirstPause;
  const TimePoint began = monotonic_now();
  const auto over = [&] { return times_.feed > Duration::zero() && monotonic_now() - began >= times_.feed; };
  for (int attempt = 1; attempt <= kAttempts && !stop_ && !over(); ++attempt) {
    if (attempt > 1) {
      wait(pause);
      pause *= 2;
    }
    ConnectionContext context(loop_, times_.idle, Duration::zero());
    context.deadline_is_idle_time = true;
    context.tls = tls_;
    FeedFetch fetch(context, target, ledger_, rows_);
    while (!fetch.done() && !stop_ && !over()) loop_.run_once(kTurn);
    if (!fetch.done()) {
      feed.endless = !stop_;
      feed.error = stop_ ? "" : "the feed had not ended after " + format_duration(times_.feed);
      break;
    }
    feed = fetch.result(target);
    if (!feed.fetched && !context.tls_failures.empty())
      feed.error += ", " + context.tls_failures.front().text;
    if (feed.fetched) return feed;
  }
  feed.url = target.url;
  feed.fetched = false;
  if (feed.error.empty()) feed.error = "interrupted";
  return feed;
}

Verification Verifier::run(const Target& target, const std::vector<Target>& backends) {
  Verification verification;
  ledger_.prepare_lookup();  // posts of one message are one from here on
  verification.accepted = ledger_.accepted();
  verification.ambiguous = ledger_.ambiguous();
  verification.feed = check(target);
  for (int round = 1; round <= kCompareRounds && !backends.empty() && !stop_; ++round) {
    if (round > 1) wait(kComparePause);
    verification.backends.clear();
    for (const Target& backend : backends) verification.backends.push_back(check(backend));
    verification.backends_equal =
        std::all_of(verification.backends.begin(), verification.backends.end(), [&](const CheckedFeed& feed) {
          return feed.fetched && feed.sha256 == verification.backends.front().sha256;
        });
    if (verification.backends_equal || std::ranges::any_of(verification.backends, &CheckedFeed::endless))
      break;
  }
  verification.interrupted = stop_;
  return verification;
}

}  // namespace dlb::loadgen
