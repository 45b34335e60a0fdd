#include "lb/path_rules.h"

namespace dlb::lb {
namespace {

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::string percent_decoded(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      const int high = hex_value(text[i + 1]);
      const int low = hex_value(text[i + 2]);
      if (high >= 0 && low >= 0) {
        out.push_back(static_cast<char>(high * 16 + low));
        i += 2;
        continue;
      }
    }
    out.push_back(text[i]);
  }
  return out;
}

std::string normal_path(std::string_view path) {
  const std::string decoded = percent_decoded(path);
  std::string out;
  std::size_t at = 0;
  bool directory = true;  // the last segment seen is a directory: the result ends in `/`
  while (at < decoded.size()) {
    if (decoded[at] == '/') {
      ++at;
      directory = true;
      continue;
    }
    const std::size_t end = std::min(decoded.find('/', at), decoded.size());
    const std::string_view segment = std::string_view(decoded).substr(at, end - at);
    at = end;
    directory = segment == "." || segment == "..";
    if (segment == "..") {
      out.resize(out.empty() ? 0 : out.rfind('/'));
    } else if (segment != ".") {
      out.append("/").append(segment);
    }
  }
  if (directory) out.push_back('/');
  return out;
}

bool path_reaches(std::string_view path, const std::vector<std::string>& rules) {
  if (path_matches(path, rules)) return true;
  const bool plain = path.find('%') == std::string_view::npos && path.find("//") == std::string_view::npos &&
                     path.find("/.") == std::string_view::npos;
  return !plain && path_matches(normal_path(path), rules);
}

}  // namespace dlb::lb
