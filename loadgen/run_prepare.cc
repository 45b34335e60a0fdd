// Run, before its stages: what can be known to fail is said now, in one line, and nothing has been sent yet.
// TLS, source addresses, the file descriptors, a connection to each target, the held connections and the chat
// users that will be there.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "loadgen/hash.h"
#include "loadgen/run.h"

namespace dlb::loadgen {
namespace {

constexpr std::uint64_t kHeldSeed = 0x68656c642d6eU;  // other messages than the stages'

// Connects, and is content.
class Reach final : public ConnectionUser {
 public:
  Reach(ConnectionContext& context, const Target& target, const Address* source)
      : connection_(context, *this, {}) {
    err_ = connection_.connect(target, ConnectShape{source, 0});
    done_ = err_ != 0;
  }
  bool done() const { return done_; }
  int err() const { return err_; }
  void on_connected(Connection&) override { done_ = true; }
  void on_head(Connection&, const ResponseHead&) override {}
  void on_body(Connection&, std::string_view) override {}
  void on_end(Connection&, ExchangeEnd, int err) override {
    err_ = err;
    done_ = true;
  }
  void on_idle_close(Connection&) override {}

 private:
  int err_ = 0;
  bool done_ = false;
  Connection connection_;
};

}  // namespace

Result<void> raise_descriptor_limit(std::uint64_t descriptors) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return errno_error("getrlimit", errno);
  if (limit.rlim_cur >= descriptors) return {};
  if (limit.rlim_max < descriptors) {
    return Error{
        fmt::format("{} file descriptors are needed and the hard limit is {}: raise it (ulimit -Hn) or take "
                    "fewer users",
                    descriptors, limit.rlim_max)};
  }
  limit.rlim_cur = limit.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return errno_error("setrlimit", errno);
  return {};
}

Result<void> Run::prepare() {
  if (std::ranges::any_of(targets_, &Target::tls) || std::ranges::any_of(verify_targets_, &Target::tls) ||
      any_tls(sampler_plan_)) {
    auto context =
        TlsContext::client({.verify = !options_.insecure, .ca_file = options_.ca, .offer_http = true});
    if (!context) return context.error();
    tls_.emplace(std::move(*context));
    context_.tls = &*tls_;
  }
  if (auto prepared = prepare_sources(); !prepared) return prepared;
  // The chat's users say nothing to them.
  if (options_.chat && !options_.verify_feed) return {};
  if (auto reached = reach_targets(); !reached) return reached;
  if (options_.held_new_connections > 0) prepare_held();
  return {};
}

Result<void> Run::prepare_sources() {
  if (options_.sources.empty()) return {};
  const auto held = static_cast<std::uint64_t>(options_.held_new_connections);
  const auto users = static_cast<std::uint64_t>(plan_.users_max()) + held;
  for (const Target& target : targets_) {
    for (std::uint64_t user = 0; user < std::min(users, options_.sources.size()); ++user) {
      if (options_.sources.of(user).family() == target.address.family()) continue;
      return Error{fmt::format("source-addresses: {} can't reach {}, which is at {}",
                               options_.sources.of(user).host(), target.url, target.address.to_string())};
    }
  }
  if (auto checked = options_.sources.check(users); !checked) {
    return Error{"source-addresses: " + checked.error().text};
  }
  return {};
}

Result<void> Run::reach_targets() {
  const Address source = options_.sources.empty() ? Address() : options_.sources.of(0);
  for (const Target& target : targets_) {
    Reach reach(context_, target, source.empty() ? nullptr : &source);
    while (!reach.done() && !stop_) loop_.run_once(kTurn);
    if (reach.err() == 0) continue;
    if (!context_.tls_failures.empty()) {
      return Error{
          fmt::format("no TLS with {} ({}): {}; -ca FILE names whom to believe, -insecure believes anyone",
                      target.url, target.address.to_string(), context_.tls_failures.front().text)};
    }
    return errno_error("nothing answers at " + target.url + " (" + target.address.to_string() + ")",
                       reach.err());
  }
  return {};
}

void Run::prepare_held() {
  HeldShape held;
  held.connections = static_cast<std::uint64_t>(options_.held_new_connections);
  held.stage = options_.held_stage;
  held.age = options_.held_new_age;
  held.payload.seed = mix64(seed_ ^ kHeldSeed);
  held.payload.users = held.connections;
  held.payload.message_min = static_cast<std::uint32_t>(options_.message_min);
  held.payload.message_max = static_cast<std::uint32_t>(options_.message_max);
  held.sources = &options_.sources;
  held.users = static_cast<std::uint64_t>(plan_.users_max());
  held_context_ = std::make_unique<ConnectionContext>(loop_, options_.request_timeout, Duration::zero());
  held_context_->tls = context_.tls;
  held_ = std::make_unique<HeldConnections>(held, targets_, loop_, *held_context_, ledger_);
}

Result<void> Run::open_chat() {
  if (!chat_) return {};
  auto opened = chat_->open(loop_, ledger_, seed_, stop_);
  if (!opened) return Error{"the chat: " + opened.error().text};
  return {};
}

}  // namespace dlb::loadgen
