// TempDir: a fresh folder for one test, removed with everything in it. write() makes the folders that a path
// needs.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "common/check.h"

namespace dlb::test {

class TempDir {
 public:
  TempDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "dlb-test-XXXXXX").string();
    DLB_CHECK(::mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }
  std::string file(std::string_view relative) const { return path_ + "/" + std::string(relative); }

  // Writes (over) a file; returns its path.
  std::string write(std::string_view relative, std::string_view content) const {
    const std::string name = file(relative);
    std::filesystem::create_directories(std::filesystem::path(name).parent_path());
    std::ofstream out(name, std::ios::binary | std::ios::trunc);
    out << content;
    DLB_CHECK(out.good());
    return name;
  }

 private:
  std::string path_;
};

}  // namespace dlb::test
