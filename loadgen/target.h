// Target: one base URL as given on the command line, with its resolved address. Host names are looked up
// here, which blocks: at start-up only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/address.h"
#include "common/result.h"

namespace dlb::loadgen {

struct Target {
  std::string url;        // as given
  std::string host;       // the Host field's value: host[:port]
  std::string base_path;  // without a trailing slash; "" for the root
  Address address;
  bool tls = false;
  std::string server_name;  // with TLS: name or address that the certificate must be for
};

// `http://HOST[:PORT][/PATH]` or https://; without a scheme http is meant, without a port 80 or 443. Query,
// fragment and user info are errors.
Result<Target> parse_target(std::string_view url);

// A comma-separated list; empty text gives an empty list.
Result<std::vector<Target>> parse_targets(std::string_view urls);

}  // namespace dlb::loadgen
