#include "loadgen/subscriber.h"

#include "common/clock.h"
#include "loadgen/hash.h"
#include "loadgen/subscribers.h"

namespace dlb::loadgen {
namespace {

// A registration's timestamp holds for five minutes.
constexpr Duration kSignatureAge = std::chrono::minutes(3);

std::uint64_t micros(Duration time) {
  return time.count() <= 0 ? 0 : static_cast<std::uint64_t>(time.count()) / 1000;
}

}  // namespace

Subscriber::Subscriber(Subscribers& all, std::size_t number, std::size_t group, std::size_t stream)
    : all_(all),
      number_(number),
      group_(group),
      stream_(stream),
      rng_(mix64(all.parts().seed ^ mix64(number + 1))),
      socket_(all.parts().loop, all.socket_timers(), all.parts().tls, *this, kReadBytes),
      wait_(all.timers(), *this),
      drop_(all.timers(), *this) {}

std::string Subscriber::name() const { return all_.parts().prefix + std::to_string(number_); }

void Subscriber::connect() {
  state_ = State::Connecting;
  began_ = monotonic_now();
  wait_.arm_at(began_ + kJoinTimeout);
  if (auto opened = socket_.open(all_.parts().urls[group_]); !opened)
    on_ws_end({opened.error().text, 0, false});
}

void Subscriber::drop_at(TimePoint when, Duration away) {
  away_ = away;
  drop_.arm_at(when);
}

void Subscriber::leave() {
  wait_.cancel();
  drop_.cancel();
  socket_.drop();
  state_ = State::Away;
}

void Subscriber::go_away(Duration time) {
  const bool was_live = live();
  state_ = State::Away;
  wait_.arm_at(all_.parts().loop.now() + time);
  if (was_live) all_.left(*this);
}

void Subscriber::on_heap_timer(HeapTimer& timer) {
  if (&timer == &drop_) {
    if (!live()) return;  // it has been dropped already, by others
    ++all_.result().planned_drops;
    socket_.drop();
    return go_away(away_);
  }
  if (state_ == State::Away) return connect();
  socket_.drop();
  on_ws_end({name() + ": no registration and replay in time", 0, false});
}

void Subscriber::on_ws_open() {
  state_ = State::Registering;
  const TimePoint now = monotonic_now();
  if (registration_.signature.empty() || now - signed_at_ > kSignatureAge) {
    registration_ = sign_registration(all_.parts().key, name(), iso8601_utc(wall_now_us()));
    signed_at_ = now;
  }
  socket_.send_text(
      register_request(registration_, all_.public_key(), name(), all_.parts().oracle.last(stream_)));
}

void Subscriber::on_ws_end(const WsClientEnd& end) {
  if (was_live_ && state_ != State::Connecting) {  // an attempt to come back that failed is none
    ++all_.result().lost_connections;
    if (end.code == ws_close::kTryLater) ++all_.result().slow_closes;
  }
  all_.trouble(end.why, end.hopeless && !was_live_);
  go_away(Duration(static_cast<Duration::rep>(rng_.unit() * static_cast<double>(kMaxAway.count()))));
}

void Subscriber::on_ws_text(std::string_view text) {
  const TimePoint now = monotonic_now();
  if (const ChatRow* const row = all_.frames().row(text); row != nullptr) {
    return all_.received(group_, all_.parts().oracle.received(stream_, *row), now);
  }
  take(all_.frames().said());
}

void Subscriber::take(ServerSaid& said) {
  switch (said.kind) {
    case ServerSaid::Kind::Registered:
      if (state_ == State::Registering) state_ = State::Replaying;
      return;
    case ServerSaid::Kind::Resumed: {
      if (state_ != State::Replaying) return;
      state_ = State::Live;
      wait_.cancel();
      const Duration took = monotonic_now() - began_;
      (was_live_ ? all_.result().catch_up_us : all_.result().join_us).record(micros(took));
      if (was_live_) ++all_.result().resumed;
      const bool first = !was_live_;
      was_live_ = true;
      return all_.arrived(*this, first);
    }
    case ServerSaid::Kind::Reset:
      return all_.parts().oracle.reset(stream_);
    case ServerSaid::Kind::Ack:
    case ServerSaid::Kind::Error:
      if (live()) return all_.answered(*this, said);
      socket_.drop();
      return on_ws_end({name() + ": " + said.code + ": " + said.detail, 0, !error_passes(said.code)});
    case ServerSaid::Kind::Broken:
      socket_.drop();
      return on_ws_end({"the server doesn't speak this chat's protocol", 0, true});
    case ServerSaid::Kind::Message:
    case ServerSaid::Kind::History:
    case ServerSaid::Kind::Key:
    case ServerSaid::Kind::Pong:
    case ServerSaid::Kind::Unknown:
      return;
  }
}

}  // namespace dlb::loadgen
