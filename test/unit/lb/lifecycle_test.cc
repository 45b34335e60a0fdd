#include "lb/lifecycle.h"

#include "test/support/catch.h"

namespace dlb::lb {
namespace {

TEST_CASE("tunnels are closed evenly over their drain") {
  using std::chrono::seconds;
  CHECK(tunnels_to_keep(10, seconds(60), seconds(60)) == 10);
  CHECK(tunnels_to_keep(10, seconds(30), seconds(60)) == 5);
  CHECK(tunnels_to_keep(10, seconds(29), seconds(60)) == 5);
  CHECK(tunnels_to_keep(10, seconds(1), seconds(60)) == 1);
  CHECK(tunnels_to_keep(10, seconds(0), seconds(60)) == 0);
  CHECK(tunnels_to_keep(10, seconds(-5), seconds(60)) == 0);
  CHECK(tunnels_to_keep(1, seconds(1), seconds(60)) == 1);
  CHECK(tunnels_to_keep(0, seconds(30), seconds(60)) == 0);
  CHECK(tunnels_to_keep(5, seconds(0), seconds(0)) == 0);
}

}  // namespace
}  // namespace dlb::lb
