#include "loadgen/ws_url.h"

#include "common/http_message.h"

namespace dlb::loadgen {
namespace {

constexpr std::string_view kDefaultTarget = "/ws";

Error bad_url(std::string_view url, std::string_view what) {
  return Error{"url \"" + std::string(url) + "\": " + std::string(what)};
}

bool is_plain(std::string_view text) {
  for (const char c : text) {
    if (c <= ' ' || c >= 0x7f) return false;
  }
  return true;
}

}  // namespace

Result<WsUrl> parse_ws_url(std::string_view url) {
  WsUrl out;
  out.url = url;
  const std::size_t scheme_end = url.find("://");
  const std::string_view scheme =
      scheme_end == std::string_view::npos ? std::string_view() : url.substr(0, scheme_end);
  if (equals_ignoring_case(scheme, "ws")) {
    out.tls = false;
  } else if (!equals_ignoring_case(scheme, "wss")) {
    return bad_url(url, "wss://HOST[:PORT][/PATH] is expected, or ws://…");
  }
  const std::string_view rest = url.substr(scheme_end + 3);
  if (!is_plain(rest) || rest.find_first_of("#@\\") != std::string_view::npos) {
    return bad_url(url, "user, fragment, blanks and other than ASCII can't be part of it");
  }
  const std::size_t path = rest.find_first_of("/?");
  const std::string_view authority = rest.substr(0, path);
  const std::string_view target = path == std::string_view::npos ? std::string_view() : rest.substr(path);
  const std::size_t bracket = authority.rfind(']');
  std::size_t colon = authority.rfind(':');
  if (bracket != std::string_view::npos && colon != std::string_view::npos && colon < bracket) {
    colon = std::string_view::npos;
  }
  std::string_view host = authority.substr(0, colon);
  if (host.empty()) return bad_url(url, "the host is missing");
  out.authority = authority;
  out.place = authority;
  if (colon == std::string_view::npos) out.place += out.tls ? ":443" : ":80";
  if (host.front() == '[') {
    if (host.back() != ']' || host.size() < 4) return bad_url(url, "an IPv6 address stands in [brackets]");
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return bad_url(url, "an IPv6 address stands in [brackets]");
  }
  out.host = host;
  if (target.empty()) {
    out.target = kDefaultTarget;
  } else {
    out.target =
        target.front() == '?' ? std::string(kDefaultTarget) + std::string(target) : std::string(target);
  }
  return out;
}

}  // namespace dlb::loadgen
