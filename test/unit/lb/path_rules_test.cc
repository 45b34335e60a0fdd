#include "lb/path_rules.h"

#include "test/support/catch.h"

namespace dlb::lb {

TEST_CASE("a rule with a slash at its end names all below it, another only itself") {
  const std::vector<std::string> rules = {"/internal/", "/feed"};
  CHECK(path_matches("/internal/stats", rules));
  CHECK(path_matches("/internal", rules));
  CHECK_FALSE(path_matches("/internals", rules));
  CHECK(path_matches("/feed", rules));
  CHECK_FALSE(path_matches("/feed/x", rules));
  CHECK_FALSE(path_matches("/", {}));
}

TEST_CASE("a denied path can't be reached by writing it in another way") {
  const std::vector<std::string> rules = {"/internal/"};
  for (const char* path : {"/internal/stats", "//internal/stats", "/%69nternal/stats", "/x/../internal/stats",
                           "/./internal/stats", "/internal%2fstats", "/%2Finternal", "/a/b/..//../internal/",
                           "/x/%2e%2e/internal/stats", "/../internal/"}) {
    CAPTURE(path);
    CHECK(path_reaches(path, rules));
  }
  for (const char* path :
       {"/message", "/x/internal/", "/%69nternals", "/internal/../message", "/..", "/%", "/%zz"}) {
    CAPTURE(path);
    CHECK(path_reaches(path, rules) == (std::string(path) == "/internal/../message"));
  }
}

TEST_CASE("normal paths keep their end and never climb above the root") {
  CHECK(normal_path("/a//b/./c/../d") == "/a/b/d");
  CHECK(normal_path("/a/b/..") == "/a/");
  CHECK(normal_path("/../..") == "/");
  CHECK(normal_path("/a/") == "/a/");
}

}  // namespace dlb::lb
