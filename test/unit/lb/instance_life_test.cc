#include "lb/instance_life.h"

#include "test/support/catch.h"

namespace dlb::lb {
namespace {

using News = InstanceLife::News;

TEST_CASE("a start is not over before the supervisor has read of it") {
  InstanceLife life;
  CHECK(life.hear(nullptr) == News::None);
  const SupervisedChild running{.port = 7001, .pid = 12};
  CHECK(life.hear(&running) == News::None);
  CHECK(life.pid == 12);
  CHECK(life.hear(nullptr) == News::Over);  // its end has been told to somebody else
  CHECK_FALSE(life.ended);
}

TEST_CASE("an end that is told again is the same one's, until the supervisor has forgotten it") {
  InstanceLife life;
  const SupervisedChild running{.port = 7001, .pid = 12}, stopping{7001, 12, ChildState::Stopping};
  const SupervisedChild exited{.port = 7001, .pid = 12, .state = ChildState::Exited, .status = 768};
  life.hear(&running);
  CHECK(life.hear(&stopping) == News::None);
  CHECK(life.hear(&exited) == News::Ended);
  CHECK(life.status == 768);
  CHECK(life.hear(&exited) == News::None);  // `forget` has not been read yet
  CHECK(life.hear(nullptr) == News::Over);
}

TEST_CASE("one that ends before it is first told of has one end, too") {
  InstanceLife life;
  const SupervisedChild exited{.port = 7001, .pid = 12, .state = ChildState::Exited, .status = 9};
  CHECK(life.hear(&exited) == News::Ended);
  CHECK(life.hear(&exited) == News::None);
  CHECK(life.hear(nullptr) == News::Over);
}

}  // namespace
}  // namespace dlb::lb
