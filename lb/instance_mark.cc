#include "lb/instance_mark.h"

#include <charconv>
#include <filesystem>
#include <fstream>

namespace dlb::lb {
namespace {

bool carries(const std::filesystem::path& process, const std::string& mark) {
  std::ifstream environment(process / "environ", std::ios::binary);
  for (std::string variable; std::getline(environment, variable, '\0');) {
    if (variable == mark) return true;
  }
  return false;
}

}  // namespace

std::string instance_mark(std::uint16_t port, int pid) {
  return "DLB_INSTANCE=" + std::to_string(port) + ":" + std::to_string(pid);
}

std::vector<int> marked_processes(const std::string& mark) {
  std::vector<int> found;
  std::error_code error;
  for (std::filesystem::directory_iterator at("/proc", error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename();
    int pid = 0;
    const auto [stop, bad] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (bad != std::errc() || stop != name.data() + name.size()) continue;
    if (carries(at->path(), mark)) found.push_back(pid);
  }
  return found;
}

}  // namespace dlb::lb
