#include "lb/option_changes.h"

#include <algorithm>
#include <utility>

namespace dlb::lb {
namespace {

// The rows of the listeners that there are, in their order, as the file has them now where it has them still.
// False when the file names others.
bool settle_tcp(const Options& before, Options& after) {
  std::vector<TcpOption> settled;
  bool same = before.tcp.size() == after.tcp.size();
  for (const TcpOption& old : before.tcp) {
    const auto now = std::ranges::find(after.tcp, old.listen, &TcpOption::listen);
    same = same && now != after.tcp.end();
    settled.push_back(now != after.tcp.end() ? *now : old);
  }
  after.tcp = std::move(settled);
  return same;
}

bool same_tcp(const Options& before, const Options& after) {
  return std::ranges::equal(before.tcp, after.tcp, [](const TcpOption& a, const TcpOption& b) {
    return a.policy == b.policy && a.backends == b.backends && a.send_proxy_protocol == b.send_proxy_protocol;
  });
}

// wss-listen stays: so do the addresses behind it that the file has taken away with it.
void keep_wss(const Options& before, Options& after) {
  after.wss_listen = before.wss_listen;
  if (before.wss_listen.empty()) return;
  for (BackendOption& backend : after.backends) {
    const auto old = std::ranges::find(before.backends, backend.id, &BackendOption::id);
    if (!backend.wss.empty() || old == before.backends.end()) continue;
    backend.wss = old->wss;
    backend.wss_address = old->wss_address;
  }
}

}  // namespace

OptionChanges settle_options(const Options& before, Options& after) {
  OptionChanges changes;
  // Turning it on or off takes a restart: whatever else is said of it then stays too.
  if (before.autoscale.on() != after.autoscale.on()) {
    after.autoscale = before.autoscale;
    changes.restart.push_back("autoscale");
  }
  const bool tls_stays = before.tls_listen != after.tls_listen;
  // The rows' accessors serve loading too and so take a mutable struct; nothing is written through it here.
  for (const ChangedOption& one : changed_options(kOptionTable, const_cast<Options&>(before), after)) {
    if (one.name == "tcp") {
      if (!settle_tcp(before, after)) changes.restart.push_back("tcp");
      if (!same_tcp(before, after)) changes.live.push_back("tcp");
    } else if (one.name == "wss-listen") {
      keep_wss(before, after);
      changes.restart.push_back(one.name);
    } else if (one.name.starts_with("autoscale-")) {  // a row of the inner table
      const bool restart = apply_of(kOptionTable, *one.row) == Apply::Restart;
      if (restart) copy_option(*one.row, before.autoscale, after.autoscale);
      if (restart) after.autoscale.words = before.autoscale.words;
      (restart ? changes.restart : changes.live).push_back(one.name);
    } else if (apply_of(kOptionTable, *one.row) == Apply::Restart) {
      copy_option(*one.row, before, after);
      changes.restart.push_back(one.name);
    } else if (tls_stays && (one.name == "tls-cert" || one.name == "tls-key")) {
      copy_option(*one.row, before, after);
    } else {
      changes.live.push_back(one.name);
    }
  }
  return changes;
}

}  // namespace dlb::lb
