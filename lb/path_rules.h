// Which paths an option's list names: an entry that ends in `/` names all below it, any other exactly itself.
// Pure.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace dlb::lb {

inline bool path_matches(std::string_view path, const std::vector<std::string>& rules) {
  return std::any_of(rules.begin(), rules.end(), [path](const std::string& rule) {
    return rule.ends_with('/')
               ? path.starts_with(rule) || path == std::string_view(rule).substr(0, rule.size() - 1)
               : path == rule;
  });
}

// For lists that protect: true also when the path names a listed one only after what a backend may do to it
// (percent-decoding, merging slashes, resolving `.` and `..`).
bool path_reaches(std::string_view path, const std::vector<std::string>& rules);

// `%XX` decoded once; a broken escape stands for itself.
std::string percent_decoded(std::string_view text);

// The path with `%XX` decoded once, `//` merged and dot segments resolved; never above `/`.
std::string normal_path(std::string_view path);

}  // namespace dlb::lb
