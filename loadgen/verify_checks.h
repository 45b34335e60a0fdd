// VerifyChecks: what `loadgen verify` checks, one after the other (G7). Each check is a function that talks
// to the deployment until its deadline and says what it found; a check whose ground was not laid (no message
// was taken, no user is in) is skipped. It leaves four messages in the history, whose ids are UUIDs with one
// first half, and four names. Drives the loop itself; nothing else runs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/event_loop.h"
#include "common/rsa_pss.h"
#include "common/signals.h"
#include "common/tls_context.h"
#include "loadgen/chat_probe.h"
#include "loadgen/http_call.h"
#include "loadgen/message_id.h"
#include "loadgen/target.h"
#include "loadgen/verify_options.h"
#include "loadgen/verify_report.h"
#include "loadgen/ws_url.h"

namespace dlb::loadgen {

struct VerifyTargets {
  Target target;
  std::vector<Target> backends;
  std::vector<WsUrl> chats;
  const TlsContext* tls = nullptr;     // null when nothing has TLS
  const RsaPrivateKey* key = nullptr;  // null without chats
};

class VerifyChecks final : public SignalHandler {
 public:
  // SIGINT, SIGTERM and SIGHUP must have been blocked. Both are borrowed.
  VerifyChecks(const VerifyOptions& options, const VerifyTargets& targets);

  VerifyReport run();

  void on_signal(int) override { stop_ = true; }

 private:
  // What a check has found: the line for its row; an Error fails it.
  using Finding = Result<std::string>;
  using Check = Finding (VerifyChecks::*)();
  void row(std::string_view name, std::string_view hint, Check check, bool possible = true);

  // verify_http.cc
  void http_rows();
  Finding health();
  Finding status();
  Finding backend_health();
  Finding post();
  Finding repeat();
  Finding conflict();
  Finding bad_message();
  Finding feed();
  Finding etag();
  Finding gzip();
  Result<HttpAnswer> call(const Target& target, const HttpCall& call);
  Result<HttpAnswer> post_message(std::string_view id, std::string_view text);
  Result<std::string> check_feed(const Target& target);
  std::string page_path() const;  // of the feed, with the message alone

  // verify_chat.cc
  void chat_rows();
  Finding certificate();
  Finding users_join();
  Finding users_get_message();
  Finding users_get_http_message();
  Finding late_user();
  Finding resume();
  std::unique_ptr<ChatProbe> user(int number);
  const WsUrl& chat_of(int number) const;

  static constexpr int kUsers = 3;
  static constexpr int kTries = 5;  // where other people's messages may come between two requests

  const VerifyOptions& options_;
  const VerifyTargets& targets_;
  EventLoop loop_;
  SignalSource signals_;
  WsClientTimers timers_;
  bool stop_ = false;
  bool unreachable_ = false;  // what the check under way has found
  TimePoint deadline_{};      // of the check under way
  VerifyReport report_;

  MessageId id(int number) const { return make_message_id(half_, static_cast<std::uint64_t>(number)); }
  std::string id_text(int number) const;

  std::uint64_t half_;  // of this run's ids
  std::string prefix_;  // what they begin with
  std::string name_;    // the users' names begin with it
  bool balancer_ = false;
  std::int64_t sequence_ = 0;  // of the message sent by HTTP; 0: none was taken
  std::string timestamp_;
  std::vector<std::unique_ptr<ChatProbe>> users_;
  std::int64_t chat_sequence_ = 0;  // of the signed message; 0: none was taken
};

}  // namespace dlb::loadgen
