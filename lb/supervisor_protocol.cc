#include "lb/supervisor_protocol.h"

#include <sys/wait.h>

#include <algorithm>
#include <charconv>
#include <iterator>

namespace dlb::lb {
namespace {

constexpr std::string_view kRequests[] = {"start", "stop", "kill", "forget", "grace", "list"};  // as Kind
constexpr std::string_view kStates[] = {"running", "stopping", "exited"};  // as ChildState

template <std::size_t N>
int index_of(const std::string_view (&names)[N], std::string_view name) {
  const auto found = std::ranges::find(names, name);
  return found == std::end(names) ? -1 : static_cast<int>(found - std::begin(names));
}

// The text up to `end`, which is taken off the front with it.
std::string_view take(std::string_view& text, char end) {
  const std::size_t at = std::min(text.find(end), text.size());
  const std::string_view word = text.substr(0, at);
  text.remove_prefix(std::min(text.size(), at + 1));
  return word;
}

template <class Number>
bool read_number(std::string_view text, Number& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::string encode(const SupervisorRequest& request) {
  using Kind = SupervisorRequest::Kind;
  std::string out(kRequests[static_cast<std::size_t>(request.kind)]);
  out += '\0';
  if (request.kind != Kind::List) out.append(std::to_string(request.number)) += '\0';
  for (const std::string& word : request.words) out.append(word) += '\0';
  return out;
}

std::optional<SupervisorRequest> decode_request(std::string_view datagram) {
  using Kind = SupervisorRequest::Kind;
  if (datagram.empty() || datagram.back() != '\0') return std::nullopt;
  const int kind = index_of(kRequests, take(datagram, '\0'));
  if (kind < 0) return std::nullopt;
  SupervisorRequest request{.kind = static_cast<Kind>(kind)};
  if (request.kind == Kind::List) return request;
  if (!read_number(take(datagram, '\0'), request.number)) return std::nullopt;
  if (request.kind != Kind::Grace && (request.number == 0 || request.number > 65535)) return std::nullopt;
  if (request.kind != Kind::Start) return request;
  while (!datagram.empty()) request.words.emplace_back(take(datagram, '\0'));
  if (request.words.empty() || request.words.front().empty()) return std::nullopt;
  return request;
}

std::string encode(std::span<const SupervisedChild> children) {
  std::string out = "state\n";  // never empty: an empty datagram would look like the end
  for (const SupervisedChild& child : children) {
    out += std::to_string(child.port) + ' ' + std::to_string(child.pid) + ' ';
    out.append(kStates[static_cast<std::size_t>(child.state)]) += ' ';
    out += std::to_string(child.status) + '\n';
  }
  return out;
}

std::vector<SupervisedChild> decode_children(std::string_view datagram) {
  std::vector<SupervisedChild> children;
  while (!datagram.empty()) {
    std::string_view line = take(datagram, '\n');
    SupervisedChild child;
    const bool numbers = read_number(take(line, ' '), child.port) && read_number(take(line, ' '), child.pid);
    const int state = index_of(kStates, take(line, ' '));
    if (!numbers || state < 0 || !read_number(take(line, ' '), child.status)) continue;
    child.state = static_cast<ChildState>(state);
    children.push_back(child);
  }
  return children;
}

std::string status_text(int status) {
  if (WIFSIGNALED(status)) return "signal " + std::to_string(WTERMSIG(status));
  return "exit code " + std::to_string(WEXITSTATUS(status));
}

}  // namespace dlb::lb
