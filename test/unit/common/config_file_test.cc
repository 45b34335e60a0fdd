#include "common/config_file.h"

#include "test/support/catch.h"
#include "test/support/temp_dir.h"

using namespace dlb;

TEST_CASE("a file becomes values that know their line and column", "[config_file]") {
  const auto tree =
      parse_config("a = 1\n\n  text = \"x\"\n[[backend]]\nid = \"s\"\n[[backend]]\nid = \"t\"\n", "x.conf");
  REQUIRE(tree.has_value());
  REQUIRE(tree->entries.size() == 3);
  CHECK(tree->entries[0].key == "a");
  CHECK(tree->entries[0].value.integer == 1);
  CHECK(tree->entries[1].line == 3);
  CHECK(tree->entries[1].column == 3);
  CHECK(tree->entries[1].value.column == 10);
  const ConfigValue& backends = tree->entries[2].value;
  REQUIRE(backends.kind == ConfigValue::Kind::Array);
  REQUIRE(backends.items.size() == 2);
  CHECK(backends.items[0].line == 4);
  CHECK(backends.items[1].line == 6);
  CHECK(backends.items[1].entries[0].value.text == "t");
}

TEST_CASE("entries keep the order of the file", "[config_file]") {
  const auto tree = parse_config("z = 1\nb = 2\na = 3\n", "x.conf");
  REQUIRE(tree.has_value());
  CHECK(tree->entries[0].key == "z");
  CHECK(tree->entries[2].key == "a");
}

TEST_CASE("a syntax error is one line with file, line and column", "[config_file]") {
  for (const char* text : {"a = \n", "ok = 1\na = ", "a = 1\na = 2\n", "a = \"\n", "[x\n", "\xff = 1\n",
                           "a = 99999999999999999999"}) {
    INFO(text);
    const auto tree = parse_config(text, "x.conf");
    REQUIRE_FALSE(tree.has_value());
    CHECK(tree.error().text.starts_with("x.conf:"));
    CHECK(tree.error().text.find('\n') == std::string::npos);
  }
  CHECK(parse_config("ok = 1\na = \n", "x.conf").error().text.starts_with("x.conf:2:"));
}

TEST_CASE("a missing file says so", "[config_file]") {
  const test::TempDir dir;
  const auto tree = read_config_file(dir.file("absent.conf"));
  REQUIRE_FALSE(tree.has_value());
  CHECK(tree.error().text.find("ENOENT") != std::string::npos);
  CHECK(tree.error().text.starts_with(dir.path()));
}

TEST_CASE("a file beyond the bound is refused", "[config_file]") {
  const test::TempDir dir;
  const std::string path = dir.write("big.conf", std::string(kMaxConfigBytes + 100, '\n'));
  CHECK_FALSE(read_config_file(path).has_value());
}
