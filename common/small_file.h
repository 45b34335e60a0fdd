// Small kernel files (/proc, cgroup) read in one go into a fixed buffer, and the two shapes of text that they
// hold: numbers in columns and `key value` lines. No allocation, no error texts: what isn't there reads as
// empty, and as -1.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace dlb {

class SmallFileText {
 public:
  static constexpr std::size_t kMaxBytes = 16 * 1024;  // more is cut

  // The text of the file, valid until the next read. Empty when it can't be read.
  std::string_view read(const std::string& path);
  // From the start of an open file, by one pread: these files are one record, which the kernel gives whole.
  // Empty also for -1.
  std::string_view read(int fd);

 private:
  std::array<char, kMaxBytes> buffer_;  // uninitialised: filled by read
};

// The number in column `index` (0-based, separated by blanks or newlines); -1 when there is none, `max`
// included.
std::int64_t integer_field(std::string_view text, int index);

// The number behind `key` at the start of a line: `anon 4096`, `MemTotal:  123 kB` (key with its colon). -1:
// none.
std::int64_t keyed_integer(std::string_view text, std::string_view key);

}  // namespace dlb
