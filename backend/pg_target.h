// PgTarget: one place to connect to, and the list of them that a database URL stands for: every host, and
// every address of a host. libpq would look names up itself, which blocks, and would try all hosts within one
// attempt without any time limit; so names are looked up on a thread of their own at each reconnect and one
// attempt gets one address.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "common/result.h"

namespace dlb::backend {

using PgOptions = std::vector<std::pair<std::string, std::string>>;  // libpq keyword and value

struct PgTarget {
  std::string host;      // name, numeric address, or the folder of a Unix socket
  std::string hostaddr;  // numeric; empty for Unix sockets
  std::string port;      // empty: libpq's default
};

struct PgUrl {
  PgOptions options;            // all but hosts, addresses and ports
  std::vector<PgTarget> hosts;  // not looked up; hostaddr only when the URL gives it. Never empty.
};

// Takes a libpq URI or key=value string apart. Fails with libpq's words; never shows the password.
Result<PgUrl> parse_pg_url(const std::string& url);

// Whether `host` has to be looked up: not numeric, not a folder.
bool needs_lookup(const PgTarget& target);

// Looks the names up (blocks): each host becomes one target for each of its addresses, in order; hosts that
// can't be resolved are left out and named in `failures`.
std::vector<PgTarget> resolve(const std::vector<PgTarget>& hosts, std::string& failures);

}  // namespace dlb::backend
