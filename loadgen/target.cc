#include "loadgen/target.h"

#include "common/http_message.h"

namespace dlb::loadgen {
namespace {

Error bad_url(std::string_view url, std::string_view what) {
  std::string text = "url \"";
  text += url;
  text += "\": ";
  text += what;
  return Error{std::move(text)};
}

bool has_port(std::string_view authority) {
  const std::size_t bracket = authority.rfind(']');
  const std::size_t colon = authority.rfind(':');
  return colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket);
}

}  // namespace

Result<Target> parse_target(std::string_view url) {
  std::string_view rest = url;
  bool tls = false;
  const std::size_t scheme_end = rest.find("://");
  if (scheme_end != std::string_view::npos) {
    tls = equals_ignoring_case(rest.substr(0, scheme_end), "https");
    if (!tls && !equals_ignoring_case(rest.substr(0, scheme_end), "http")) {
      return bad_url(url, "only http:// and https:// can be loaded");
    }
    rest.remove_prefix(scheme_end + 3);
  }
  if (rest.find_first_of("?#@ \t\r\n") != std::string_view::npos) {
    return bad_url(url, "a base URL is http://HOST[:PORT][/PATH], without query, fragment or user");
  }
  const std::size_t slash = rest.find('/');
  const std::string_view authority = rest.substr(0, slash);
  std::string_view path = slash == std::string_view::npos ? std::string_view() : rest.substr(slash);
  while (!path.empty() && path.back() == '/') path.remove_suffix(1);
  if (authority.empty() || authority.front() == ':') return bad_url(url, "the host is missing");

  Target target;
  target.url = url;
  target.host = authority;
  target.base_path = path;
  std::string place(authority);
  if (!has_port(place)) place += tls ? ":443" : ":80";
  auto address = Address::parse(place);
  if (!address) return bad_url(url, address.error().text);
  target.address = *address;
  target.tls = tls;
  target.server_name = place.substr(0, place.rfind(':'));
  if (target.server_name.starts_with('['))
    target.server_name = target.server_name.substr(1, target.server_name.size() - 2);
  return target;
}

Result<std::vector<Target>> parse_targets(std::string_view urls) {
  std::vector<Target> targets;
  while (!urls.empty()) {
    const std::size_t comma = urls.find(',');
    auto target = parse_target(urls.substr(0, comma));
    if (!target) return target.error();
    targets.push_back(std::move(*target));
    if (comma == std::string_view::npos) break;
    urls.remove_prefix(comma + 1);
    if (urls.empty()) return Error{"the list of urls ends in a comma"};
  }
  return targets;
}

}  // namespace dlb::loadgen
