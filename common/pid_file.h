// PidFile: the file in which a daemon's process id stands, for scripts and service managers. It is put in
// place whole, so that a reader never finds half of it, and a process that takes another one's place by an
// upgrade writes over it; who ends removes it only while it is its own.
#pragma once

#include <string>

#include "common/result.h"

namespace dlb {

class PidFile {
 public:
  // Empty `path`: there is none, and nothing below does anything.
  explicit PidFile(std::string path = {}) : path_(std::move(path)) {}
  PidFile(const PidFile&) = delete;
  PidFile& operator=(const PidFile&) = delete;
  ~PidFile() { remove(); }

  // Writes this process's id. The error names the file.
  Result<void> write();
  // Removes what write() wrote, unless another process has written there since.
  void remove();
  // The file is somebody else's from now on: remove() leaves it, even before he has written there.
  void leave() { written_ = false; }

 private:
  const std::string path_;
  bool written_ = false;
};

}  // namespace dlb
