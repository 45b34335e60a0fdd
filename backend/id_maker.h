// IdMaker: ids for messages that came without one, from the kernel's random source in blocks, so that ids of
// several backends and of several starts never meet. One thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace dlb::backend {

class IdMaker {
 public:
  // A version 4 UUID.
  std::string make();

 private:
  std::array<std::uint64_t, 128> words_{};
  std::size_t next_ = words_.size();
};

}  // namespace dlb::backend
