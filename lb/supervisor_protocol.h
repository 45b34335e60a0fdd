// What the balancer and the supervisor (supervisor.h) say to each other, a datagram each of a SOCK_SEQPACKET
// pair. The balancer's are words with a NUL behind each:
//
//   start PORT WORD…   run this command; PORT names the instance from now on
//   stop PORT          SIGTERM to its process group     kill PORT   SIGKILL
//   forget PORT        it has ended, and that is known
//   grace MS           from SIGTERM to SIGKILL when the balancer is gone
//   list
//
// The supervisor answers each, and tells of each end, with the whole state, so that nothing is lost on
// whoever missed one: text, a line an instance, in the order of their starts:
//
//   PORT PID running|stopping|exited STATUS     STATUS: as of waitpid()
//
// The two may be of different versions: unknown requests are ignored, and so is what follows in a line. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dlb::lb {

inline constexpr std::size_t kSupervisorMostChildren = 1024;
inline constexpr std::size_t kSupervisorDatagram = 64U << 10;  // at most, either way

enum class ChildState : std::uint8_t { Running, Stopping, Exited };

struct SupervisedChild {
  std::uint16_t port = 0;
  int pid = 0;
  ChildState state = ChildState::Running;
  int status = 0;  // with Exited

  bool operator==(const SupervisedChild&) const = default;
};

struct SupervisorRequest {
  enum class Kind : std::uint8_t { Start, Stop, Kill, Forget, Grace, List } kind = Kind::List;
  std::uint32_t number = 0;  // the port, or milliseconds
  std::vector<std::string> words{};

  bool operator==(const SupervisorRequest&) const = default;
};

std::string encode(const SupervisorRequest& request);
// Nothing when it makes no sense.
std::optional<SupervisorRequest> decode_request(std::string_view datagram);

std::string encode(std::span<const SupervisedChild> children);
// Lines that make no sense are left out.
std::vector<SupervisedChild> decode_children(std::string_view datagram);

// `exit code 3`, `signal 9`.
std::string status_text(int status);

}  // namespace dlb::lb
