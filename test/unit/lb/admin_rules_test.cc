#include "lb/admin_rules.h"

#include <string>
#include <vector>

#include "test/support/catch.h"

namespace dlb::lb {
namespace {

using Kind = AdminRoute::Kind;

TEST_CASE("admin routes") {
  const auto is = [](std::string_view path, Kind kind, std::string_view backend = {}) {
    CAPTURE(std::string(path));
    const AdminRoute route = admin_route(path);
    CHECK(route.kind == kind);
    CHECK(route.backend == backend);
  };
  is("/lb/backends/sys2/drain", Kind::Drain, "sys2");
  is("/lb/backends/sys2/ready", Kind::Ready, "sys2");
  is("/lb/backends/sys2/weight", Kind::Weight, "sys2");
  is("/lb/backends/sys2", Kind::Show, "sys2");
  is("/lb/backends/sys2/dance", Kind::Show, "sys2/dance");
  is("/lb/backends/127.0.0.1:6001/drain", Kind::Drain, "127.0.0.1:6001");
  is("/lb/backends/unix:/run/a/drain", Kind::Drain, "unix:/run/a");
  is("/lb/backends/unix%3a%2Frun/ready", Kind::Ready, "unix:/run");
  is("/lb/backends/a%2/ready", Kind::Ready, "a%2");
  is("/lb/backends/a%zz", Kind::Show, "a%zz");
  is("/lb/backends/", Kind::Nothing);
  is("/lb/reload", Kind::Reload);
  is("/lb/reload/", Kind::Page);
  is("/lb/backends//drain", Kind::Nothing);
  is("/lb/status", Kind::Page);
  is("/lb/backends", Kind::Page);
  is("/", Kind::Nothing);
  is("/message", Kind::Nothing);
}

TEST_CASE("the weight of a query") {
  CHECK(weight_value("value=0") == 0);
  CHECK(weight_value("value=65535") == 65535);
  for (const std::string_view bad :
       {"", "value=", "value=65536", "value=-1", "value=1x", "value=+1", "value= 1",
        "value=99999999999999999999", "weight=1", "value=1&value=2"}) {
    CAPTURE(std::string(bad));
    CHECK_FALSE(weight_value(bad));
  }
}

TEST_CASE("which Host fields name the admin listener") {
  const std::vector<std::string> names = {"sys1.lan", "sys1"};
  for (const std::string_view host : {"", "localhost", "LOCALHOST:9180", "127.0.0.1", "127.0.0.1:1",
                                      "127.9.9.9:80", "[::1]", "[::1]:9180", "sys1.lan:9180", "SYS1"}) {
    CAPTURE(std::string(host));
    CHECK(host_is_ours(host, false, names));
    CHECK(host_is_ours(host, true, names));
  }
  for (const std::string_view host : {"10.0.0.1", "[fd00::1]:80"}) {
    CAPTURE(std::string(host));
    CHECK_FALSE(host_is_ours(host, false, names));
    CHECK(host_is_ours(host, true, names));
  }
  for (const std::string_view host :
       {"evil.example", "evil.example:9180", "localhost.evil.example", "127.0.0.1.evil.example",
        "sys1.lan.evil.example", "[::1", ":9180", "1.2.3", "2130706433"}) {
    CAPTURE(std::string(host));
    CHECK_FALSE(host_is_ours(host, false, names));
    CHECK_FALSE(host_is_ours(host, true, names));
  }
}

TEST_CASE("only a page of our own may ask") {
  CHECK(origin_is_ours("http://127.0.0.1:9180", "127.0.0.1:9180"));
  CHECK(origin_is_ours("http://LOCALHOST:9180", "localhost:9180"));
  for (const std::string_view origin :
       {"", "null", "http://127.0.0.1", "http://127.0.0.1:8080", "https://127.0.0.1:9180",
        "http://evil.example", "http://127.0.0.1:9180.evil.example", "http://127.0.0.1:9180/"}) {
    CAPTURE(std::string(origin));
    CHECK_FALSE(origin_is_ours(origin, "127.0.0.1:9180"));
  }
  CHECK_FALSE(origin_is_ours("http://", ""));
}

TEST_CASE("bearer tokens") {
  CHECK(bearer_is("Bearer s3cret", "s3cret"));
  CHECK(bearer_is("bearer   s3cret", "s3cret"));
  for (const std::string_view field :
       {"", "Bearer", "Bearer ", "Bearer s3cre", "Bearer s3crets", "Bearer s3crets3cret", "Bearer S3cret",
        "s3cret", "Basic s3cret", "Bearer  ", "Bearers3cret"}) {
    CAPTURE(std::string(field));
    CHECK_FALSE(bearer_is(field, "s3cret"));
    CHECK_FALSE(bearer_is(field, ""));
  }
}

}  // namespace
}  // namespace dlb::lb
