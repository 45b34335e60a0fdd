#include "common/pid_file.h"

#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>

#include "test/support/catch.h"
#include "test/support/temp_dir.h"

namespace dlb {
namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_CASE("a pid file is there while its process is, and another process's stays") {
  const test::TempDir folder;
  const std::string path = folder.file("daemon.pid");
  const std::string own = std::to_string(::getpid()) + "\n";
  {
    PidFile file(path);
    CHECK(text_of(path).empty());
    REQUIRE(file.write().has_value());
    CHECK(text_of(path) == own);
    REQUIRE(file.write().has_value());
  }
  CHECK(::access(path.c_str(), F_OK) != 0);
  {
    PidFile file(path);
    REQUIRE(file.write().has_value());
    std::ofstream(path) << "1\n";  // an upgrade: the next process has written there
  }
  CHECK(text_of(path) == "1\n");
}

TEST_CASE("a pid file that was left to another process stays, though he has yet to write it") {
  const test::TempDir folder;
  const std::string path = folder.file("daemon.pid");
  {
    PidFile file(path);
    REQUIRE(file.write().has_value());
    file.leave();
  }
  CHECK(text_of(path) == std::to_string(::getpid()) + "\n");
}

TEST_CASE("without a path there is no pid file; one that can't be written is an error that names it") {
  PidFile none;
  CHECK(none.write().has_value());
  PidFile nowhere("/nowhere/daemon.pid");
  const auto written = nowhere.write();
  REQUIRE_FALSE(written.has_value());
  CHECK(written.error().text.find("/nowhere/daemon.pid") != std::string::npos);
}

}  // namespace
}  // namespace dlb
