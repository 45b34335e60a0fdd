// Files that rows go to: headers are never mixed, torn rows are closed, and what can't be written is told.
#include "loadgen/row_files.h"

#include <sys/resource.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "test/support/catch.h"
#include "test/support/temp_dir.h"

namespace dlb::loadgen {
namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

TEST_CASE("append: one header, rows below it") {
  const dlb::test::TempDir folder;
  CHECK(*append_rows(folder.path(), "summary", "a,b\n", "1,2\n") == folder.file("summary.csv"));
  CHECK(*append_rows(folder.path(), "summary", "a,b\n", "3,4\n5,6\n") == folder.file("summary.csv"));
  CHECK(text_of(folder.file("summary.csv")) == "a,b\n1,2\n3,4\n5,6\n");
}

TEST_CASE("append: rows never go below another header") {
  const dlb::test::TempDir folder;
  folder.write("summary.csv", "a,b,c\n1,2,3\n");
  folder.write("summary-2.csv", "a");
  CHECK(*append_rows(folder.path(), "summary", "a,b\n", "1,2\n") == folder.file("summary-3.csv"));
  CHECK(*append_rows(folder.path(), "summary", "a,b\n", "3,4\n") == folder.file("summary-3.csv"));
  CHECK(text_of(folder.file("summary.csv")) == "a,b,c\n1,2,3\n");
  CHECK(text_of(folder.file("summary-2.csv")) == "a");
  CHECK(text_of(folder.file("summary-3.csv")) == "a,b\n1,2\n3,4\n");
}

TEST_CASE("append: a row that was cut gets its end; an empty file its header") {
  const dlb::test::TempDir folder;
  folder.write("summary.csv", "a,b\n1,");
  CHECK(append_rows(folder.path(), "summary", "a,b\n", "3,4\n").has_value());
  CHECK(text_of(folder.file("summary.csv")) == "a,b\n1,\n3,4\n");
  folder.write("other.csv", "");
  CHECK(append_rows(folder.path(), "other", "a\n", "1\n").has_value());
  CHECK(text_of(folder.file("other.csv")) == "a\n1\n");
}

TEST_CASE("files: what can't be written is an error that names the file") {
  CHECK(
      append_rows("/proc/nowhere", "summary", "a\n", "1\n").error().text.find("/proc/nowhere/summary.csv") !=
      std::string::npos);
  CHECK_FALSE(write_new_file("/proc/nowhere/x", "text").has_value());
  const dlb::test::TempDir folder;
  CHECK(write_new_file(folder.file("x"), "text").has_value());
  CHECK(write_new_file(folder.file("x"), "other").error().code == EEXIST);
  CHECK(text_of(folder.file("x")) == "text");
}

TEST_CASE("stream: the header at once, all rows at the end, never over another file") {
  const dlb::test::TempDir folder;
  const std::string path = folder.file("run-series.csv");
  std::string rows;
  {
    auto file = StreamFile::create(path, "a\n");
    REQUIRE(file.has_value());
    CHECK(text_of(path) == "a\n");
    for (int i = 0; i < 2000; ++i) {
      const std::string row = std::to_string(i) + "\n";
      (*file)->append(row);
      rows += row;
    }
    CHECK((*file)->finish().has_value());
  }
  CHECK(text_of(path) == "a\n" + rows);
  CHECK(StreamFile::create(path, "a\n").error().code == EEXIST);
}

// Files can't grow beyond this, like on a full disk.
struct FullDisk {
  explicit FullDisk(rlim_t bytes) {
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
    const rlimit full{bytes, before.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &full) == 0);
  }
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, handler);
  }
  rlimit before{};
  void (*handler)(int) = std::signal(SIGXFSZ, SIG_IGN);
};

TEST_CASE("stream: what can't be written is told at the end, and whole rows stay") {
  const dlb::test::TempDir folder;
  auto file = StreamFile::create(folder.file("run-series.csv"), "a\n");
  REQUIRE(file.has_value());
  const auto finished = [&] {
    const FullDisk full(16);
    (*file)->append("short\n");
    (*file)->append("a row that is longer than the rest of the disk\n");
    return (*file)->finish();
  }();
  REQUIRE_FALSE(finished.has_value());
  CHECK(finished.error().code == EFBIG);
  CHECK(finished.error().text.find("run-series.csv") != std::string::npos);
  CHECK(text_of(folder.file("run-series.csv")) == "a\nshort\n");
}

TEST_CASE("files: on a full disk nothing that is not whole is left") {
  const dlb::test::TempDir folder;
  REQUIRE(append_rows(folder.path(), "summary", "a\n", "1\n").has_value());
  {
    const FullDisk full(6);
    CHECK(write_new_file(folder.file("x.json"), "longer than that").error().code == EFBIG);
    CHECK_FALSE(StreamFile::create(folder.file("x-series.csv"), "a long header\n").has_value());
    CHECK_FALSE(append_rows(folder.path(), "summary", "a\n", "2222222\n").has_value());
    CHECK_FALSE(append_rows(folder.path(), "other", "a long header\n", "1\n").has_value());
  }
  CHECK_FALSE(std::filesystem::exists(folder.file("x.json")));
  CHECK_FALSE(std::filesystem::exists(folder.file("x-series.csv")));
  CHECK_FALSE(std::filesystem::exists(folder.file("other.csv")));
  CHECK(text_of(folder.file("summary.csv")) == "a\n1\n");
}

}  // namespace
}  // namespace dlb::loadgen
