// Subscribers: all chat users of a run. Brings them in, at most kJoiningAtOnce at a time; plans who drops and
// resumes; gives what they receive to the oracle and to the figures; and knows whether all have come as far
// as they must. On the run's loop.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "common/event_loop.h"
#include "common/rsa_pss.h"
#include "common/timer_heap.h"
#include "loadgen/chat_frames.h"
#include "loadgen/chat_result.h"
#include "loadgen/subscriber.h"
#include "loadgen/ws_client.h"
#include "loadgen/ws_url.h"

namespace dlb::loadgen {

// Who is told of what publishers are told.
class PublishUser {
 public:
  virtual void on_publisher_arrived(std::size_t number) = 0;
  // Its connection is lost: what was sent and not answered never will be.
  virtual void on_publisher_left(std::size_t number) = 0;
  // An ack, or an error.
  virtual void on_publish_answer(std::size_t number, const ServerSaid& said) = 0;

 protected:
  ~PublishUser() = default;
};

class Subscribers final {
 public:
  static constexpr std::size_t kJoiningAtOnce = 64;

  struct Parts {
    EventLoop& loop;
    const std::vector<WsUrl>& urls;  // subscriber n is at url n modulo their number
    const TlsContext* tls;           // null when no url has TLS
    const RsaPrivateKey& key;        // of all of them
    std::string prefix;              // of their names
    std::uint64_t seed;
    DeliveryOracle& oracle;
    ChatResult& result;
  };

  // They begin behind `base`.
  Subscribers(const Parts& parts, std::size_t count, std::int64_t base);
  Subscribers(const Subscribers&) = delete;
  Subscribers& operator=(const Subscribers&) = delete;

  void join();
  bool all_joined() const { return joined_ == all_.size(); }
  // Why it can't go on; empty as long as it can. And the latest trouble, whatever it was.
  const std::string& hopeless() const { return hopeless_; }
  const std::string& latest_trouble() const { return latest_trouble_; }

  // `percent` of those from number `first` on drop once within `span` from now.
  void plan_drops(double percent, std::size_t first, Duration span);
  // Of those who have not got as far as the oracle says, or are not connected.
  std::size_t behind() const;
  void leave();

  void set_publish_user(PublishUser* user) { publish_user_ = user; }
  Subscriber& at(std::size_t number) { return all_[number]; }
  std::size_t size() const { return all_.size(); }

  // For subscribers.
  const Parts& parts() const { return parts_; }
  ChatResult& result() { return parts_.result; }
  FrameReader& frames() { return frames_; }
  TimerHeap& timers() { return timers_; }
  WsClientTimers& socket_timers() { return socket_timers_; }
  const std::string& public_key() const { return public_key_; }
  void received(std::size_t group, const DeliveryOracle::Receipt& receipt, TimePoint now);
  void arrived(Subscriber& subscriber, bool first);
  void left(Subscriber& subscriber);
  void answered(Subscriber& subscriber, const ServerSaid& said);
  void trouble(const std::string& why, bool hopeless);

 private:
  void join_some();

  Parts parts_;
  std::string public_key_;  // base64
  WsClientTimers socket_timers_;
  TimerHeap timers_;
  FrameReader frames_;
  std::deque<Subscriber> all_;
  std::size_t joining_ = 0;  // begun, from number 0 on
  std::size_t joined_ = 0;
  PublishUser* publish_user_ = nullptr;
  std::string hopeless_;
  std::string latest_trouble_;
};

}  // namespace dlb::loadgen
