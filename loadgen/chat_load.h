// ChatLoad: the chat users of one run, from their key to the oracle's judgement, in the order of events:
//
//   open ─ (stages; plan_drops at the first counted one) ─ settle ─ (feeds are read) ─ settle ─ finish
//
// `open` finds out where the history ends, signs what the publishers will send, and brings everybody in. All
// but the reconnects happens outside the measured time. Drives the loop itself where it waits.
#pragma once

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/event_loop.h"
#include "common/rsa_pss.h"
#include "common/tls_context.h"
#include "loadgen/chat_result.h"
#include "loadgen/chat_stage.h"
#include "loadgen/delivery_oracle.h"
#include "loadgen/feed_checker.h"
#include "loadgen/ledger.h"
#include "loadgen/options.h"
#include "loadgen/signed_messages.h"
#include "loadgen/subscribers.h"
#include "loadgen/ws_url.h"

namespace dlb::loadgen {

class ChatLoad final : public FeedRowUser {
 public:
  // Key, certificates and urls; may take a second for a new key. `loaded` says where the options came from:
  // the error names that.
  static Result<std::unique_ptr<ChatLoad>> make(const Options& options, const LoadedOptions& loaded = {});

  // `watched`: the ledger whose messages are looked for. The error: nobody answers, or not everybody could
  // get in.
  Result<void> open(EventLoop& loop, Ledger& watched, std::uint64_t seed, const bool& stop);

  // open() has found the chat; with `stop` it may have ended there, and then all the rest does little.
  bool opened() const { return subscribers_ != nullptr; }

  // Only with the chat profile, after open(): what the stage is to send.
  SignedMessages& messages() { return *messages_; }
  const ChatStageShape& stage_shape() const { return stage_shape_; }
  Subscribers& subscribers() { return *subscribers_; }
  ChatResult& result() { return *result_; }

  // The counted stages begin now and take about `span`.
  void plan_drops(Duration span);
  // Until everybody has come as far as is known to be needed, or settle-timeout is over.
  void settle(const bool& stop);
  void on_feed_row(const ChatRow& row) override { oracle_.feed_row(row); }
  void feeds_read() { oracle_.feed_done(); }
  // Everybody leaves, and the oracle judges. `seconds`: of the counted stages.
  std::unique_ptr<ChatResult> finish(double seconds);

 private:
  ChatLoad(const Options& options, RsaPrivateKey key);
  Result<std::int64_t> find_end(const bool& stop);
  void sign(std::uint64_t seed, const bool& stop);
  Result<void> join(std::uint64_t seed, std::int64_t base, const bool& stop);
  std::size_t publishers() const;

  const Options& options_;
  RsaPrivateKey key_;
  std::vector<WsUrl> urls_;
  std::optional<TlsContext> tls_;
  std::string prefix_;
  EventLoop* loop_ = nullptr;
  ChatStageShape stage_shape_;
  std::unique_ptr<SignedMessages> messages_;
  DeliveryOracle oracle_;
  std::unique_ptr<ChatResult> result_ = std::make_unique<ChatResult>();
  std::unique_ptr<Subscribers> subscribers_;  // before the oracle and the result go
};

// How many sessions a run with these options has; 0: no chat.
std::size_t chat_sessions(const Options& options);

}  // namespace dlb::loadgen
