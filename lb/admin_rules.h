// What the admin listener decides from a request alone (L13, L23): the route, and whether it may be served.
// Pure: texts in, a verdict out. Against web pages that a browser on the operator's machine has open: a Host
// that is none of ours (a name that has been pointed at us) and an Origin that is not our own page are
// refused.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace dlb::lb {

struct AdminRoute {
  enum class Kind : std::uint8_t {
    Page,    // /lb/health and its kin: read-only
    Show,    // /lb/backends/ID
    Drain,   // /lb/backends/ID/drain
    Ready,   // …/ready
    Weight,  // …/weight?value=N
    Reload,  // /lb/reload
    Nothing,
  };
  Kind kind = Kind::Nothing;
  std::string backend;  // the id, decoded
  bool changes() const {
    return kind == Kind::Drain || kind == Kind::Ready || kind == Kind::Weight || kind == Kind::Reload;
  }
};

// The route of a path without its query. An id may hold slashes and %XX.
AdminRoute admin_route(std::string_view path);

// N of `value=N`, the only parameter; nothing when it is not a number from 0 to 65535.
std::optional<std::uint32_t> weight_value(std::string_view query);

// True when `authority`, a Host field, names this listener: a loopback name or address, one of `names`, or,
// when it listens beyond loopback, any IP address, since addresses can't be pointed elsewhere. The port is
// not looked at (it may be forwarded). Empty: an HTTP/1.0 client without the field, which is no browser.
bool host_is_ours(std::string_view authority, bool beyond_loopback, std::span<const std::string> names);

// True when a page of `origin` was served by the listener that the request names as `authority`.
bool origin_is_ours(std::string_view origin, std::string_view authority);

// True when an Authorization field is `Bearer` and `token`. Takes as long for a wrong token as for the right
// one.
bool bearer_is(std::string_view authorization, std::string_view token);

}  // namespace dlb::lb
