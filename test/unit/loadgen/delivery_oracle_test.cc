// The delivery oracle's negative controls: every fault that is planted in a stream must be found and named,
// and right streams must pass.
#include "loadgen/delivery_oracle.h"

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "common/rng.h"
#include "loadgen/hash.h"
#include "loadgen/payload.h"
#include "test/support/catch.h"

namespace dlb::loadgen {
namespace {

constexpr std::int64_t kBase = 100;

struct Sent {
  std::string id;
  MessageId number;
  std::int64_t sequence = 0;
  std::uint64_t content = 0;
  std::uint64_t stamp = 0;
  bool ours = true;

  ChatRow row() const { return {sequence, id, content, stamp}; }
};

// Three subscribers, two at one backend and one at another; twelve messages of ours, with holes between their
// sequences, and two of somebody else.
struct World {
  DeliveryOracle oracle;
  std::vector<Sent> rows;

  World() {
    oracle.add_group("wss://one");
    oracle.add_group("wss://two");
    for (const std::size_t group : {0U, 0U, 1U}) oracle.add_stream(group, kBase);
    PayloadShape shape;
    Payload payload(shape);
    for (std::uint64_t i = 0; i < 14; ++i) {
      const Message message = payload.message(i);
      Sent sent;
      sent.ours = i != 4 && i != 9;
      sent.number = message.id;
      sent.id.resize(kMessageIdChars);
      write_message_id(message.id, sent.id.data());
      if (!sent.ours) sent.id = "somebody's " + std::to_string(i);
      sent.sequence = kBase + 1 + static_cast<std::int64_t>(i) * 2;
      sent.content = content_hash(message.client_name, message.text);
      sent.stamp = 1000 + i;
      rows.push_back(sent);
      if (sent.ours) oracle.sent(sent.number, sent.content, TimePoint{Duration(i)});
    }
  }

