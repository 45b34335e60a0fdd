#include "backend/pg_target.h"

#include <arpa/inet.h>
#include <libpq-fe.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace dlb::backend {
namespace {

struct FreeOptions {
  void operator()(PQconninfoOption* options) const { PQconninfoFree(options); }
};
using OptionList = std::unique_ptr<PQconninfoOption, FreeOptions>;

std::vector<std::string> split(std::string_view list) {
  std::vector<std::string> out;
  if (list.empty()) return out;
  while (true) {
    const std::size_t comma = list.find(',');
    out.emplace_back(list.substr(0, comma));
    if (comma == std::string_view::npos) return out;
    list.remove_prefix(comma + 1);
  }
}

// With one entry for all, or one each.
std::string pick(const std::vector<std::string>& list, std::size_t i) {
  if (list.empty()) return {};
  return list.size() == 1 ? list.front() : i < list.size() ? list[i] : std::string();
}

bool is_numeric(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> address{};
  return ::inet_pton(AF_INET, host.c_str(), address.data()) == 1 ||
         ::inet_pton(AF_INET6, host.substr(0, host.find('%')).c_str(), address.data()) == 1;
}

}  // namespace

Result<PgUrl> parse_pg_url(const std::string& url) {
  char* message = nullptr;
  const OptionList parsed(PQconninfoParse(url.c_str(), &message));
  if (parsed == nullptr) {
    std::string text = message != nullptr ? message : "out of memory";
    PQfreemem(message);
    while (!text.empty() && text.back() == '\n') text.pop_back();
    // libpq quotes parts of the URL in some messages; the password must not get into a log with them.
    if (text.find('"') != std::string::npos)
      text = text.substr(0, text.find('"')) + "(part of the URL left out)";
    return Error{"database-url: " + text};
  }
  PgUrl out;
  std::vector<std::string> hosts;
  std::vector<std::string> addresses;
  std::vector<std::string> ports;
  for (const PQconninfoOption* option = parsed.get(); option->keyword != nullptr; ++option) {
    if (option->val == nullptr) continue;
    const std::string_view keyword = option->keyword;
    if (keyword == "host") {
      hosts = split(option->val);
    } else if (keyword == "hostaddr") {
      addresses = split(option->val);
    } else if (keyword == "port") {
      ports = split(option->val);
    } else {
      out.options.emplace_back(keyword, option->val);
    }
  }
  if (hosts.empty() && addresses.empty()) {
    // The environment's PGHOST, PGHOSTADDR, PGPORT: libpq would use them, and look the name up.
    const OptionList defaults(PQconndefaults());
    for (const PQconninfoOption* option = defaults.get(); option != nullptr && option->keyword != nullptr;
         ++option) {
      if (option->val == nullptr) continue;
      const std::string_view keyword = option->keyword;
      if (keyword == "host") hosts = split(option->val);
      if (keyword == "hostaddr") addresses = split(option->val);
      if (keyword == "port" && ports.empty()) ports = split(option->val);
    }
  }
  const std::size_t count = std::max<std::size_t>({hosts.size(), addresses.size(), 1});
  if (!hosts.empty() && !addresses.empty() && hosts.size() != addresses.size()) {
    return Error{"database-url: as many entries in hostaddr as in host, please"};
  }
  if (ports.size() > 1 && ports.size() != count) {
    return Error{"database-url: one port for all hosts or one for each, please"};
  }
  for (std::size_t i = 0; i < count; ++i) {
    out.hosts.push_back(
        {i < hosts.size() ? hosts[i] : "", i < addresses.size() ? addresses[i] : "", pick(ports, i)});
  }
  return out;
}

bool needs_lookup(const PgTarget& target) {
  const std::string& host = target.host;
  return target.hostaddr.empty() && !host.empty() && host[0] != '/' && host[0] != '@' && !is_numeric(host);
}

std::vector<PgTarget> resolve(const std::vector<PgTarget>& hosts, std::string& failures) {
  std::vector<PgTarget> out;
  for (const PgTarget& target : hosts) {
    if (!needs_lookup(target)) {
      out.push_back(target);
      continue;
    }
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_ADDRCONFIG;
    addrinfo* list = nullptr;
    int error = ::getaddrinfo(target.host.c_str(), nullptr, &hints, &list);
    if (error != 0) {
      // AI_ADDRCONFIG hides loopback addresses on a machine that has no other.
      hints.ai_flags = 0;
      error = ::getaddrinfo(target.host.c_str(), nullptr, &hints, &list);
    }
    if (error != 0) {
      failures += (failures.empty() ? "" : ", ") + target.host + ": " + ::gai_strerror(error);
      continue;
    }
    for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
      std::array<char, NI_MAXHOST> text{};
      if (::getnameinfo(entry->ai_addr, entry->ai_addrlen, text.data(), text.size(), nullptr, 0,
                        NI_NUMERICHOST) == 0) {
        out.push_back({target.host, text.data(), target.port});
      }
    }
    ::freeaddrinfo(list);
  }
  return out;
}

}  // namespace dlb::backend
