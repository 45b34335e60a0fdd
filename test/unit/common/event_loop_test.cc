#include "common/event_loop.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/acceptor.h"
#include "common/mailbox.h"
#include "common/rng.h"
#include "common/slab.h"
#include "common/socket.h"
#include "common/timer_heap.h"
#include "common/timer_list.h"
#include "common/transport.h"
#include "test/support/catch.h"

namespace dlb {
namespace {

using std::chrono::milliseconds;

struct Pair {
  Fd a, b;
  Pair() {
    int fds[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
    a = Fd(fds[0]);
    b = Fd(fds[1]);
  }
};

struct Recorder final : EventHandler {
  std::vector<std::uint32_t> events;
  std::function<void()> then;
  void on_events(std::uint32_t e) override {
    events.push_back(e);
    if (then) then();
  }
};

template <class Done>
bool turn_until(EventLoop& loop, Done done) {
  for (int i = 0; i < 2000 && !done(); ++i) loop.run_once(milliseconds(5));
  return done();
}

}  // namespace

TEST_CASE("an event of a source removed earlier in the same batch is dropped and counted") {
  EventLoop loop;
  Pair first, second;
  Recorder one, two;
  auto id_one = loop.add(first.a.get(), one, EventLoop::kReadOnlyEvents);
  auto id_two = loop.add(second.a.get(), two, EventLoop::kReadOnlyEvents);
  REQUIRE((id_one && id_two));
  // Whichever comes first removes the other and reuses its place for a third descriptor.
  Pair third;
  Recorder newcomer;
  const auto remove_other = [&](SourceId other, Pair& pair) {
    loop.remove(other, pair.a.get());
    pair.a.reset();
    REQUIRE(loop.add(third.a.get(), newcomer, EventLoop::kReadOnlyEvents));
  };
  one.then = [&] { remove_other(*id_two, second); };
  two.then = [&] { remove_other(*id_one, first); };
  REQUIRE(::write(first.b.get(), "x", 1) == 1);
  REQUIRE(::write(second.b.get(), "x", 1) == 1);
  loop.run_once(milliseconds(100));
  CHECK(one.events.size() + two.events.size() == 1);
  CHECK(newcomer.events.empty());
  CHECK(loop.counters().stale_events == 1);
}

TEST_CASE("make_runnable runs the handler without an event, once, and without sleeping") {
  EventLoop loop;
  Pair pair;
  Recorder handler;
  auto id = loop.add(pair.a.get(), handler, EventLoop::kReadOnlyEvents);
  REQUIRE(id);
  loop.make_runnable(*id);
  loop.make_runnable(*id);
  const TimePoint before = monotonic_now();
  loop.run_once(std::chrono::seconds(10));
  CHECK(monotonic_now() - before < std::chrono::seconds(5));
  CHECK(handler.events == std::vector<std::uint32_t>{0});
}

TEST_CASE("timer lists fire in order of arming, not before their time, and cancel in place") {
  EventLoop loop;
  TimerList list(loop, milliseconds(20));
  struct Owner final : TimerHandler {
    std::vector<Timer*> fired;
    void on_timer(Timer& t) override { fired.push_back(&t); }
  } owner;
  Timer a(owner), b(owner), c(owner);
  const TimePoint start = monotonic_now();
  list.arm(a);
  list.arm(b);
  list.arm(c);
  b.cancel();
  list.arm(a);  // re-armed: now behind c
  REQUIRE(turn_until(loop, [&] { return owner.fired.size() == 2; }));
  CHECK(monotonic_now() - start >= milliseconds(19));
  CHECK(owner.fired == std::vector<Timer*>{&c, &a});
  CHECK(list.empty());
}

TEST_CASE("a timer list of zero is off, and destroying an armed timer unlinks it") {
  EventLoop loop;
  struct Owner final : TimerHandler {
    void on_timer(Timer&) override { FAIL("fired"); }
  } owner;
  TimerList off(loop, Duration::zero());
  Timer never(owner);
  off.arm(never);
  CHECK_FALSE(never.armed());
  TimerList list(loop, milliseconds(1));
  {
    Timer gone(owner);
    list.arm(gone);
  }
  CHECK(list.empty());
}

TEST_CASE("a timer class keeps what was armed when its duration changes, and arms anew with the new one") {
  EventLoop loop;
  struct Owner final : TimerHandler {
    std::vector<Timer*> fired;
    void on_timer(Timer& t) override { fired.push_back(&t); }
  } owner;
  TimerClass timers(loop, std::chrono::hours(1));
  Timer a(owner), b(owner), c(owner);
  timers.arm(a);
  timers.arm(c);
  timers.set_duration(std::chrono::hours(1));
  CHECK(timers.older() == 0);
  timers.set_duration(milliseconds(1));
  timers.arm(b);
  timers.arm(c);  // re-armed: has the new duration now
  REQUIRE(turn_until(loop, [&] { return owner.fired.size() == 2; }));
  CHECK(owner.fired == std::vector<Timer*>{&b, &c});
  CHECK(a.armed());
  CHECK_FALSE(timers.empty());
  CHECK(timers.older() == 1);
  CHECK(timers.expire_oldest());
  CHECK(owner.fired.back() == &a);
  CHECK_FALSE(timers.expire_oldest());
  timers.set_duration(milliseconds(2));
  CHECK(timers.older() == 0);
}

TEST_CASE("a timer heap fires by deadline under random arming, re-arming and cancelling") {
  Rng rng(7);
  EventLoop loop;
  TimerHeap heap(loop);
  struct Owner final : HeapTimerHandler {
    std::vector<TimePoint> fired;
    void on_heap_timer(HeapTimer& t) override { fired.push_back(t.deadline()); }
  } owner;
  std::vector<std::unique_ptr<HeapTimer>> timers;
  for (int i = 0; i < 300; ++i) timers.push_back(std::make_unique<HeapTimer>(heap, owner));
  const TimePoint base = monotonic_now();
  for (int i = 0; i < 2000; ++i) {
    HeapTimer& timer = *timers[rng.below(timers.size())];
    if (rng.below(4) == 0) {
      timer.cancel();
    } else {
      timer.arm_at(base + milliseconds(rng.below(1000)));
    }
  }
  std::size_t armed = 0;
  for (const auto& timer : timers) armed += timer->armed() ? 1 : 0;
  CHECK(heap.size() == armed);
  heap.expire(base + milliseconds(400));
  CHECK(std::is_sorted(owner.fired.begin(), owner.fired.end()));
  for (const auto& timer : timers) CHECK((!timer->armed() || timer->deadline() > base + milliseconds(400)));
  heap.expire(base + milliseconds(1000));
  CHECK(owner.fired.size() == armed);
  CHECK(heap.next_deadline() == kNever);
}

TEST_CASE("a mailbox delivers every thread's mail in order and refuses what is over its capacity") {
  EventLoop loop;
  struct Receiver final : MailboxHandler<int> {
    std::vector<int> got;
    void on_mail(int mail) override { got.push_back(mail); }
  } receiver;
  Mailbox<int> box(loop, receiver, 100000);
  std::atomic<int> refused{0};
  const auto send = [&](int from) {
    for (int i = 0; i < 10000; ++i) refused += box.post(from * 10000 + i) ? 0 : 1;
  };
  std::thread one(send, 0);
  std::thread two(send, 1);
  REQUIRE(turn_until(loop, [&] { return receiver.got.size() == 20000; }));
  one.join();
  two.join();
  CHECK(refused == 0);
  int next[2] = {0, 10000};
  for (const int mail : receiver.got) CHECK(mail == next[mail / 10000]++);

  Mailbox<int> small(loop, receiver, 2);
  CHECK(small.post(1));
  CHECK(small.post(2));
  CHECK_FALSE(small.post(3));
}

TEST_CASE("stop from another thread ends run()") {
  EventLoop loop;
  std::thread stopper([&loop] { loop.stop(); });
  loop.run();
  stopper.join();
  SUCCEED();
}

TEST_CASE("slab handles die with their object, and its place is used again only after reap") {
  struct Thing {
    explicit Thing(int v, Handle<Thing> h) : value(v), self(h) {}
    int value;
    Handle<Thing> self;
  };
  Slab<Thing> slab(3);
  Thing* a = slab.create(1);
  const Handle<Thing> handle = a->self;
  CHECK(slab.get(handle) == a);
  CHECK(slab.get(Handle<Thing>{}) == nullptr);
  slab.retire(handle);
  CHECK(slab.get(handle) == nullptr);
  CHECK(a->value == 1);  // alive until reap
  Thing* b = slab.create(2);
  CHECK(b != a);
  slab.reap();
  Thing* c = slab.create(3);
  CHECK(c == a);
  CHECK(slab.get(handle) == nullptr);
  REQUIRE(slab.create(4) != nullptr);
  CHECK(slab.create(5) == nullptr);
  CHECK(Handle<Thing>::unpack(c->self.pack()) == c->self);
}

TEST_CASE("the acceptor takes what waited before it was made, and goes on after descriptors ran out") {
  EventLoop loop;
  auto address = Address::parse("127.0.0.1:0");
  REQUIRE(address);
  auto listener = listen_on(*address, 128);
  REQUIRE(listener);
  bool in_progress = false;
  auto early = connect_start(local_address(listener->get()), &in_progress);
  REQUIRE(early);
  struct Handler final : AcceptHandler {
    std::vector<Fd> got;
    void on_accept(Fd fd, const Address& peer) override {
      CHECK(peer.is_loopback());
      got.push_back(std::move(fd));
    }
  } handler;
  Acceptor acceptor(loop, listener->get(), handler);
  REQUIRE(turn_until(loop, [&] { return handler.got.size() == 1; }));
}

TEST_CASE("a transport reads to the end behind a FIN without another edge") {
  EventLoop loop;
  Pair pair;
  Transport transport(std::move(pair.a));
  std::string got;
  IoStatus last = IoStatus::WouldBlock;
  struct Reader final : EventHandler {
    std::function<void(std::uint32_t)> f;
    void on_events(std::uint32_t e) override { f(e); }
  } reader;
  reader.f = [&](std::uint32_t e) {
    transport.note_events(e);
    char buffer[64];
    for (;;) {
      const IoResult result = transport.read(buffer);
      last = result.status;
      if (!result.ok()) return;
      got.append(buffer, result.bytes);
    }
  };
  REQUIRE(transport.attach(loop, reader));
  REQUIRE(::write(pair.b.get(), "hello", 5) == 5);
  pair.b.reset();
  REQUIRE(turn_until(loop, [&] { return last == IoStatus::Eof; }));
  CHECK(got == "hello");
  CHECK(transport.peer_finished());
  transport.close(loop);
}

}  // namespace dlb