  void accept(const Sent& sent) {
    if (sent.ours) oracle.accepted(sent.number, sent.sequence, sent.stamp, TimePoint{Duration(50)});
  }
  // To all streams, the promise behind the first of them. `on_second` changes what the second stream gets.
  void deliver(const std::function<void(std::vector<Sent>&)>& on_second = {}) {
    std::vector<Sent> other = rows;
    if (on_second) on_second(other);
    for (const Sent& sent : rows) {
      oracle.received(0, sent.row());
      accept(sent);
      oracle.received(2, sent.row());
    }
    for (const Sent& sent : other) oracle.received(1, sent.row());
  }
  Delivery judge(bool with_feed = true) {
    if (with_feed) {
      for (const Sent& sent : rows) oracle.feed_row(sent.row());
      oracle.feed_done();
    }
    return oracle.judge();
  }
};

bool names(const Delivery& delivery, const std::string& text) {
  return std::any_of(delivery.examples.begin(), delivery.examples.end(),
                     [&](const std::string& example) { return example == text; });
}

TEST_CASE("streams that got every row once and in order pass") {
  World world;
  world.deliver();
  const Delivery delivery = world.judge();
  CHECK(delivery.passed());
  CHECK(delivery.accepted == 12);
  CHECK(delivery.rows == 14);
  CHECK(delivery.foreign_rows == 2);
  CHECK(delivery.expected() == 42);
  CHECK(delivery.delivered() == 42);
  CHECK(delivery.groups[0].streams == 2);
  CHECK(delivery.examples.empty());
}

TEST_CASE("a row that one stream missed is named, behind which nothing or something came") {
  for (const std::size_t which : {std::size_t{0}, std::size_t{6}, std::size_t{13}}) {
    for (const bool feed : {true, false}) {
      World world;
      world.deliver([&](std::vector<Sent>& rows) { rows.erase(rows.begin() + static_cast<long>(which)); });
      const Delivery delivery = world.judge(feed);
      INFO("row " << which << " feed " << feed);
      CHECK_FALSE(delivery.passed());
      CHECK(delivery.groups[0].faults.missed == 1);
      CHECK(delivery.groups[1].faults.sum() == 0);
      CHECK(delivery.faults().sum() == 1);
      CHECK(delivery.delivered() == 41);
      CHECK(names(delivery, "missed " + world.rows[which].id + " (sequence " +
                                std::to_string(world.rows[which].sequence) + "): subscriber 1 at wss://one"));
    }
  }
}

TEST_CASE("a row that came twice, too late, or altered is named") {
  using Rows = std::vector<Sent>;
  const auto change = GENERATE(0, 1, 2, 3, 4);
  World world;
  const std::string where = world.rows[6].id + " (sequence " + std::to_string(world.rows[6].sequence) +
                            "): subscriber 1 at wss://one";
  world.deliver([&](Rows& rows) {
    if (change == 0) rows.insert(rows.begin() + 7, rows[6]);
    if (change == 1) std::swap(rows[6], rows[7]);
    if (change == 2) rows[6].content ^= 1;
    if (change == 3) rows[6].stamp ^= 1;
    if (change == 4) rows.push_back(rows[6]);
  });
  const Delivery delivery = world.judge();
  const StreamFaults faults = delivery.faults();
  CHECK(faults.sum() == 1);
  CHECK(faults.duplicated == (change == 0 || change == 4 ? 1 : 0));
  CHECK(faults.reordered == (change == 1 ? 1 : 0));
  CHECK(faults.altered == (change == 2 || change == 3 ? 1 : 0));
  CHECK(delivery.groups[1].faults.sum() == 0);
  CHECK(names(delivery, (change == 0 || change == 4 ? "duplicated "
                         : change == 1              ? "reordered "
                                                    : "altered ") +
                            where));
}

TEST_CASE("a text that is altered on the first stream that shows it is that stream's fault") {
  World world;
  Sent wrong = world.rows[6];
  wrong.content ^= 1;
  for (std::size_t stream : {0U, 1U, 2U}) {
    for (std::size_t i = 0; i < world.rows.size(); ++i) {
      world.oracle.received(stream, stream == 0 && i == 6 ? wrong.row() : world.rows[i].row());
    }
  }
  for (const Sent& sent : world.rows) world.accept(sent);
  const Delivery delivery = world.judge();
  CHECK(delivery.faults().altered == 1);
  CHECK(delivery.faults().sum() == 1);
  CHECK(names(delivery, "altered " + wrong.id + " (sequence " + std::to_string(wrong.sequence) +
                            "): subscriber 0 at wss://one"));
}

TEST_CASE("a message under a second number is a duplicate, or was renumbered") {
  World world;
  world.deliver([](std::vector<Sent>& rows) {
    Sent copy = rows[6];
    copy.sequence = rows.back().sequence + 10;
    rows.push_back(copy);
  });
  CHECK(world.judge().faults().duplicated == 1);

  World other;
  other.deliver([](std::vector<Sent>& rows) { rows[6].sequence += 1; });
  const Delivery delivery = other.judge();
  CHECK(delivery.faults().altered == 1);
  CHECK(delivery.faults().missed == 1);
}

TEST_CASE("what all streams missed is known by promises and by the feed") {
  for (const bool accepted : {true, false}) {
    World world;
    for (std::size_t i = 0; i < world.rows.size(); ++i) {
      if (i != 6 || accepted) world.accept(world.rows[i]);
      for (std::size_t stream : {0U, 1U, 2U}) {
        if (i != 6) world.oracle.received(stream, world.rows[i].row());
      }
    }
    INFO("accepted " << accepted);
    const Delivery delivery = world.judge(!accepted);
    CHECK(delivery.faults().missed == 3);
    CHECK(delivery.faults().sum() == 3);
  }
}

TEST_CASE("an ambiguous message is a row when the feed has it, and a phantom when only a stream has") {
  World world;
  for (const Sent& sent : world.rows) {
    for (std::size_t stream : {0U, 1U, 2U}) world.oracle.received(stream, sent.row());
  }
  CHECK(world.judge().passed());

  World other;
  other.deliver();
  const Sent gone = other.rows[6];
  other.rows.erase(other.rows.begin() + 6);
  const Delivery delivery = other.judge();
  CHECK(delivery.faults().phantom == 1);
  CHECK(delivery.faults().sum() == 1);
  CHECK(names(delivery, "phantom " + gone.id + " (sequence " + std::to_string(gone.sequence) +
                            "): subscriber 0 at wss://one"));
}

TEST_CASE("a promise whose sequence or timestamp is another's is contradicted") {
  World world;
  for (const Sent& sent : world.rows) {
    for (std::size_t stream : {0U, 1U, 2U}) world.oracle.received(stream, sent.row());
  }
  world.oracle.accepted(world.rows[0].number, world.rows[1].sequence, 0, TimePoint{});
  world.oracle.accepted(world.rows[2].number, world.rows[2].sequence, 7, TimePoint{});
  const Delivery delivery = world.judge();
  CHECK(delivery.contradicted == 2);
  CHECK_FALSE(delivery.passed());
}

TEST_CASE("a row of others that differs from the feed is altered; a reset is a fault") {
  World world;
  world.deliver([](std::vector<Sent>& rows) { rows[4].content ^= 1; });
  CHECK(world.judge().faults().altered == 1);

  World all;
  all.deliver();
  all.rows[4].content ^= 1;
  CHECK(all.judge().faults().altered == 1);

  World reset;
  reset.deliver();
  reset.oracle.reset(2);
  const Delivery delivery = reset.judge();
  CHECK(delivery.resets() == 1);
  CHECK_FALSE(delivery.passed());
}

TEST_CASE("receipts tell when a message was meant to be sent and when it was promised") {
  World world;
  const Sent& sent = world.rows[1];
  const auto first = world.oracle.received(0, sent.row());
  CHECK(first.ours);
  CHECK(first.intended == TimePoint{Duration(1)});
  CHECK(first.accepted_at == TimePoint{});
  world.oracle.accepted(sent.number, sent.sequence, sent.stamp, TimePoint{Duration(50)});
  CHECK(world.oracle.before_promise() == 1);
  CHECK(world.oracle.received(1, sent.row()).accepted_at == TimePoint{Duration(50)});
  CHECK_FALSE(world.oracle.received(1, sent.row()).ours);
  CHECK_FALSE(world.oracle.received(1, world.rows[4].row()).ours);
  CHECK(world.oracle.horizon() == sent.sequence);
  CHECK(world.oracle.last(1) == world.rows[4].sequence);
}

TEST_CASE("a cursor knows what it took, whatever the order, and forgets only names") {
  Rng rng(5);
  for (int round = 0; round < 200; ++round) {
    StreamCursor cursor(10);
    std::vector<bool> had(200, false);
    std::uint64_t taken = 0;
    std::int64_t last = 10;
    for (int step = 0; step < 150; ++step) {
      const auto sequence = static_cast<std::int64_t>(rng.below(190));
      const bool again = sequence <= 10 || had[static_cast<std::size_t>(sequence)];
      REQUIRE(cursor.has(sequence) == again);
      const auto take = cursor.take(sequence);
      REQUIRE((take == StreamCursor::Take::Again) == again);
      REQUIRE((take == StreamCursor::Take::Next) == (sequence > last));
      taken += again ? 0 : 1;
      last = std::max(last, sequence);
      had[static_cast<std::size_t>(sequence)] = true;
    }
    REQUIRE(cursor.taken() == taken);
    REQUIRE(cursor.last() == last);
    for (std::size_t i = 1; i < cursor.gaps().size(); ++i) {
      REQUIRE(cursor.gaps()[i - 1].last + 1 < cursor.gaps()[i].first);
    }
  }
  StreamCursor far(0);
  for (std::int64_t i = 1; i <= 5000; ++i) far.take(i * 2);
  CHECK(far.forgot_gaps());
  CHECK(far.gaps().size() <= StreamCursor::kMaxGaps);
  CHECK(far.taken() == 5000);
}

TEST_CASE("what was missed is counted also where gaps are forgotten") {
  DeliveryOracle oracle;
  oracle.add_group("wss://one");
  oracle.add_stream(0, 0);
  oracle.add_stream(0, 0);
  for (std::int64_t i = 1; i <= 6000; ++i) {
    const std::string id = "row " + std::to_string(i);
    oracle.received(0, {i, id, 1, 1});
    if (i % 2 == 0) oracle.received(1, {i, id, 1, 1});
  }
  const Delivery delivery = oracle.judge();
  CHECK(delivery.faults().missed == 3000);
  CHECK(delivery.examples.size() == DeliveryOracle::kMaxExamples);
}

}  // namespace
}  // namespace dlb::loadgen
