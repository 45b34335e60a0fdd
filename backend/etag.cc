#include "backend/etag.h"

#include <cstddef>

namespace dlb::backend {

bool etag_matches(std::string_view if_none_match, std::string_view etag) {
  std::size_t at = 0;
  const auto skip = [&](std::string_view what) {
    while (at < if_none_match.size() && what.find(if_none_match[at]) != std::string_view::npos) ++at;
  };
  skip(" \t");
  if (if_none_match.substr(at) == "*") return true;
  while (true) {
    skip(" \t,");
    if (at >= if_none_match.size()) return false;
    if (if_none_match.substr(at, 2) == "W/") at += 2;
    if (at >= if_none_match.size() || if_none_match[at] != '"') return false;  // malformed: no match
    const std::size_t end = if_none_match.find('"', at + 1);
    if (end == std::string_view::npos) return false;
    if (if_none_match.substr(at, end + 1 - at) == etag) return true;
    at = end + 1;
  }
}

std::string gzip_etag(std::string_view plain) {
  constexpr std::string_view kPlainTagEnd = "-plain\"";
  if (!plain.ends_with(kPlainTagEnd)) return {};
  plain.remove_suffix(kPlainTagEnd.size());
  return std::string(plain) + "-gzip\"";
}

}  // namespace dlb::backend
