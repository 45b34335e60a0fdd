#include "lb/admin_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace dlb::lb {
Result<std::string> read_admin_token(const std::string& path) {
  std::ifstream file(path);
  if (!file) return Error{fmt::format("{}: can't be read", path)};
  std::string token;
  std::getline(file, token);
  while (token.ends_with('\r') || token.ends_with(' ')) token.pop_back();
  const bool plain = std::ranges::all_of(token, [](char c) { return c > ' ' && c < 0x7f; });
  if (token.empty() || !plain) {
    return Error{fmt::format("{}: its first line is to be the token, printable ASCII without spaces", path)};
  }
  return token;
}

Result<void> finish_admin_options(const LoadedOptions& loaded, Options& options) {
  options.admin_address = {};
  options.admin_token.clear();
  if (options.admin_listen.empty() || options.admin_listen == "off") return {};
  auto address = Address::parse(options.admin_listen);
  if (!address) return loaded.at("admin-listen", address.error().text);
  options.admin_address = *address;
  if (options.admin_token_file.empty()) {
    if (address->is_loopback()) return {};
    return loaded.at("admin-listen",
                     fmt::format("{} is not loopback: it needs admin-token-file", options.admin_listen));
  }
  auto token = read_admin_token(options.admin_token_file);
  if (!token) return loaded.at("admin-token-file", token.error().text);
  options.admin_token = std::move(*token);
  return {};
}

}  // namespace dlb::lb
